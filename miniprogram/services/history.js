/**
 * The last snaps with their photos, newest first, on this phone only. It never talks to a server.
 *
 * @typedef {object} Entry
 * @property {string} id  of the snap
 * @property {number} time  milliseconds since 1970
 * @property {string} photo  file under USER_DATA_PATH
 * @property {import('./classifier').Outcome | null} outcome  null: the photo waits for its answer
 * @property {import('./classifier').Outcome | null} [onPhone]  what the phone itself said of it, while or before the server answered
 * @property {boolean} [isRaw]  whether the photo is as it was chosen, and has to be prepared before it is sent
 * @property {import('./request').FailureKind} [why]  why it waits: how the last attempt failed
 * @property {number} [until]  the server asked not to be asked before, in milliseconds since 1970
 * @property {import('./feedback').Said | null} [said]  what the user said that it is
 * @property {Record<number, import('./feedback').Said | null>} [saidOfOthers]  the same of its other dogs, by their places
 */

const answered = require('./answered')
const dogs = require('./dogs')
const met = require('./met')
const promised = require('./promised')
const storage = require('./storage')

const KEY = 'history'
const MOST = 100

/** A slow phone takes seconds for a large photo. */
const COPY_SILENCE_MS = 20 * 1000

/** @returns {Entry[]}  not to be changed */
function list() {
  return storage.read(KEY, []).map(renewed)
}

/** Whose dogs were met stays known, also where a snap goes. @param {Entry[]} entries @returns {boolean}  whether the phone keeps them beyond this session */
function write(entries) {
  met.learn([...list(), ...entries])
  return storage.write(KEY, entries.map(shortened))
}

/** Without what the answer has of the chosen one of several dogs: a hundred snaps of four dogs each came near the 1 MB that WeChat takes. @param {Entry} entry */
function shortened(entry) {
  const { dogs = null, chosen = 0 } = entry.outcome || {}
  if (!dogs) return entry
  const isOwn = ([name, value]) => JSON.stringify(value) !== JSON.stringify(dogs[chosen][name])
  return Object.assign({}, entry, { outcome: Object.fromEntries(Object.entries(entry.outcome).filter(isOwn)) })
}

/** What the app called the states of an answer until it took the server's words. */
const FORMER_STATES = { shown: 'breed', noDog: 'no_dog' }

/** Entries as they are stored, by this release or an earlier one, are read whole. @returns {Entry} */
function renewed(entry) {
  const { outcome } = entry
  if (!outcome) return entry
  const rename = (dog) => Object.assign({}, dog, { state: FORMER_STATES[dog.state] || dog.state })
  const { dogs = null, chosen = 0 } = outcome
  const all = dogs && dogs.map(rename)
  const whole = all ? Object.assign({}, all[chosen], outcome, { dogs: all }) : outcome
  return Object.assign({}, entry, { outcome: rename(whole) })
}

/** @returns {Entry | undefined} */
function find(id) {
  return list().find((entry) => entry.id === id)
}

/** What a server said of a snap. @returns {import('./classifier').Outcome | null}  null while it waits, and where it is not kept */
function outcome(id) {
  const entry = find(id)
  return entry ? entry.outcome : null
}

/**
 * Keeps a snap, the oldest beyond a hundred go; or another file of its photo, with all else that is kept of it.
 * @param {string} id
 * @param {import('./classifier').Outcome | null} outcome  null: what is kept stays
 * @param {string} photo  copied
 * @param {boolean} [isRaw]
 * @returns {Promise<boolean>}  false where the phone will not keep it, and then what was kept before is left
 */
