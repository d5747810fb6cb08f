/**
 * Lets the user pick a photo, and says what to do where the phone does not allow it. What becomes of the photo is the
 * pages' business.
 */
const appearance = require('./appearance')
const photo = require('./photo')

/**
 * @param {('camera' | 'album')[]} sources
 * @returns {Promise<string | null>}  temporary file, or null when there is none: the user has been told why, or knows
 */
async function pick(sources) {
  try {
    return await photo.choose(sources)
  } catch (refused) {
    console.warn('no photo chosen:', refused.errMsg) // which of the many refusals it was
    await tell()
    return null
  }
}

function tell() {
  const { title, content, confirm: confirmText } = appearance.texts().refusedPhoto
  return wx.showModal({ title, content, confirmText, showCancel: false })
}

module.exports = { pick }
