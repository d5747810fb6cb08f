/**
 * A random key of this installation. A server that tries a new model version on a share of the phones tells by it which
 * share this phone is in, so that the version does not change from photo to photo. It says nothing about the user.
 */

const KEY = 'installKey'

/** @returns {string} */
function key() {
  const kept = wx.getStorageSync(KEY)
  if (kept) return kept
  const fresh = randomDigits() + randomDigits()
  wx.setStorageSync(KEY, fresh)
  return fresh
}

/** The next key will be another one: nothing links what comes to what was. */
function forget() {
  wx.removeStorageSync(KEY)
}

/** Need not be hard to guess, only unlikely to be another phone's. */
function randomDigits() {
  return Math.random().toString(36).slice(2)
}

module.exports = { key, forget }
