/**
 * What the dog in a photo really is, said by the user: the guesses of the answer first, then every breed, found by a few
 * letters of any of its names, and what is no breed. One tap sends it and goes back to the result.
 */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const feedback = require('../../services/feedback')
const history = require('../../services/history')
const routes = require('../../services/routes')
const wording = require('../../services/wording')

/** What can be said without a breed, in the server's words. */
const VERDICTS = ['mix', 'other', 'no_dog']

Page({
  data: {
    theme: '',
    language: '',
    /** @type {any} */
    text: {},
    words: '',
    /** @type {{key: string, name: string, second: string, breed: string, verdict: string}[]} */
    choices: [],
    /** @type {'loading' | 'choosing' | 'failed'} */
    state: 'loading',
    sending: false,
  },

  /** @type {import('../../services/classifier').Outcome | null} */
  outcome: null,
  /** @type {import('../../services/breeds').Breed[]} */
  breeds: [],

  /** @param {{id?: string}} query  of the snap */
  onLoad({ id = '' }) {
    const kept = history.find(id)
    this.outcome = kept ? kept.outcome : null
    this.dress()
    return this.load()
  },

  onShow() {
    this.dress()
  },

  dress() {
    if (appearance.dress(this, 'correct')) this.show()
  },

  async load() {
    this.setData({ state: 'loading' })
    try {
      if (!this.outcome) throw new Error('the photo is not in the history any more')
      this.breeds = guessesFirst(await breeds.all(), this.outcome)
      this.setData({ state: 'choosing' })
    } catch (failure) {
      this.setData({ state: 'failed' })
    }
    this.show()
  },

  show() {
    const { text, language, words } = /** @type {any} */ (this.data)
    const found = breeds.search(this.breeds, words).map((breed) => ofBreed(breed, language))
    this.setData({ choices: [...found, ...VERDICTS.map((verdict) => ofVerdict(verdict, text))] })
  },

  onInput({ detail }) {
    this.setData({ words: detail.value.trim() })
    this.show()
  },

  async onChoose({ currentTarget }) {
    const { breed, verdict } = currentTarget.dataset
    if (this.data.sending) return
    this.setData({ sending: true })
    try {
      await feedback.give(this.outcome.feedbackId, breed ? { breed } : { verdict })
      routes.back()
    } catch (failure) {
      wx.showToast({ title: this.data.text.notSent, icon: 'none' })
    }
    this.setData({ sending: false })
  },
})

/** Likely ones need no search. The one breed that was named as sure is what the user has just said no to. */
function guessesFirst(all, { breeds: guesses, state }) {
  const open = state === 'shown' ? guesses.slice(1) : guesses
  const likely = open.map(({ id }) => all.find((breed) => breed.id === id)).filter(Boolean)
  return [...likely, ...all.filter((breed) => !likely.includes(breed))]
}

function ofBreed(breed, language) {
  const { main, second } = wording.names(breed, language)
  return { key: breed.id, name: main, second, breed: breed.id, verdict: '' }
}

function ofVerdict(verdict, text) {
  return { key: verdict, name: text.verdicts ? text.verdicts[verdict] : '', second: '', breed: '', verdict }
}
