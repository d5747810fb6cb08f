/** What was snapped before, by day. Opening one shows its result page; deleting asks first. */
const appearance = require('../../services/appearance')
const captions = require('../../services/captions')
const dialogs = require('../../services/dialogs')
const dogs = require('../../services/dogs')
const feedback = require('../../services/feedback')
const history = require('../../services/history')
const install = require('../../services/install')
const met = require('../../services/met')
const { texts } = require('../../services/language')
const routes = require('../../services/routes')
const waiting = require('../../services/waiting')
const wording = require('../../services/wording')

/** Colour of the word "delete" in WeChat's own dialog, by theme; the same as --danger in app.wxss. */
const DANGER = { light: '#a8321f', dark: '#f19c8c' }

Page({
  data: {
    ...appearance.DATA,
    /** @type {{day: string, items: ReturnType<typeof toItem>[]}[]} */
    days: [],
    count: 0,
    isEditing: false,
    /** Whether breeds are known that were met on photos which are gone. */
    hasMet: false,
  },

  onLoad() {
    this.dress()
  },

  onShow() {
    this.dress()
    waiting.send()
    this.show()
  },

  dress() {
    if (appearance.dress(this, 'history')) this.show()
  },

  show() {
    const { text } = this.data
    const entries = history.list()
    const now = Date.now()
    const days = wording.groups(entries.map((entry) => toItem(entry, now, text)), ({ day }) => day)
    this.setData({ count: entries.length, hasMet: Object.keys(met.all()).length > 0, days: days.map(([day, items]) => ({ day, items })) })
  },

  onEdit() {
    this.setData({ isEditing: !this.data.isEditing })
  },

  onOpen({ currentTarget }) {
    routes.go(routes.result(currentTarget.dataset.id), this)
  },

  onSnap() {
    routes.go(routes.HOME)
  },

  async onRemove({ currentTarget }) {
    const { text } = this.data
    if (!(await this.confirmed(text.removeTitle, text.removeContent))) return
    const { id } = currentTarget.dataset
    const outcome = history.outcome(id) // another window may have deleted it
    if (outcome) feedback.forget(dogs.feedbackIds(outcome))
    history.remove(id)
    this.show()
  },

  async onClear() {
    const { text, count } = this.data
    if (!(await this.confirmed(count ? wording.fill(text.clearTitle, { count }) : text.clearMetTitle, text.clearContent))) return
    history.clear()
    feedback.forget()
    install.forget()
    this.show()
  },

  /** @returns {Promise<boolean>} */
  confirmed(title, content) {
    const { confirm: yes, no } = this.data.text
    return dialogs.ask({ title, content, yes, no, colour: DANGER[this.data.theme] })
  },
})

/** @param {import('../../services/history').Entry} entry */
function toItem(entry, now, text) {
  const { time, said } = entry
  const corrected = said && said.verdict !== 'right'
  const { name, detail, percent = '' } = corrected ? ofSaid(entry) : describe(entry, text)
  const removeLabel = wording.fill(text.remove, { name })
  return Object.assign(dogs.thumb(entry), { day: wording.day(time, now, text), name, detail, percent, removeLabel })
}

/** What the user said, above the answer where that is another. @param {import('../../services/history').Entry} entry */
function ofSaid({ outcome, said }) {
  const answer = captions.caption(outcome)
  return { name: captions.said(said), detail: answer === captions.short({ outcome, said }) ? '' : answer }
}

/**
 * What the answer was, with the percentage where there is one breed or group to name.
 * @param {import('../../services/history').Entry} entry
 */
function describe({ outcome, why, onPhone = null }, text) {
  if (!outcome) return { name: captions.caption(onPhone), detail: text.waits[why === 'offline' ? why : why ? 'again' : 'new'] }
  if (outcome.state === 'refused') return { name: captions.caption(outcome), detail: texts().pages.result.failures[outcome.kind] }
  const { state, breeds, group, set, dogs: several } = outcome
  if (several) return { name: captions.caption(outcome), detail: captions.count(outcome) }
  if (state === 'set' && set.length > 1) return { name: captions.caption(outcome), detail: set.length > 2 ? captions.names(outcome) : '' }
  const named = { breed: breeds[0], group, set: breeds[0], unsure: breeds[0] }[state]
  return { name: captions.caption(outcome), detail: '', percent: named ? wording.percent(named.probability) : '' }
}
