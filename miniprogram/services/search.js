/**
 * Finds breeds by a few words, in either language, by any name and by pinyin, also misspelt; and knows the words for dogs of
 * no breed, with the breeds of the commonest mixes.
 *
 * @typedef {import('./breeds').Breed} Breed
 */
const mixes = require('./mixes')
const pinyin = require('./pinyin')
const traditional = require('./traditional')

/**
 * The breeds that a few words mean, the best first: whose own name begins so, then those that have a word which begins so,
 * are called otherwise so, or have it within a name. Where there are none, those whose words in any order are nearly these.
 * @param {Breed[]} breeds  in the order of those that are equally good
 * @param {string} words  '' for all of them
 * @returns {Breed[]}
 */
function search(breeds, words) {
  const wanted = fold(words)
  if (!wanted) return words ? [] : breeds
  const parents = parentsOf(words)
  if (parents) return parents.map((name) => ranked(breeds, fold(name))[0]).filter(Boolean)
  const found = ranked(breeds, wanted)
  return found.length || isMix(words) ? found : nearly(breeds, words)
}

/** @param {string} wanted  folded @returns {Breed[]}  the best first */
function ranked(breeds, wanted) {
  const ranks = breeds.map((breed, place) => ({ breed, place, rank: rankOf(breed, wanted) })).filter(({ rank }) => rank < NOT_FOUND)
  return ranks.sort((one, other) => one.rank - other.rank || one.place - other.place).map(({ breed }) => breed)
}

const NOT_FOUND = 11

/** @param {string} wanted  folded @returns {number}  the lower the better */
function rankOf(breed, wanted) {
  const { own, others, read } = foldedNames(breed)
  const anyName = [...own, ...others]
  const isPinyin = wanted.length > 1 && /^[a-z]+$/.test(wanted)
  const tests = [
    () => own.some(({ name }) => name === wanted),
    () => own.some(({ name }) => name.startsWith(wanted)),
    () => hasWord(own, wanted) && others.some(({ name }) => name === wanted),
    () => hasWord(own, wanted),
    () => !isPinyin && own.some(({ name }) => name.includes(wanted)),
    () => others.some(({ name }) => name.startsWith(wanted)),
    () => isPinyin && read[0] && read[0].name.startsWith(wanted),
    () => anyName.some(({ name }) => name.includes(wanted)),
    () => isPinyin && read.some(({ name }) => name.startsWith(wanted)),
    () => isPinyin && wanted.length > 3 && read.some(({ words }) => words.some((_, start) => words.slice(start).join('').startsWith(wanted))),
    () => isPinyin && read.some(({ initials }) => initials.startsWith(wanted)),
  ]
  const rank = tests.findIndex((test) => test())
  return rank < 0 ? NOT_FOUND : rank
}

/** Whether a word of the names begins so. */
function hasWord(names, wanted) {
  return names.some(({ words }) => words.some((word) => word.startsWith(wanted)))
}

/** @type {WeakMap<Breed, ReturnType<typeof foldNames>>} */
const folded = new WeakMap()

function foldedNames(breed) {
  if (!folded.has(breed)) folded.set(breed, foldNames(breed))
  return folded.get(breed)
}

/** Its own names, the others, and how the Chinese ones are read. */
function foldNames({ name, name_zh: chinese = '', other_names: others = [], other_names_zh: chineseOthers = [] }) {
  const inChinese = [chinese, ...chineseOthers].filter(Boolean)
  const written = (some) => [...some, ...some.map(traditional.write)].map(toName)
  return {
    own: [toName(name), ...written(inChinese.slice(0, 1))],
    others: [...others.map(toName), ...written(inChinese.slice(1))],
    read: inChinese.map((each) => {
      const words = pinyin.read(each)
      return { name: words.join(''), words, initials: words.map((word) => word.charAt(0)).join('') }
    }),
  }
}

function toName(name) {
  const words = toTokens(name)
  return { name: words.join(''), words }
}

/** @returns {Breed[]}  those whose words in any order are these, or else nearly these */
function nearly(breeds, words) {
  const wanted = fold(words)
  const tokens = toTokens(words).filter((token) => !ARTICLES.includes(token)).map((token) => token.replace(/ies$/, 'y'))
  if (!tokens.length) return []
  const namesOf = (breed) => [...foldedNames(breed).own, ...foldedNames(breed).others]
  const exact = breeds.filter((breed) => namesOf(breed).some((name) => hasAll(name.words, tokens, () => 0)))
  const isNearly = ({ name, words: own }) => hasAll(own, tokens, mostEdits) || edit(wanted, name) <= mostEdits(wanted, name)
  return exact.length ? exact : breeds.filter((breed) => namesOf(breed).some(isNearly))
}

/** Whether each token begins a word of a name, but for a few edits. */
function hasAll(words, tokens, edits) {
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

/** Whether the words are the name of a mix, whose parents' breeds a search finds. @param {string} words */
function isNamedMix(words) {
  return Boolean(parentsOf(words))
}

/** @returns {string[] | null} */
function parentsOf(words) {
  return mixes.parentsOf([fold(words), ...toTokens(words)])
}

/** Whether the words are for a dog of no breed, or of two. @param {string} words */
function isMix(words) {
  return isNamedMix(words) || MIX.some((word) => toTokens(words).some((token) => token === word || (token.length > 1 && token.startsWith(word))))
}

/** Letters with marks, and the same without: engines without Intl do not take them apart. */
const MARKED = 'àáâãäåçèéêëìíîïñòóôõöøùúûüýÿāăąćčďđēėęěğīįıłńňōőřśşšťūůűųźżžæœß'
const PLAIN = 'aaaaaaceeeeiiiinoooooouuuuyyaaaccddeeeegiiilnnoorssstuuuuzzz'
const LIGATURES = { æ: 'ae', œ: 'oe', ß: 'ss' }

/** Marks that stand behind their letter. */
const COMBINING = /[\u0300-\u036f]/g

/** Letters, digits and punctuation as wide as Chinese characters, and how far they are from the usual ones. */
const WIDE = /[\uff01-\uff5e]/g
const FROM_USUAL = 0xfee0

/** What stands between words. */
const BETWEEN = /[\s\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f\uff00-\uffef]+/

/** "Shih-Tzu" is found by "shih tzu", "ＰＵＧ" is "pug", and marks count as little as spaces. */
function fold(text) {
  return toTokens(text).join('')
}

/** @returns {string[]}  "St. Bernard" -> ["saint", "bernard"] */
function toTokens(text) {
  const usual = text.replace(WIDE, (wide) => String.fromCharCode(wide.charCodeAt(0) - FROM_USUAL))
  const plain = Array.from(usual.toLowerCase().replace(/['’]/g, '').replace(COMBINING, '')).map(withoutMark).join('')
  const words = plain.split(BETWEEN).filter(Boolean)
  return words.map((word, index) => (word === 'st' && index < words.length - 1 ? 'saint' : word))
}

function withoutMark(letter) {
  return LIGATURES[letter] || PLAIN[MARKED.indexOf(letter)] || letter
}

module.exports = { search, isMix, isNamedMix }
