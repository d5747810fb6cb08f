/**
 * What the dog in a photo really is, said by the user: one of the guesses of the answer, what is no breed, or any other
 * breed, as the server orders them, found by a few letters of any name; else the words themselves. One tap sends it and
 * goes back.
 */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const candidates = require('../../services/candidates')
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
    /** Without a title while something is searched. @type {{title: string, choices: Choice[]}[]} */
    sections: [],
    /** Said where a search finds nothing. */
    notKnown: '',
    /** Gone: the snap is not in the history any more. @type {'loading' | 'choosing' | 'failed' | 'gone'} */
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
    if (this.data.state === 'failed') this.load()
  },

  dress() {
    if (appearance.dress(this, 'correct')) this.show()
  },

  async load() {
    if (!this.outcome) return this.setData({ state: 'gone' })
    this.setData({ state: 'loading' })
    try {
      this.breeds = await breeds.all()
      this.setData({ state: 'choosing' })
    } catch (failure) {
      this.setData({ state: 'failed' })
    }
    this.show()
  },

  show() {
    const { text, language, words } = /** @type {any} */ (this.data)
    const likely = guesses(this.breeds, this.outcome)
    const others = this.breeds.filter((breed) => !likely.includes(breed))
    const toChoices = (some) => some.map((breed) => ofBreed(breed, language))
    const verdicts = VERDICTS.map((verdict) => ofVerdict(verdict, text)).filter(({ label }) => label)
    const found = breeds.search([...likely, ...others], words)
    const meant = breeds.isMix(words) ? verdicts.filter(({ key }) => key !== 'no_dog') : [] // a mix, or a breed that is not here
    const all = [
      { title: text.likely, choices: toChoices(likely) },
      { title: text.none, choices: verdicts },
      { title: text.all, choices: toChoices(others) },
    ]
    const sections = words ? [{ title: '', choices: [...meant, ...toChoices(found), ofWords(words, text)] }] : all
    this.setData({
      sections: sections.filter(({ choices }) => choices.length),
      notKnown: found.length || !text.notKnown ? '' : wording.fill(text.notKnown, { words }),
    })
  },

  onInput({ detail }) {
    this.setData({ words: detail.value.trim() })
    this.show()
  },

  async onChoose({ currentTarget }) {
    if (this.data.sending) return
    const choices = this.data.sections.flatMap((section) => section.choices)
    const { said } = choices.find(({ key }) => key === currentTarget.dataset.key)
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

/** Likely ones need no search. The one breed that was named is what the user has just said no to. */
function guesses(all, outcome) {
  if (!outcome) return []
  const open = outcome.breeds.filter((guess) => guess !== candidates.named(outcome))
  return open.map(({ id }) => all.find((breed) => breed.id === id)).filter(Boolean)
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
