/**
 * What the dog in a photo really is, said by the user: what is no breed, the guesses of the answer, then every breed, as
 * the server orders them, found by a few letters of any name; else the words themselves. One tap sends it and goes back.
 */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const feedback = require('../../services/feedback')
const history = require('../../services/history')
const routes = require('../../services/routes')
const waiting = require('../../services/waiting')
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
    /** @type {Choice[]} */
    choices: [],
    /** Said where a search finds nothing. */
    notKnown: '',
    /** @type {'loading' | 'choosing' | 'failed'} */
    state: 'loading',
    sending: false,
  },

  snapId: '',
  /** @type {import('../../services/classifier').Outcome | null} */
  outcome: null,
  /** @type {import('../../services/breeds').Breed[]} */
  breeds: [],

  /** @param {{id?: string}} query  of the snap */
  onLoad({ id = '' }) {
    this.snapId = id
    const kept = history.find(id)
    this.outcome = kept ? kept.outcome : null
    this.dress()
    return this.load()
  },

  onShow() {
    this.dress()
    waiting.send()
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
    const verdicts = VERDICTS.map((verdict) => ofVerdict(verdict, text)).filter(({ label }) => label)
    const meant = breeds.isMix(words) ? verdicts.filter(({ key }) => key !== 'no_dog') : [] // a mix, or a breed that is not here
    const choices = words ? [...meant, ...found, ofWords(words, text)] : [...verdicts, ...found]
    this.setData({ choices, notKnown: found.length || !text.notKnown ? '' : wording.fill(text.notKnown, { words }) })
  },

  onInput({ detail }) {
    this.setData({ words: detail.value.trim() })
    this.show()
  },

  async onChoose({ currentTarget }) {
    if (this.data.sending) return
    const { said } = this.data.choices.find(({ key }) => key === currentTarget.dataset.key)
    this.setData({ sending: true })
    try {
      await feedback.give(this.outcome.feedbackId, said)
      history.say(this.snapId, said, this.outcome.chosen)
      routes.back()
    } catch (failure) {
      wx.showToast({ title: this.data.text.notSent, icon: 'none' })
    }
    this.setData({ sending: false })
  },
})

/** Likely ones need no search. The one breed that was named as sure is what the user has just said no to. */
function guessesFirst(all, { breeds: guesses, state }) {
  const open = state === 'breed' ? guesses.slice(1) : guesses
  const likely = open.map(({ id }) => all.find((breed) => breed.id === id)).filter(Boolean)
  return [...likely, ...all.filter((breed) => !likely.includes(breed))]
}

/** @typedef {{key: string, label: string, second: string, said: import('../../services/feedback').Said}} Choice */

/** @returns {Choice} */
function ofBreed({ id, name, name_zh }, language) {
  const { main, second } = wording.names({ name, name_zh }, language)
  return { key: id, label: main, second, said: { verdict: '', breed: id, name, name_zh } }
}

/** @returns {Choice} */
function ofVerdict(verdict, text) {
  const label = text.verdicts ? text.verdicts[verdict] : ''
  return { key: verdict, label, second: '', said: { verdict, breed: '', name: '', name_zh: '' } }
}

/** A breed that the server does not know, as the user calls it. @returns {Choice} */
function ofWords(words, text) {
  const label = wording.fill(text.typed, { words })
  return { key: 'typed', label, second: text.verdicts.other, said: { verdict: 'other', breed: '', name: words, name_zh: words } }
}
