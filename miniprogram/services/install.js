/**
 * The random sticky key of this installation. A server that tries a new model version on a share of the phones knows by it which
 * share this phone is in, so that the version does not change from photo to photo. It says nothing about the user.
 */

const storage = require('./storage')

const KEY = 'installKey'

/** @returns {string} */
function key() {
  const kept = storage.read(KEY, '')
  if (kept) return kept
  const fresh = randomDigits() + randomDigits()
  storage.write(KEY, fresh)
  return fresh
}

/** The next key will be another one: nothing links what comes to what was. */
function forget() {
  storage.remove(KEY)
}

/** Need not be hard to guess, only unlikely to be another phone's. */
function randomDigits() {
  return Math.random().toString(36).slice(2)
}

module.exports = { key, forget }
