/** Language, theme, what happens to photos, and the model version that answers. Choices take effect at once. */
const { VERSION } = require('../../config')
const appearance = require('../../services/appearance')
const dialogs = require('../../services/dialogs')
const { texts } = require('../../services/language')
const loading = require('../../services/loading')
const models = require('../../services/models')
const offline = require('../../services/offline')
const request = require('../../services/request')
const settings = require('../../services/settings')
const wording = require('../../services/wording')

const LANGUAGES = ['phone', 'zh', 'zh-Hant', 'en']
/** Whoever reads a language finds it by its own name. */
const OWN_NAMES = { zh: '简体中文', 'zh-Hant': '繁體中文', en: 'English' }
const THEMES = ['phone', 'light', 'dark']

Page({
  ...loading('modelState', async (page) => {
    const { models: found, feedbackDays } = await models.all()
    Object.assign(page, { models: found, feedbackDays })
    page.setData({ modelState: 'shown' })
  }),
  data: {
    ...appearance.DATA,
    /** @type {{title: string, name: 'language' | 'theme', options: Option[]}[]} */
    groups: [],
    /** @type {Option[]} */
    modelOptions: [],
    /** Answers without a connection; label: '' where this phone or the server has none. */
    offline: { label: '', hint: '', isChosen: false },
    /** What the server keeps of what the user says about answers; '' while that is not known. */
    feedbackLine: '',
    /** @type {'loading' | 'shown' | 'failed'} */
    modelState: 'loading',
    app: '',
    version: VERSION,
    isMoreShown: false,
    isModelShown: false,
  },

  /** @type {import('../../services/models').Model[]} */
  models: [],
  /** Days for which the server keeps feedback; 0 where it takes none, null while that is not known. @type {number | null} */
  feedbackDays: null,

  /** The network for phones: the server's, or the one on this phone. @type {import('../../services/offline').Network | null} */
  network: null,
  /** Which part of its bytes has come, 0 to 1. */
  share: 0,
  /** Why it could not be had. @type {'' | 'full' | 'failed'} */
  problem: '',

  onLoad() {
    this.network = offline.kept()
    offline.follow((share) => {
      this.share = share
      this.show()
    })
    this.dress()
    this.findNetwork()
    return this.loadModels()
  },

  async findNetwork() {
    this.network = (await offline.offered().catch(() => null)) || this.network
    this.show()
  },

  dress() {
    appearance.dress(this, 'settings')
    this.show()
  },

  show() {
    const { text } = this.data
    const { language, theme, model } = settings.get()
    this.setData({
      app: texts().card.app,
      groups: [
        { name: 'language', title: text.language, options: toOptions(LANGUAGES, Object.assign({}, text.languages, OWN_NAMES), language) },
        { name: 'theme', title: text.theme, options: toOptions(THEMES, text.themes, theme) },
      ],
      modelOptions: modelOptions(this.models, model, text),
      feedbackLine: feedbackLine(this.feedbackDays, text),
      offline: offlineRow(this, text.offline),
    })
  },

  loadModels() {
    return this.load()
  },

  onToggle({ currentTarget }) {
    const { part } = currentTarget.dataset
    this.setData({ [part]: !this.data[part] })
  },

  onOption({ currentTarget }) {
    const { name, value } = currentTarget.dataset
    settings.change({ [name]: value })
    this.dress()
  },

  async onOffline() {
    const { title, metered } = this.data.text.offline
    const { ok: yes, no } = this.data.text
    this.problem = ''
    if (settings.get().offline) await offline.forget()
    else if (!(await request.isMetered()) || (await dialogs.ask({ title, content: metered, yes, no }))) this.problem = await offline.choose()
    this.show()
  },

  onModel({ currentTarget }) {
    settings.change({ model: currentTarget.dataset.value })
    models.all().catch(() => {}) // the app's words follow what the version knows
    this.show()
  },
})

/** @param {any} page */
function offlineRow({ network, share, problem }, text) {
  const { offline: isChosen } = settings.get()
  if (!network) return { label: '', hint: '', isChosen }
  const isReady = Boolean(offline.kept())
  const size = Math.ceil(network.bytes / 1e6)
  const fetching = isChosen && !isReady ? wording.fill(text.fetching, { percent: wording.percent(share) }) : ''
  return { label: wording.fill(text.label, { size }), hint: problem ? text[problem] : fetching || text[isReady ? 'ready' : 'worth'], isChosen }
}

/** @param {number | null} days */
function feedbackLine(days, text) {
  if (days === null) return ''
  return days ? wording.fill(text.feedbackKept, { days }) : text.feedbackOff
}

/** @typedef {{key: string, label: string, value: any, chosen: boolean}} Option */

/** @returns {Option[]} */
function toOptions(values, labels, chosen) {
  return values.map((value) => ({ key: value, label: labels[value], value, chosen: value === chosen }))
}

/**
 * The server's default, then everything that can be pinned. A pinned version the server no longer has stays in the
 * list: it is what the app would ask for.
 * @returns {Option[]}
 */
function modelOptions(all, chosen, text) {
  const offered = models.choices(all)
  const known = !chosen || offered.some((choice) => sameChoice(choice, chosen))
  const option = (choice, label) => ({ key: label, label, value: choice, chosen: sameChoice(choice, chosen) })
  return [
    option(null, text.modelDefault),
    ...offered.map((choice) => option(choice, describe(choice, all, text))),
    ...(known ? [] : [option(chosen, wording.fill(text.modelGone, { choice: describe(chosen, all, text) }))]),
  ]
}

function sameChoice(one, other) {
  return ['model', 'version', 'label'].every((field) => (one || {})[field] === (other || {})[field])
}

/** @param {import('../../services/settings').ModelChoice} choice */
function describe({ model, version, label }, all, text) {
  if (!label) return wording.fill(text.modelVersion, { model, version })
  const known = all.find(({ name }) => name === model)
  return wording.fill(text.modelLabel, {
    model,
    label,
    version: known && known.labels[label] ? known.labels[label] : '?',
  })
}
