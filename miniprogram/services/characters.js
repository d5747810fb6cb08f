/** Writes Chinese in other characters, by a table: word or character -> how it is written. */

/**
 * @param {string} text
 * @param {Record<string, string>} table
 * @returns {string}  at each place the longest word of the table counts
 */
function rewrite(text, table) {
  const longest = Math.max(1, ...Object.keys(table).map(({ length }) => length))
  let written = ''
  for (let start = 0; start < text.length; ) {
    const word = wordAt(text, start, longest, table)
    written += table[word] || word
    start += word.length
  }
  return written
}

/** @returns {string}  one character where no word of the table begins */
function wordAt(text, start, longest, table) {
  for (let length = longest; length > 1; length--) {
    const word = text.slice(start, start + length)
    if (word in table) return word
  }
  return text[start]
}

module.exports = { rewrite }
