/**
 * How a page looks: it gets its texts in the language in force, and the theme. It holds no colours but those of the
 * navigation bar, which WXSS cannot reach.
 */
const { inBrowser } = require('../config')
const { currentLanguage, wantedLanguage, texts } = require('./language')
const models = require('./models')
const settings = require('./settings')
const traditional = require('./traditional')

/** Front may only be pure black or white: WeChat takes nothing else. */
const BAR = {
  light: { frontColor: '#000000', backgroundColor: '#f6f3ee' },
  dark: { frontColor: '#ffffff', backgroundColor: '#14191a' },
}

/** As theme.json has it, which knows the phone's theme alone. */
const TAB_BAR = {
  light: { color: '#5a645d', selectedColor: '#1d6b50', backgroundColor: '#ffffff', borderStyle: 'black' },
  dark: { color: '#a9b2ab', selectedColor: '#8bdcba', backgroundColor: '#1f2627', borderStyle: 'white' },
}

/** The pages of the bar of tabs, in the order of app.json. */
const TABS = /** @type {const} */ (['home', 'history', 'breeds', 'settings'])

/** What the bar of tabs wears. */
let tabsWear = ''

/** What every page's data begin with. A browser takes photos by drag and drop too. @type {{theme: string, language: any, text: any, areDogs: boolean, canDrop: boolean}} */
const DATA = { theme: '', language: '', text: {}, areDogs: true, canDrop: inBrowser }

/** @returns {'light' | 'dark'} */
function theme() {
  const { theme: chosen } = settings.get()
  if (chosen !== 'phone') return chosen
  return wx.getAppBaseInfo().theme === 'dark' ? 'dark' : 'light'
}

/**
 * Puts language and theme on a page: its data get `text` (the page's own texts), `theme`, `language` and `areDogs`.
 * @param {any} page
 * @param {keyof import('./language').Texts['pages']} name
 * @returns {boolean}  whether anything changed since the last time
 */
function dress(page, name) {
  if (page.lateTitle) entitle(page, page.lateTitle)
  if (wantedLanguage() === 'zh-Hant') traditional.load(dressAll)
  dressTabs(page, name)
  const wanted = { theme: theme(), language: currentLanguage(), areDogs: models.areDogs() }
  if (Object.keys(wanted).every((key) => page.data[key] === wanted[key])) return false
  const { common, pages } = texts()
  const text = Object.assign({}, common, pages[name])
  page.setData(Object.assign({ text }, wanted))
  entitle(page, text.title)
  wx.setNavigationBarColor(BAR[wanted.theme])
  return true
}

/** Only while one of its pages is in view: WeChat refuses it elsewhere. @param {any} page @param {string} name */
function dressTabs(page, name) {
  const wanted = `${theme()} ${currentLanguage()} ${models.areDogs()}`
  if (wanted === tabsWear || !TABS.some((tab) => tab === name) || !isInView(page)) return
  tabsWear = wanted
  const { tabs } = texts()
  const items = TABS.map((tab, index) => wx.setTabBarItem({ index, text: tabs[tab] }))
  Promise.all([wx.setTabBarStyle(TAB_BAR[theme()]), ...items]).catch(() => (tabsWear = ''))
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

module.exports = { DATA, dress, entitle, isInView, follow }
