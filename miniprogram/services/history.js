/**
 * The last snaps with their photos, newest first, on this phone only. It never talks to a server.
 *
 * @typedef {object} Entry
 * @property {string} id  of the snap
 * @property {number} time  milliseconds since 1970
 * @property {string} photo  file under USER_DATA_PATH
 * @property {import('./classifier').Outcome} outcome
 * @property {import('./feedback').Said | null} [said]  what the user said that it is
 */

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
 * Keeps a snap; the oldest beyond a hundred go. Rejects when the phone will not keep it, and then nothing is left of it.
 * @param {string} id
 * @param {import('./classifier').Outcome} outcome
 * @param {string} photo  temporary file, copied
 */
async function add(id, outcome, photo) {
  const kept = `${wx.env.USER_DATA_PATH}/${id}.jpg`
  await copy(photo, kept)
  const before = list()
  const entries = [{ id, time: Date.now(), photo: kept, outcome }].concat(before)
  if (storage.write(KEY, entries.slice(0, MOST))) return entries.slice(MOST).forEach(removePhoto)
  storage.write(KEY, before)
  removePhoto({ photo: kept })
  throw new Error('the phone does not take the list')
}

/** Keeps what the user said about a snap; null takes it back. @param {import('./feedback').Said | null} said */
function say(id, said) {
  storage.write(
    KEY,
    list().map((entry) => (entry.id === id ? Object.assign(entry, { said }) : entry)),
  )
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

module.exports = { list, find, add, say, remove, clear }
