/**
 * The classes of the version that answers and what the server knows of them, kept on the phone so that it can be read
 * without a connection. They are breeds of dogs, or of anything else where a server has another model. It knows none by
 * itself: names, order and facts are the server's.
 */
const answered = require('./answered')
const request = require('./request')
const settings = require('./settings')
const storage = require('./storage')
const wording = require('./wording')

const TIMEOUT_MS = 15 * 1000

/** So long an answer waits for what is known of its breeds: told later, that would move what is below it. None does after one that waited in vain. */
let soonMs = 2000

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
 * @property {import('./portrait').Looks} [looks]
 * @property {{url?: string, path?: string, author: string, licence: string}} [image]  path: on the server
 */

/** By name: this session's one request, unless it failed. @type {Record<string, Promise<Breed[]>>} */
const asked = {}

/**
 * All breeds: those kept on the phone at once (and newer ones fetched for the next time), else the server's.
 * @returns {Promise<Breed[]>}  rejects with a Failure when there is neither
 */
function all() {
  const fresh = fetchOnce(nameOfList())
  const list = kept()
  if (!list.length) return fresh
  fresh.catch(() => {}) // offline: what is kept will do
  return Promise.resolve(list)
}

/** All breeds as the phone has them. @returns {Breed[]}  none before they were fetched */
function kept() {
  return storage.read(nameOfList(), [])
}

/** Ends once they are kept, or cannot be had for now. @returns {Promise<any>} */
function soon() {
  return answered(all(), soonMs).catch(({ kind }) => {
    if (kind === 'unread') soonMs = 0
  })
}

/** Of the version that the user chose, else of the server's default: under which it is asked for, and kept. */
function nameOfList() {
  const { model } = settings.get()
  const fields = Object.entries(model || {}).map(([field, value]) => `${field}=${encodeURIComponent(value)}`)
  return fields.length ? `breeds?${fields.join('&')}` : 'breeds'
}

function fetchOnce(name) {
  if (!asked[name]) {
    asked[name] = fetchAll(name)
    asked[name].catch(() => delete asked[name])
  }
  return asked[name]
}

async function fetchAll(name) {
  const answer = await request.send(`/api/${name}`, { timeoutMs: TIMEOUT_MS }).answer
  const isBreed = (breed) => breed && breed.id && typeof breed.name === 'string'
  if (!answer || !Array.isArray(answer.breeds) || !answer.breeds.every(isBreed)) throw new request.Failure('unreadable')
  storage.write(name, answer.breeds)
  return answer.breeds
}

/** What is known in a few words: the other language's name, size and origin. @param {Breed} breed @param {any} sizes  as words */
function inShort(breed, sizes, language) {
  const { second } = wording.names(breed, language)
  return [second, sizes[breed.size], wording.choose(breed.origin, language)].filter(Boolean).join(' · ')
}

module.exports = { all, kept, soon, inShort }
