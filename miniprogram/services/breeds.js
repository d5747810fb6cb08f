/**
 * The classes of the version that answers and what the server knows of them, kept on the phone so that it can be read
 * without a connection. They are breeds of dogs, or of anything else where a server has another model. It knows none by
 * itself: names, order and facts are the server's.
 */
const request = require('./request')
const settings = require('./settings')
const storage = require('./storage')
const traditional = require('./traditional')
const wording = require('./wording')

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

/** By name: this session's one request, unless it failed. @type {Record<string, Promise<Breed[]>>} */
const asked = {}

/**
 * All breeds: those kept on the phone at once (and newer ones fetched for the next time), else the server's.
 * @returns {Promise<Breed[]>}  rejects with a Failure when there is neither
 */
function all() {
  const name = nameOfList()
  const fresh = fetchOnce(name)
  const kept = storage.read(name, null)
  if (!kept) return fresh
  fresh.catch(() => {}) // offline: what is kept will do
  return Promise.resolve(kept)
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
  if (!answer || !Array.isArray(answer.breeds)) throw new request.Failure('unreadable')
  storage.write(name, answer.breeds)
  return answer.breeds
}

/**
 * The breeds that a few words mean, in either language and by any name; those that begin so come first. Where there are
 * none, those whose words in any order are nearly these.
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
  if (ranked.length || isMix(words)) return ranked.sort((one, other) => one.rank - other.rank).map(({ breed }) => breed)
  const tokens = toTokens(words).filter((token) => !ARTICLES.includes(token)).map((token) => token.replace(/ies$/, 'y'))
  if (!tokens.length) return []
  const exact = breeds.filter((breed) => namesOf(breed).some((name) => hasAll(name, tokens, () => 0)))
  const isNearly = (name) => hasAll(name, tokens, mostEdits) || edit(wanted, fold(name)) <= mostEdits(wanted, fold(name))
  return exact.length ? exact : breeds.filter((breed) => namesOf(breed).some(isNearly))
}

/** Whether each token begins a word of a name, but for a few edits. */
function hasAll(name, tokens, edits) {
  const words = toTokens(name)
  return tokens.every((token) => words.some((word) => edit(token, word) <= edits(token, word)))
}

/** In how many letters a token may be another than the word that it means; in three only of a long word whose first is right. */
function mostEdits(token, word) {
  if (token.length < 4) return 0
  if (token.length < 7) return 1
  return token.length > 7 && token[0] === word[0] ? 3 : 2
}

/**
 * How many letters have to be changed, added, left out or swapped to make a word of one that begins so (optimal string
 * alignment).
 */
function edit(token, word) {
  let before = []
  let last = Array.from({ length: word.length + 1 }, (_, column) => column)
  for (let row = 1; row <= token.length; row++) {
    const next = [row]
    for (let column = 1; column <= word.length; column++) {
      const isSame = token[row - 1] === word[column - 1]
      next[column] = Math.min(last[column] + 1, next[column - 1] + 1, last[column - 1] + (isSame ? 0 : 1))
      const isSwapped = token[row - 1] === word[column - 2] && token[row - 2] === word[column - 1]
      if (row > 1 && column > 1 && isSwapped) next[column] = Math.min(next[column], before[column - 2] + 1)
    }
    before = last
    last = next
  }
  return Math.min(...last)
}

const ARTICLES = ['the', 'a', 'an']

/** Words for dogs of no breed, or of one that hardly any list has. */
const MIX = ['土狗', '串串', '串儿', '杂种', '杂交', '混血', '混种', '米克斯', 'mutt', 'mix', 'mixed', 'mongrel', 'crossbreed']

/** @param {string} words */
function isMix(words) {
  return MIX.some((word) => toTokens(words).some((token) => token === word || (token.length > 1 && token.startsWith(word))))
}

function namesOf({ name, name_zh: chinese, other_names: others, other_names_zh: chineseOthers }) {
  const inChinese = [chinese, ...(chineseOthers || [])].filter(Boolean)
  return [name, ...(others || []), ...inChinese, ...inChinese.map(traditional.write)]
}

/** "Shih-Tzu" is found by "shih tzu", "ＰＵＧ" is "pug", and marks count as little as spaces. */
function fold(text) {
  return toTokens(text).join('')
}

/** @returns {string[]}  "St. Bernard" -> ["saint", "bernard"] */
function toTokens(text) {
  const plain = text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase().replace(/['’]/g, '')
  const words = plain.split(/[^\p{L}\p{N}]+/u).filter(Boolean)
  return words.map((word, index) => (word === 'st' && index < words.length - 1 ? 'saint' : word))
}

/** What is known in a few words: the other language's name, size and origin. @param {Breed} breed @param {any} sizes  as words */
function inShort(breed, sizes, language) {
  const { second } = wording.names(breed, language)
  return [second, sizes[breed.size], wording.choose(breed.origin, language)].filter(Boolean).join(' · ')
}

module.exports = { all, search, isMix, inShort }
