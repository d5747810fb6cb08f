/**
 * Chinese in traditional characters. The table for it is made by OpenCC when the app is built; the server hands it out, and
 * the phone keeps it. Until it is there texts stay as they are.
 */
const characters = require('./characters')
const request = require('./request')
const storage = require('./storage')

const KEY = 'traditional'
const TIMEOUT_MS = 15 * 1000

/** @type {Record<string, string> | null} */
let table = storage.read(KEY, null)

/** @type {Promise<void> | null}  this session's one request, unless it failed */
let asked = null

/** What the table made of each text. @type {Map<string, string>} */
let written = new Map()

function isReady() {
  return Boolean(table)
}

/** Fetches the table, which may be a newer one. @param {() => void} tell  of the first one */
function load(tell) {
  if (asked) return
  asked = fetchTable().then(
    (isFirst) => isFirst && tell(),
    () => {
      asked = null
    },
  )
}

/** @returns {Promise<boolean>}  whether there was none before */
async function fetchTable() {
  const fetched = await request.send('/traditional.json', { timeoutMs: TIMEOUT_MS }).answer
  if (!fetched || typeof fetched !== 'object') throw new request.Failure('unreadable')
  const isFirst = !table
  table = fetched
  written = new Map()
  storage.write(KEY, fetched)
  return isFirst
}

/** @param {string} text */
function write(text) {
  if (!table) return text
  if (!written.has(text)) written.set(text, characters.rewrite(text, table))
  return written.get(text)
}

/** All texts in an object, at any depth. @template T @param {T} texts @returns {T} */
function writeAll(texts) {
  if (typeof texts === 'string') return /** @type {any} */ (write(texts))
  if (Array.isArray(texts)) return /** @type {any} */ (texts.map(writeAll))
  const all = Object.entries(texts).map(([name, text]) => [name, writeAll(text)])
  return Object.fromEntries(all)
}

module.exports = { isReady, load, write, writeAll }
