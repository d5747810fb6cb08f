/**
 * What the dog in a photo really is, said by the user: one of the guesses of the answer, what is no breed, or any other
 * breed, as the server orders them, found by a few letters of any name; else the words themselves. One tap sends it and
 * goes back.
 */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const candidates = require('../../services/candidates')
const dialogs = require('../../services/dialogs')
const history = require('../../services/history')
const loading = require('../../services/loading')
const opinion = require('../../services/opinion')
const routes = require('../../services/routes')
const search = require('../../services/search')
const wording = require('../../services/wording')

/** What can be said without a breed, in the server's words. */
const VERDICTS = ['mix', 'other', 'no_dog']

Page({
  ...loading('state', async (page) => {
    page.breeds = await breeds.all()
    page.setData({ state: 'choosing' })
  }),
  data: {
    ...appearance.DATA,
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
    this.outcome = history.outcome(id)
    this.dress()
    return this.outcome ? this.load() : this.setData({ state: 'gone' })
  },

  dress() {
    if (appearance.dress(this, 'correct')) this.show()
  },

  show() {
    const { text, language, words } = this.data
    const likely = guesses(this.breeds, this.outcome)
    const others = this.breeds.filter((breed) => !likely.includes(breed))
    const toChoices = (some) => some.map((breed) => ofBreed(breed, language))
    const toVerdict = (verdict) => ({ key: verdict, label: text.verdicts[verdict], second: verdict === 'mix' ? this.parents() : '', said: { verdict, breed: '', name: '', name_zh: '' } })
    const verdicts = VERDICTS.map(toVerdict).filter(({ label }) => label)
    const found = search.search([...likely, ...others], words)
    const meant = search.isMix(words) ? verdicts.filter(({ key }) => key !== 'no_dog') : [] // a mix, or a breed that is not here
    const all = [
      { title: text.likely, choices: toChoices(likely) },
      { title: text.none, choices: verdicts },
      { title: text.all, choices: toChoices(others) },
    ]
    const sections = words ? [{ title: '', choices: [...meant, ...toChoices(found), ofWords(words, text)] }] : all
    this.setData({
      sections: sections.filter(({ choices }) => choices.length),
      notKnown: found.length || meant.length ? '' : wording.fill(text.notKnown, { words }),
    })
  },

  /** "Labradoodle: Labrador retriever, standard poodle", where the words are for such a mix. */
  parents() {
    const { text, language, words } = this.data
    const names = search.isNamedMix(words) ? search.search(this.breeds, words).map((breed) => wording.within(breed, language)) : []
    return names.length ? wording.fill(text.mixOf, { mix: wording.withCapital(words), names: wording.list(names, language) }) : ''
  },

  onInput({ detail }) {
    this.setData({ words: detail.value.trim() })
    this.show()
  },

  onBack() {
    routes.back()
  },

  async onChoose({ currentTarget }) {
    if (this.data.sending) return
    const choices = this.data.sections.flatMap((section) => section.choices)
    const { said } = choices.find(({ key }) => key === currentTarget.dataset.key)
    this.setData({ sending: true })
    try {
      await opinion.give(this.snapId, this.outcome, said)
      if (appearance.isInView(this)) routes.back()
      else getCurrentPages().slice(-1)[0].onShow() // the user went back before: it shows what was said
    } catch (failure) {
      dialogs.say(this.data.text.notSent)
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

/** A breed that the server does not know, as the user calls it. @returns {Choice} */
function ofWords(words, text) {
  const label = wording.fill(text.typed, { words })
  return { key: 'typed', label, second: text.verdicts.other, said: { verdict: 'other', breed: '', name: words, name_zh: words } }
}
