/**
 * Lets the user pick a photo, and says what to do where the phone does not allow it. What becomes of the photo is the
 * pages' business.
 */
const { texts } = require('./language')
const photo = require('./photo')
const routes = require('./routes')

/** Milliseconds: two taps on one button mean one dialog; later ones may follow a dialog whose end nothing tells. */
const DOUBLE_TAP_MS = 1000

/** The dialog that was opened last, if it has not ended. */
let open = { sources: '', time: 0 }

/**
 * @param {('camera' | 'album')[]} sources
 * @returns {Promise<string | null>}  temporary file, or null without a photo: the user cancelled or was told why
 */
async function pick(sources) {
  if (open.sources === sources.join() && Math.abs(Date.now() - open.time) < DOUBLE_TAP_MS) return null
  const opened = (open = { sources: sources.join(), time: Date.now() })
  if (routes.isSinglePage()) {
    wx.showToast({ title: texts().singlePage, icon: 'none' })
    return null
  }
  try {
    return await photo.choose(sources)
  } catch (refused) {
    console.warn('no photo chosen:', refused.errno, refused.errMsg)
    const { title, reasons, confirm: confirmText } = texts().refusedPhoto
    await wx.showModal({ title, content: reasons[reasonOf(refused, sources)], confirmText, showCancel: false })
    return null
  } finally {
    if (open === opened) open = { sources: '', time: 0 }
  }
}

/** WeChat's own numbers. @type {Record<number, Reason>} */
const REASON_BY_ERRNO = { 104: 'privacy', 112: 'undeclared' }

/**
 * @typedef {'undeclared' | 'privacy' | 'camera' | 'other'} Reason
 * @param {{errno?: number, errMsg: string}} refused
 * @param {('camera' | 'album')[]} sources
 * @returns {Reason}
 */
function reasonOf({ errno, errMsg }, sources) {
  const onlyCamera = sources.length === 1 && sources[0] === 'camera'
  return REASON_BY_ERRNO[errno] || (onlyCamera || /camera/i.test(errMsg) ? 'camera' : 'other')
}

module.exports = { pick }