async function add(id, outcome, photo, isRaw = false) {
  const kept = `${wx.env.USER_DATA_PATH}/${id}${isRaw ? '' : '.jpg'}`
  const wasThere = Boolean(find(id))
  if (photo !== kept && !(await copy(photo, kept))) return false
  const before = list()
  const former = find(id)
  if (wasThere && !former) {
    removePhoto({ photo: kept }) // deleted during the copy
    return false
  }
  const entry = Object.assign({ id, time: Date.now(), outcome, onPhone: null }, former, { photo: kept, isRaw }, outcome ? { outcome } : {})
  const entries = former ? before.map((other) => (other.id === id ? entry : other)) : [entry, ...before]
  const isKept = write(entries.slice(0, MOST))
  const gone = former && former.photo !== kept ? [former] : entries.slice(MOST)
  if (isKept) gone.forEach(removePhoto)
  else write(before)
  if (!isKept && !before.some((other) => other.photo === kept)) removePhoto(entry)
  return isKept
}

/** Keeps what a server said of a snap, which is the newest then; what the phone does not keep of it this session still knows. */
function answer(id, outcome) {
  const entry = find(id)
  if (entry) write([Object.assign({}, entry, { outcome, time: Date.now() }), ...list().filter((other) => other.id !== id)])
}

/**
 * Keeps the photo of a snap as it was turned, with an answer that fits it, or none: then it waits for another one.
 * @param {string} photo  copied
 * @param {import('./classifier').Outcome | null} outcome
 * @returns {Promise<boolean>}  false where the phone has no room for the photo, and then all stays as it was
 */
async function turn(id, photo, outcome) {
  const before = find(id)
  if (!before) return true
  const kept = `${wx.env.USER_DATA_PATH}/${id}-${Date.now().toString(36)}.jpg` // pictures are shown as their names were first seen
  if (!(await copy(photo, kept))) return false
  const { said = null, saidOfOthers = {} } = outcome ? before : {}
  if (!find(id)) removePhoto({ photo: kept })
  else if (change(id, { photo: kept, outcome, said, saidOfOthers, isRaw: false, onPhone: null })) removePhoto(before)
  return true
}

/** Keeps some fields of a snap. @returns {boolean}  whether the phone does so beyond this session */
function change(id, changes) {
  const entries = list().map((entry) => (entry.id === id ? Object.assign({}, entry, changes) : entry))
  return write(entries)
}

/** Keeps which of its dogs a snap is to show; each has what was said of it. @param {string} id @param {number} place */
function choose(id, place) {
  const entry = find(id)
  if (!entry) return
  const { outcome, said = null, saidOfOthers = {} } = entry
  const all = Object.assign({}, saidOfOthers, { [outcome.chosen]: said })
  change(id, { outcome: dogs.choose(outcome, place), said: all[place] || null, saidOfOthers: all })
}

/**
 * Keeps what the user said about a snap; null takes it back.
 * @param {string} id
 * @param {import('./feedback').Said | null} said
 * @param {number} [place]  of the dog that it was said of, which need not be shown any more; without one, the shown one
 */
function say(id, said, place) {
  const entry = find(id)
  if (!entry) return
  const { outcome, saidOfOthers = {} } = entry
  const isShown = place === undefined || place === outcome.chosen
  change(id, isShown ? { said } : { saidOfOthers: Object.assign({}, saidOfOthers, { [place]: said }) })
}

function remove(id) {
  const entries = list()
  const others = entries.filter((entry) => entry.id !== id)
  write(others)
  entries.filter((entry) => entry.id === id).forEach(removePhoto)
}

function clear() {
  const entries = list()
  storage.remove(KEY)
  met.clear()
  entries.forEach(removePhoto)
}

/** @returns {Promise<boolean>}  whether the phone has room for it */
function copy(srcPath, destPath) {
  const copying = promised((told) => wx.getFileSystemManager().copyFile({ srcPath, destPath, ...told }))
  return answered(copying, COPY_SILENCE_MS).then(
    () => true,
    () => false,
  )
}

/** A photo that is gone already is as good as removed. */
function removePhoto({ photo }) {
  wx.getFileSystemManager().unlink({ filePath: photo, fail: () => {} })
}

module.exports = { choose, list, find, outcome, add, answer, turn, change, say, remove, clear }
