/**
 * What is said over a page, and asked. A toast shows two lines: what is longer waits in a dialog until it was read. A
 * phone that refuses a dialog is asked for one in its own words, and what could not be asked counts as a no.
 */
const { texts } = require('./language')

/** What the two lines of a toast hold, in Chinese characters; a letter is half as wide as one. */
const TOAST_WIDTH = 30

/** So long a toast is noticed, and then read: 15 letters or 5 Chinese characters a second, as subtitles are. */
const NOTICED_MS = 1000
const LETTER_MS = 1000 / 15
const CHARACTER_MS = 1000 / 5

/** Two taps within it open one dialog. */
const DOUBLE_TAP_MS = 1000

/** When a question was asked that has no answer yet, in milliseconds since 1970; 0 for none. */
let asked = 0

/** Whether a character is about as wide as high. */
const isWide = (character) => character > '\u2e7f'

/** @param {string} sentence */
async function say(sentence) {
  const characters = Array.from(sentence)
  const wide = characters.filter(isWide).length
  const letters = characters.length - wide
  if (wide + letters / 2 > TOAST_WIDTH) return tell('', sentence)
  const duration = Math.round(NOTICED_MS + letters * LETTER_MS + wide * CHARACTER_MS)
  await attempt(() => wx.showToast({ title: sentence, icon: 'none', duration }))
}

/** Stays until the user has read it. @param {string} title @param {string} content */
async function tell(title, content) {
  const { ok: confirmText } = texts().common
  const answer = await open({ title, content, showCancel: false }, { confirmText })
  if (!answer) await attempt(() => wx.showToast({ title: title || Array.from(content).slice(0, TOAST_WIDTH).join(''), icon: 'none' }))
}

/**
 * @param {{title: string, content: string, yes: string, no: string, colour?: string}} question  yes, no: of at most four
 *   characters; colour: of the yes
 * @returns {Promise<boolean>}
 */
async function ask({ title, content, yes: confirmText, no: cancelText, colour }) {
  if (asked && Math.abs(Date.now() - asked) < DOUBLE_TAP_MS) return false
  asked = Date.now()
  const own = Object.assign({ confirmText, cancelText }, colour ? { confirmColor: colour } : {})
  const answer = await open({ title, content }, own)
  asked = 0
  if (!answer) say(texts().common.notAsked)
  return Boolean(answer && answer.confirm)
}

/** @param {any} options @param {any} own  what a phone may refuse: then it takes its own */
async function open(options, own) {
  return (await attempt(() => wx.showModal(Object.assign({}, options, own)))) || attempt(() => wx.showModal(options))
}

/** @returns {Promise<any>}  null where the phone refuses */
async function attempt(show) {
  try {
    return await show()
  } catch (refused) {
    console.warn('not shown:', refused.errMsg)
    return null
  }
}

module.exports = { say, tell, ask }
