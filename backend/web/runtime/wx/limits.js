/**
 * What WeChat refuses and a browser would do: its documented limits of dialogs, toasts, storage and requests. The runtime
 * keeps to them, and so does the phone of the unit tests: what works there works in WeChat.
 * Each function throws an error with WeChat's reason and errno.
 */

/** Characters on a button of a dialog (wx.showModal, confirmText and cancelText). */
const MOST_ON_BUTTON = 4

/** A toast without an icon shows two lines (wx.showToast), of about 15 Chinese characters each. */
const MOST_IN_TOAST = 30

/** Characters of JSON under one key, and of all keys together (wx.setStorageSync). */
const MOST_STORED = 1024 * 1024
const MOST_STORED_IN_ALL = 10 * MOST_STORED

/** Requests under way at once (wx.request). */
const MOST_REQUESTS = 10

/** WeChat's general numbers for an error: a parameter that is not allowed, and a time-out. */
const BAD_PARAMETER = 1001
export const TIMED_OUT = 5

/** Words that WeChat itself puts on the buttons of a dialog. */
export const BUTTONS = { confirmText: '确定', cancelText: '取消' }

/** @param {{confirmText?: string, cancelText?: string}} options */
export function checkModal(options) {
  for (const name of ['confirmText', 'cancelText']) {
    const tooLong = Array.from(options[name] ?? '').length > MOST_ON_BUTTON
    if (tooLong) throw refusal(`${name} length should not larger than ${MOST_ON_BUTTON} Chinese characters`, BAD_PARAMETER)
  }
}

/** WeChat cuts a longer text off, which nobody can read: here that is an error. @param {{title: string}} options */
export function checkToast({ title }) {
  const width = widthOf(title)
  if (width > MOST_IN_TOAST) throw refusal(`title is ${width} characters wide, two lines are ${MOST_IN_TOAST}`, BAD_PARAMETER)
}

/** In Chinese characters: a letter is half as wide as one. @param {string} text */
export function widthOf(text) {
  return Array.from(text).reduce((sum, character) => sum + (character > '\u2e7f' ? 1 : 0.5), 0)
}

/** @param {string} text  what is to be stored, as JSON @param {number} others  characters under all other keys */
export function checkStored(text, others) {
  if (text.length > MOST_STORED) throw refusal('entry size limit reached')
  if (text.length + others > MOST_STORED_IN_ALL) throw refusal('exceed storage max size 10MB')
}

/** @param {number} underWay  requests before this one */
export function checkRequests(underWay) {
  if (underWay >= MOST_REQUESTS) throw refusal('exceed max task count')
}

function refusal(reason, errno) {
  return Object.assign(new Error(reason), { errno })
}
