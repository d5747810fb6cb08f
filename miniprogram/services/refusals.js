/** Why WeChat or a browser refused the album or the camera, and what the user can do about it. */
const { inBrowser } = require('../config')
const dialogs = require('./dialogs')
const { texts } = require('./language')

/**
 * @typedef {'cancelled' | 'undeclared' | 'privacy' | 'denied' | 'other'} Reason
 * @typedef {{errno?: number, errMsg?: string}} Refused  errno: WeChat's general number
 */

/** What the words of WeChat mean, looked at in this order: they are given more often than the numbers. @type {[RegExp, Reason][]} */
const REASON_BY_WORDS = [
  [/cancel/i, 'cancelled'],
  [/not declared/i, 'undeclared'],
  [/privacy/i, 'privacy'],
  [/auth|den(y|ied)|permission/i, 'denied'],
]

/** @type {Record<number, Reason>} */
const REASON_BY_ERRNO = { 3: 'denied', 103: 'privacy', 104: 'privacy', 112: 'undeclared' }

/** @param {Refused} refused @returns {Reason} */
function reasonOf({ errno, errMsg = '' }) {
  const [, reason = REASON_BY_ERRNO[errno] || 'other'] = REASON_BY_WORDS.find(([words]) => words.test(errMsg)) || []
  return reason
}

/**
 * Says why, and leads to the settings that WeChat has of each mini program. Who cancelled knows why.
 * @param {Refused} refused
 * @param {{title: string, failed?: string} & Partial<Record<Reason, string>>} sentences  failed: where the reason has none
 */
async function explain(refused, sentences) {
  const reason = reasonOf(refused)
  const { title, [reason]: sentence, failed } = sentences
  if (reason === 'cancelled') return
  if (!sentence) return dialogs.say(failed)
  if (reason !== 'denied' || inBrowser) return dialogs.tell(title, sentence)
  const { open: yes, no } = texts().common
  if (await dialogs.ask({ title, content: sentence, yes, no })) await openSettings()
}

async function openSettings() {
  try {
    await wx.openSetting()
  } catch (refused) {
    console.warn('settings are not opened:', refused.errMsg)
  }
}

module.exports = { explain }
