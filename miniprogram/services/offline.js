/**
 * Answers without a connection: whether the user chose them, the network for them on this phone, and what it says of a
 * photo. How it is fetched, deleted and run is the phone's: inference.js in WeChat, the runtime in a browser.
 *
 * @typedef {object} Network  as the server describes it
 * @property {string} digest
 * @property {string} address  of the folder with its files
 * @property {number} bytes  of the files that this phone needs
 * @property {Record<string, {bytes: number, sha1: string}>} files  those alone
 * @property {number} side  of the picture that it sees, in pixels
 * @property {number[]} parts  of a photo's width and height, around its middle, that it looks at one by one
 *
 * @typedef {{data: ArrayLike<number>, width: number, height: number}} Picture  red, green, blue and alpha, 0 to 255
 */
const { baseUrl, inBrowser } = require('../config')
const breeds = require('./breeds')
const inTurn = require('./in_turn')
const photo = require('./photo')
const request = require('./request')
const settings = require('./settings')
const storage = require('./storage')

/** @type {typeof import('./inference')} */
const engine = inBrowser ? /** @type {any} */ (wx).offlineNetwork : require('./inference')

const KEY = 'offlineNetwork'
const TIMEOUT_MS = 15 * 1000
/** The parts of a network from before there were some: it takes one look. */
const WHOLE = [1]
const BLANK = { data: [0, 0, 0, 0], width: 1, height: 1 }

/** Told of a download. @type {(share: number) => void}  which part of its bytes has come, 0 to 1 */
let tell = () => {}

function follow(listener) {
  tell = listener
}

/** @returns {Promise<Network>}  the server's; rejects where there is none that can be read, or this phone cannot run it */
async function offered() {
  if (!engine.isPossible()) throw new request.Failure('noModel')
  const found = await request.send('/api/offline', { timeoutMs: TIMEOUT_MS }).answer
  if (!found.digest || !found.labels) throw new request.Failure('unreadable')
  const files = Object.fromEntries(engine.FILES.map((name) => [name, found.files[name]]))
  const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0)
  return Object.assign({ parts: WHOLE }, found, { address: `${baseUrl}/api/offline/${found.digest}`, files, bytes })
}

/** @returns {Network | null}  the one that is whole on this phone */
function kept() {
  return settings.get().offline ? storage.read(KEY, null) : null
}

/** How often the user has used the switch in this session. */
let turns = 0

/** The user wants it. @returns {Promise<'' | 'full' | 'failed'>}  why it cannot be had: then nothing is kept */
async function choose() {
  const turn = ++turns
  settings.change({ offline: true })
  try {
    await fetch()
  } catch ({ message, errMsg = message }) {
    if (turn !== turns) return '' // switched off meanwhile, and perhaps on again
    await forget()
    return /quota|storage|exceed|maximum/i.test(errMsg) ? 'full' : 'failed'
  }
  return ''
}

/** Deletes it from this phone. */
async function forget() {
  turns += 1
  settings.change({ offline: false })
  storage.remove(KEY)
  await engine.forget()
}

/** Has the server's, where that is another one or this one is not whole, unless that costs the user something. */
async function renew() {
  if (!settings.get().offline || (await request.isMetered())) return
  await fetch().catch(() => {}) // the next time, then
}

/** Fetches the server's with what is needed beside it, and tries it. @returns {Promise<void>} */
function fetch() {
  return inTurn(KEY, async () => {
    tell(0)
    const network = await offered()
    if (JSON.stringify(kept()) === JSON.stringify(network)) return
    const { key } = settings.get()
    await engine.fetch(network, key ? { [request.KEY_HEADER]: key } : {}, (bytes) => tell(bytes / network.bytes))
    if (!settings.get().offline) return engine.forget() // switched off meanwhile
    await engine.classify(network, BLANK)
    if (!storage.write(KEY, network)) throw new Error('the storage does not take the description')
    breeds.all().catch(() => {})
    tell(1)
  })
}

/** What takes longest in a browser is to load it: that begins while a photo is made small. */
function warm() {
  const network = inBrowser && kept()
  if (network) engine.classify(Object.assign({}, network, { parts: WHOLE }), BLANK).catch(() => {})
}

/**
 * What the phone itself says of a photo to which the server gave no answer.
 * @param {import('./request').FailureKind} kind  why it gave none
 * @param {string} path  of its small copy
 * @returns {Promise<import('./classifier').Outcome | null>}  null where it can say nothing
 */
async function guess(kind, path) {
  const network = kept()
  const picture = network && [...request.LATER, 'noModel'].includes(kind) && (await photo.pixels(path))
  if (!picture) return null
  try {
    const claim = await engine.classify(network, picture)
    return Object.assign({ model: { name: '', version: 0 }, box: null, feedbackId: '', onPhone: true }, claim)
  } catch (error) {
    const { digest = '' } = kept() || {}
    if (error.kind !== 'timeout' && digest === network.digest) storage.remove(KEY) // its files may be gone: the next start looks
    return null
  }
}

module.exports = { offered, kept, follow, choose, forget, renew, warm, guess }
