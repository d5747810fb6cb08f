/**
 * What the server knows of the breeds, kept on the phone so that it can be read without a connection.
 * It knows no breed by itself: names, order and facts are the server's.
 */
const request = require('./request')
const storage = require('./storage')

const KEY = 'breeds'
const TIMEOUT_MS = 15 * 1000

/** @typedef {{en: string, zh: string}} Text */
/**
 * @typedef {object} Breed
 * @property {string} id
 * @property {string} name
 * @property {string} name_zh
 * @property {string[]} other_names
 * @property {string[]} other_names_zh
 * @property {boolean} wild
 * @property {Text} origin
 * @property {'toy' | 'small' | 'medium' | 'large' | 'giant'} size
 * @property {[number, number] | null} weight_kg
 * @property {[number, number] | null} height_cm
 * @property {[number, number] | null} life_span_years
 * @property {{en: string[], zh: string[]}} temperament
 * @property {Text} coat
 * @property {Text} care
 * @property {Text} description
 * @property {string[]} look_alikes  ids
 * @property {{url?: string, path?: string, author: string, licence: string}} [image]  path: on the server
 */

/** @type {Promise<Breed[]> | null}  this session's one request, unless it failed */
let asked = null

/**
 * All breeds: those kept on the phone at once (and newer ones fetched for the next time), else the server's.
 * @returns {Promise<Breed[]>}  rejects with a Failure when there is neither
 */
function all() {
  const fresh = fetchOnce()
  const kept = storage.read(KEY, null)
  if (!kept) return fresh
  fresh.catch(() => {}) // offline: what is kept will do
  return Promise.resolve(kept)
}

function fetchOnce() {
  if (!asked) {
    asked = fetchAll()
    asked.catch(() => {
      asked = null
    })
  }
  return asked
}

async function fetchAll() {
  const answer = await request.send('/api/breeds', { timeoutMs: TIMEOUT_MS }).answer
  if (!answer || !Array.isArray(answer.breeds)) throw new request.Failure('unreadable')
  storage.write(KEY, answer.breeds)
  return answer.breeds
}

/**
 * The breeds that a few words mean, in either language and by any name; those that begin so come first.
 * @param {Breed[]} breeds
 * @param {string} words  '' for all of them
 * @returns {Breed[]}
 */
function search(breeds, words) {
  const wanted = fold(words)
  const rank = (breed) => {
    const places = namesOf(breed).map((name) => fold(name).indexOf(wanted))
    return places.includes(0) ? 0 : places.some((place) => place > 0) ? 1 : -1
  }
  const ranked = breeds.map((breed) => ({ breed, rank: rank(breed) })).filter(({ rank: found }) => found >= 0)
  return ranked.sort((one, other) => one.rank - other.rank).map(({ breed }) => breed)
}

function namesOf({ name, name_zh: chinese, other_names: others, other_names_zh: chineseOthers }) {
  return [name, chinese, ...(others || []), ...(chineseOthers || [])].filter(Boolean)
}

/** "Shih-Tzu" is found by "shih tzu", too. */
function fold(text) {
  return text.toLowerCase().replace(/[\s\-'’·]+/g, '')
}

module.exports = { all, search }
