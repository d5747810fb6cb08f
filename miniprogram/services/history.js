/**
 * The last snaps with their photos, newest first, on this phone only. It never talks to a server.
 *
 * @typedef {object} Entry
 * @property {string} id  of the snap
 * @property {number} time  milliseconds since 1970
 * @property {string} photo  file under USER_DATA_PATH
 * @property {import('./classifier').Outcome | null} outcome  null: the photo waits for a connection
 * @property {import('./feedback').Said | null} [said]  what the user said that it is
 * @property {Record<number, import('./feedback').Said | null>} [saidOfOthers]  the same of its other dogs, by their places
 */

const dogs = require('./dogs')
const storage = require('./storage')

const KEY = 'history'
const MOST = 100

/** @returns {Entry[]} */
function list() {
  return storage.read(KEY, [])
}

/** @returns {Entry | undefined} */
function find(id) {
  return list().find((entry) => entry.id === id)
}

/**
 * Keeps a snap, in place of the same one that waited; the oldest beyond a hundred go. Rejects when the phone will not keep it, and then nothing is left of it.
 * @param {string} id
 * @param {import('./classifier').Outcome | null} outcome
 * @param {string} photo  copied
 */
async function add(id, outcome, photo) {
  const kept = `${wx.env.USER_DATA_PATH}/${id}.jpg`
  if (photo !== kept) await copy(photo, kept)
  const before = list()
  const entries = [{ id, time: Date.now(), photo: kept, outcome }].concat(before.filter((entry) => entry.id !== id))
  if (storage.write(KEY, entries.slice(0, MOST))) return entries.slice(MOST).forEach(removePhoto)
  storage.write(KEY, before)
  removePhoto({ photo: kept })
  throw new Error('the phone does not take the list')
}

/** Keeps which of its dogs a snap is to show; each has what was said of it. @param {string} id @param {number} place */
function choose(id, place) {
  storage.write(
    KEY,
    list().map((entry) => (entry.id === id ? Object.assign(entry, withDog(entry, place)) : entry)),
  )
}

function withDog({ outcome, said = null, saidOfOthers = {} }, place) {
  const all = Object.assign({}, saidOfOthers, { [outcome.chosen]: said })
  return { outcome: dogs.choose(outcome, place), said: all[place] || null, saidOfOthers: all }
}

/**
 * Keeps what the user said about a snap; null takes it back.
 * @param {string} id
 * @param {import('./feedback').Said | null} said
 * @param {number} [place]  of the dog that it was said of, which need not be shown any more; without one, the shown one
 */
function say(id, said, place) {
  storage.write(
    KEY,
    list().map((entry) => (entry.id === id ? Object.assign(entry, withSaid(entry, said, place)) : entry)),
  )
}

function withSaid({ outcome, saidOfOthers = {} }, said, place = outcome.chosen) {
  return place === outcome.chosen ? { said } : { saidOfOthers: Object.assign({}, saidOfOthers, { [place]: said }) }
}

function remove(id) {
  const entries = list()
  storage.write(
    KEY,
    entries.filter((entry) => entry.id !== id),
  )
  entries.filter((entry) => entry.id === id).forEach(removePhoto)
}

function clear() {
  const entries = list()
  storage.remove(KEY)
  entries.forEach(removePhoto)
}

function copy(srcPath, destPath) {
  return new Promise((success, fail) => wx.getFileSystemManager().copyFile({ srcPath, destPath, success, fail }))
}

/** A photo that is gone already is as good as removed. */
function removePhoto({ photo }) {
  wx.getFileSystemManager().unlink({ filePath: photo, fail: () => {} })
}

module.exports = { choose, list, find, add, say, remove, clear }
