/** How the breeds' Chinese names are read, without tones, by a table: phones have no order of Chinese characters by themselves. */
const table = require('./pinyin_table')

/** @type {Map<string, string>}  character -> syllable */
const syllables = new Map()
for (const [syllable, characters] of Object.entries(table)) {
  for (const character of Array.from(characters)) syllables.set(character, syllable)
}

/** Behind all letters. */
const UNKNOWN = '{'

/** @param {string} name @returns {string[]}  a syllable for each character, which stands for itself where the table has none */
function read(name) {
  return Array.from(name).map((character) => syllables.get(character) || character.toLowerCase())
}

/** The letter under which a name stands; "#" where the table does not know how it begins. @param {string} name */
function letterOf(name) {
  const [first = ''] = read(name)
  return /^[a-z]/.test(first) ? first.charAt(0).toUpperCase() : '#'
}

/** What orders names by how they are read, the unknown ones last. @param {string} name */
function orderOf(name) {
  return (letterOf(name) === '#' ? UNKNOWN : '') + read(name).join(' ')
}

module.exports = { read, letterOf, orderOf }
