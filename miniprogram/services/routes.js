/** The addresses of the pages, and how to get there. No page writes another page's address. */
const dialogs = require('./dialogs')
const { texts } = require('./language')

/** WeChat's number for a page opened from Moments, alone: from there no route leads on. */
const SINGLE_PAGE = 1154

/** WeChat opens at most ten pages on top of each other; from here on a page replaces the one before. */
const DEEP = 9

const result = (id) => `/pages/result/result?id=${id}`
const breed = (id) => `/pages/breed/breed?id=${id}`
const frame = (id) => `/pages/frame/frame?id=${id}`
const correct = (id) => `/pages/correct/correct?id=${id}`
const BREEDS = '/pages/breeds/breeds'
const HISTORY = '/pages/history/history'
const SETTINGS = '/pages/settings/settings'
const HOME = '/pages/home/home'

/** What the bar of tabs shows (app.json): each is open once, and no route but switchTab leads there. */
const TABS = [HOME, HISTORY, BREEDS, SETTINGS]

/** @type {Promise<any> | null}  while it is under way, a further tap leads nowhere */
let route = null

/** @param {() => Promise<any>} start */
function once(start) {
  if (route) return route
  const done = () => {
    route = null
  }
  route = start()
  route.then(done, done)
  return route
}

/**
 * @param {string} url
 * @param {any} [from]  the page on which a tap leads there: where it is not in view any more, another finger was first
 */
function go(url, from) {
  const [inView] = getCurrentPages().slice(-1)
  if (from && inView && inView !== from) return undefined
  if (isSinglePage()) return dialogs.say(texts().singlePage)
  if (TABS.includes(url)) return once(() => wx.switchTab({ url }))
  return once(() => (getCurrentPages().length < DEEP ? wx.navigateTo({ url }) : wx.redirectTo({ url })))
}

/** Whether WeChat shows one page alone, as Moments do: without login, routes, camera and album. */
function isSinglePage() {
  return wx.getEnterOptionsSync().scene === SINGLE_PAGE
}

/** Instead of the page in view: going back does not return to it. */
function replace(url) {
  return once(() => wx.redirectTo({ url }))
}

/** One page back, or home when this page was opened by a link. */
function back() {
  return once(() => wx.navigateBack().catch(() => wx.switchTab({ url: HOME })))
}

module.exports = { BREEDS, HISTORY, SETTINGS, HOME, result, frame, breed, correct, isSinglePage, go, replace, back }
