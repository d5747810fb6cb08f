/**
 * Answers without a connection: whether the user chose them, the network for them on this phone, and what it says of a
 * photo. How it is kept and run is the phone's: inference.js in WeChat, the runtime in a browser.
 *
 * @typedef {object} Network  as the server describes it
 * @property {string} digest
 * @property {string} address  of the folder with its files
 * @property {Record<string, {bytes: number, sha1: string}>} files
 * @property {number} side  of the picture that it sees, in pixels
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

/** Failures that leave a photo without an answer for a while. */
const HELPS = ['offline', 'unreached', 'timeout', 'busy', 'slow', 'server', 'unreadable', 'noModel']

/** @type {Promise<void> | null}  the download under way */
let fetching = null
let share = 0

/** @returns {Promise<Network | null>}  the server's; null where it has none, or this phone cannot run it; rejects with a Failure */
async function offered() {
  if (!engine.isPossible()) return null
  const { answer } = request.send('/api/offline', { timeoutMs: TIMEOUT_MS })
  const found = await answer.catch((failure) => {
    if (failure.kind === 'noModel') return null
    throw failure
  })
  if (found && !(found.digest && found.files && found.labels)) throw new request.Failure('unreadable')
  return found && Object.assign(found, { address: `${baseUrl}/api/offline/${found.digest}` })
}

/** @returns {Network | null}  the one that is whole on this phone */
function kept() {
  return settings.get().offline ? storage.read(KEY, null) : null
}

/** What the settings show of it; share: of the bytes, which have come. */
function state() {
  return { isChosen: settings.get().offline, isReady: Boolean(kept()), share }
}

/** Why it is not on this phone, as `choose` rejects. @returns {'full' | 'failed'} */
function reasonOf({ name = '', message = '', errMsg = '' }) {
  return /quota|storage|exceed|maximum/i.test(name + message + errMsg) ? 'full' : 'failed'
}

/** As far as the phone knows. @returns {Promise<boolean>} */
async function isMetered() {
  const { networkType } = await wx.getNetworkType().catch(() => ({ networkType: '' }))
  return /^\dg$/.test(networkType)
}

/**
 * The user wants it: fetches it with what is needed beside it, and tries it.
 * @param {() => void} tell  of progress, see `state`
 * @returns {Promise<void>}  rejects where nothing is kept then
 */
function choose(tell) {
  settings.change({ offline: true })
  return fetch(tell).catch(async (error) => {
    await forget()
    throw error
  })
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
  await fetch(() => {}).catch(() => {}) // the next time, then
}

/** A download that began without this page, until it has ended. @returns {Promise<void>} */
function underWay() {
  return Promise.resolve(fetching).catch(() => {})
}

function fetch(tell) {
  if (!fetching) {
    share = 0
    fetching = fetchAll(tell)
    const end = () => {
      fetching = null
    }
    fetching.then(end, end)
  }
  return fetching
}

async function fetchAll(tell) {
  const network = await offered()
  if (!network) throw new request.Failure('noModel')
  const before = kept()
  if (before && before.digest === network.digest) return
  let come = 0
  const { key } = settings.get()
  await engine.keep(network, key ? { [request.KEY_HEADER]: key } : {}, (bytes) => {
    come += bytes
    share = Math.min(1, come / engine.bytesOf(network))
    tell()
  })
  await engine.run(network, { data: [0, 0, 0, 0], width: 1, height: 1 }) // whether it runs here
  breeds.all().catch(() => {})
  if (!settings.get().offline) return engine.forget() // switched off meanwhile
  if (!storage.write(KEY, network)) throw new Error('the storage does not take the description')
}

/**
 * What the phone itself says of a photo to which the server gave no answer.
 * @param {{kind: import('./request').FailureKind}} failure
 * @param {string} path  of its small copy
 * @returns {Promise<import('./classifier').Outcome | null>}  null where it can say nothing
 */
async function guess({ kind }, path) {
  const network = kept()
  if (!network || !HELPS.includes(kind)) return null
  try {
    const picture = await photo.pixels(path)
    if (!picture) return null
    const claim = await engine.run(network, picture)
    return Object.assign({ model: { name: '', version: 0 }, box: null, feedbackId: '', onPhone: true }, claim)
  } catch (error) {
    storage.remove(KEY) // its files may be gone: the next start looks
    return null
  }
}

module.exports = { offered, kept, state, reasonOf, isMetered, choose, forget, renew, underWay, guess, bytesOf: (network) => engine.bytesOf(network) }
