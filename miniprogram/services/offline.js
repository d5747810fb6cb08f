/**
 * Answers without a connection: whether the user chose them, the network for them on this phone, and what it says of a
 * photo. How it is kept and run is the phone's: inference.js in WeChat, the runtime in a browser.
 *
 * @typedef {object} Network  as the server describes it
 * @property {string} digest
 * @property {string} address  of the folder with its files
 * @property {number} bytes  of the files that this phone needs
 * @property {Record<string, {bytes: number, sha1: string}>} files
 * @property {number} side  of the picture that it sees, in pixels
 * @property {number[]} parts  of a photo's width and height, around its middle, that it looks at one by one
 *
 * @typedef {{data: ArrayLike<number>, width: number, height: number}} Picture  red, green, blue and alpha, 0 to 255
 */
const { baseUrl, inBrowser } = require('../config')
const breeds = require('./breeds')
const photo = require('./photo')
const request = require('./request')
const settings = require('./settings')
const storage = require('./storage')

/** @type {typeof import('./inference')} */
const engine = inBrowser ? /** @type {any} */ (wx).offlineNetwork : require('./inference')

const KEY = 'offlineNetwork'
const TIMEOUT_MS = 15 * 1000
const SILENCE_MS = 20 * 1000
/** The parts of a network from before there were some. */
const WHOLE = [1]
const BLANK = { data: [0, 0, 0, 0], width: 1, height: 1 }

/** Failures that leave a photo without an answer for a while. */
const HELPS = ['offline', 'unreached', 'timeout', 'busy', 'slow', 'server', 'unreadable', 'noModel', 'noneReady']

/** @type {Promise<void> | null}  the download under way */
let fetching = null
/** Of its bytes, which have come. */
let share = 0
/** Why the last one ended early. @type {'' | 'full' | 'failed'} */
let problem = ''
/** Told of its progress and its end. */
let tell = () => {}

/** @param {() => void} listener */
function follow(listener) {
  tell = listener
}

/** @returns {Promise<Network>}  the server's; rejects where there is none that can be read, or this phone cannot run it */
async function offered() {
  if (!engine.isPossible()) throw new request.Failure('noModel')
  const found = await request.send('/api/offline', { timeoutMs: TIMEOUT_MS }).answer
  if (!found.digest || !found.labels) throw new request.Failure('unreadable')
  return Object.assign(found, { address: `${baseUrl}/api/offline/${found.digest}`, bytes: engine.bytesOf(found) })
}

/** @returns {Network | null}  the one that is whole on this phone */
function kept() {
  return settings.get().offline ? storage.read(KEY, null) : null
}

/** What the settings show of it. */
function state() {
  return { isChosen: settings.get().offline, isReady: Boolean(kept()), share, problem }
}

/** As far as the phone knows. @returns {Promise<boolean>} */
async function isMetered() {
  return /^\dg$/.test(await request.networkType())
}

/** The user wants it: fetches it with what is needed beside it, and tries it. Where that fails, nothing is kept. */
async function choose() {
  problem = ''
  settings.change({ offline: true })
  try {
    await fetch()
  } catch ({ message, errMsg = message }) {
    if (!settings.get().offline) return // switched off meanwhile
    await forget()
    problem = /quota|storage|exceed|maximum/i.test(errMsg) ? 'full' : 'failed'
  }
}

/** Deletes it from this phone. */
async function forget() {
  settings.change({ offline: false })
  storage.remove(KEY)
  await engine.forget()
}

/** Has the server's, where that is another one or this one is not whole, unless that costs the user something. */
async function renew() {
  if (!settings.get().offline || (await isMetered())) return
  await fetch().catch(() => {}) // the next time, then
}

async function fetch() {
  fetching = fetching || fetchAll()
  try {
    await fetching
  } finally {
    fetching = null
    tell()
  }
}

async function fetchAll() {
  share = 0
  tell()
  const network = await offered()
  const before = kept()
  if (before && before.digest === network.digest) return
  const { key } = settings.get()
  await engine.keep(network, key ? { [request.KEY_HEADER]: key } : {}, (come) => {
    share = come
    tell()
  })
  if (!settings.get().offline) return engine.forget() // switched off meanwhile
  await run(network, BLANK) // whether it runs here
  breeds.all().catch(() => {})
  if (!storage.write(KEY, network)) throw new Error('the storage does not take the description')
}

/** @param {Network} network @param {Picture} picture @param {number[]} [parts] @returns {Promise<any>}  what it claims; rejects where it does not run here, or is silent, and then it is ended */
function run(network, picture, parts = network.parts || WHOLE) {
  return engine.run(Object.assign({}, network, { parts }), picture, SILENCE_MS)
}

/** What takes longest in a browser is to load it: that begins while a photo is made small. */
function warm() {
  const network = inBrowser && kept()
  if (network) run(network, BLANK, WHOLE).catch(() => {})
}

/**
 * What the phone itself says of a photo to which the server gave no answer.
 * @param {import('./request').FailureKind} kind  why it gave none
 * @param {string} path  of its small copy
 * @returns {Promise<import('./classifier').Outcome | null>}  null where it can say nothing
 */
async function guess(kind, path) {
  const network = kept()
  const picture = network && HELPS.includes(kind) && (await photo.pixels(path))
  if (!picture) return null
  try {
    const claim = await run(network, picture)
    return Object.assign({ model: { name: '', version: 0 }, box: null, feedbackId: '', onPhone: true }, claim)
  } catch (error) {
    if (error.kind !== 'timeout') storage.remove(KEY) // its files may be gone: the next start looks
    return null
  }
}

module.exports = { offered, kept, state, follow, isMetered, choose, forget, renew, warm, guess }
