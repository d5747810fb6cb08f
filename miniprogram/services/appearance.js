/**
 * Language and theme: which ones are in force, and how a page puts them on. It holds no texts (see i18n/) and no
 * colours but those of the navigation bar, which WXSS cannot reach.
 */
const models = require('./models')
const settings = require('./settings')
const traditional = require('./traditional')
const zh = require('../i18n/zh')
const en = require('../i18n/en')
const otherZh = require('../i18n/other_zh')
const otherEn = require('../i18n/other_en')

/** @typedef {typeof zh} Texts */

/** By language: the texts about dogs, and those where the classes are other things. */
const TEXTS = {
  zh: { dogs: zh, other: replaced(zh, otherZh) },
  en: { dogs: en, other: replaced(en, otherEn) },
}

/** Front may only be pure black or white: WeChat takes nothing else. */
const BAR = {
  light: { frontColor: '#000000', backgroundColor: '#f6f3ee' },
  dark: { frontColor: '#ffffff', backgroundColor: '#14191a' },
}

/** How phones name Chinese that is written in traditional characters. */
const TRADITIONAL = /Hant|TW|HK|MO/i

/** @typedef {'zh' | 'zh-Hant' | 'en'} Language */

/** What every page's data begin with. @type {{theme: string, language: any, text: any, areDogs: boolean}} */
const DATA = { theme: '', language: '', text: {}, areDogs: true }

/** @returns {Language}  Chinese is in simplified characters until the table for the others is there */
function language() {
  const wanted = wantedLanguage()
  return wanted === 'zh-Hant' && !traditional.isReady() ? 'zh' : wanted
}

/** @returns {Language} */
function wantedLanguage() {
  const { language: chosen } = settings.get()
  if (chosen !== 'phone') return chosen
  const { language: own } = wx.getAppBaseInfo()
  if (!own.startsWith('zh')) return 'en'
  return TRADITIONAL.test(own) ? 'zh-Hant' : 'zh'
}

/** @returns {'light' | 'dark'} */
function theme() {
  const { theme: chosen } = settings.get()
  if (chosen !== 'phone') return chosen
  return wx.getAppBaseInfo().theme === 'dark' ? 'dark' : 'light'
}

/** @returns {Texts} */
function texts() {
  const chosen = language()
  const { dogs, other } = TEXTS[chosen === 'en' ? 'en' : 'zh']
  const written = models.areDogs() ? dogs : other
  return chosen === 'zh-Hant' ? traditional.writeAll(written) : written
}

/** The texts with some of them replaced, at any depth. */
function replaced(texts, others) {
  const result = Object.assign({}, texts)
  for (const [name, text] of Object.entries(others)) {
    result[name] = typeof text === 'string' || Array.isArray(text) ? text : replaced(texts[name], text)
  }
  return result
}

/**
 * Puts language and theme on a page: its data get `text` (the page's own texts), `theme`, `language` and `areDogs`.
 * @param {any} page
 * @param {keyof Texts['pages']} name
 * @returns {boolean}  whether anything changed since the last time
 */
function dress(page, name) {
  if (page.lateTitle) entitle(page, page.lateTitle)
  if (wantedLanguage() === 'zh-Hant') traditional.load(dressAll)
  const wanted = { theme: theme(), language: language(), areDogs: models.areDogs() }
  if (Object.keys(wanted).every((key) => page.data[key] === wanted[key])) return false
  const { common, pages } = texts()
  const text = Object.assign({}, common, pages[name])
  page.setData(Object.assign({ text }, wanted))
  entitle(page, text.title)
  wx.setNavigationBarColor(BAR[wanted.theme])
  return true
}

/** A page that is not in view gets its title once it is. @param {any} page @param {string} title */
function entitle(page, title) {
  page.lateTitle = isInView(page) ? '' : title
  if (isInView(page)) wx.setNavigationBarTitle({ title })
}

/** What ends later must not lead on from a page that was left meanwhile. @param {any} page */
function isInView(page) {
  return getCurrentPages().slice(-1)[0] === page
}

/** Updates every open page when the phone changes between dark and light, and when the classes turn out to be no dogs. */
function follow() {
  wx.onThemeChange(dressAll)
  models.follow(dressAll)
}

function dressAll() {
  getCurrentPages().forEach((page) => /** @type {any} */ (page).dress())
}

module.exports = { DATA, language, texts, dress, entitle, isInView, follow }
