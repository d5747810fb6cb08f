/** Numbers, names and days as the user reads them, in either language. Sentences are in i18n/. */
const traditional = require('./traditional')

/** @typedef {import('./language').Language} Language */

/**
 * @param {number} probability  0 to 1
 * @returns {string}  never "100%" and never "0%": the model is not that sure of anything
 */
function percent(probability) {
  if (probability >= 0.995) return '>99%'
  return probability < 0.01 ? '<1%' : Math.round(probability * 100) + '%'
}

/**
 * @param {{name: string, name_zh: string}} breed
 * @param {Language} language
 * @returns {{main: string, second: string}}  second: the English name under a Chinese one, else empty
 */
function names({ name, name_zh: chinese }, language) {
  const english = withCapital(name)
  if (language === 'en' || !chinese) return { main: english, second: '' }
  return { main: choose({ zh: chinese }, language), second: english }
}

/** A breed's name within a sentence. @param {{name: string, name_zh: string}} breed @param {Language} language */
function within(breed, language) {
  return language === 'en' ? breed.name : names(breed, language).main
}

function withCapital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/**
 * What the server says in both languages, in that of the app.
 * @template T
 * @param {{en?: T, zh?: T} | undefined} texts
 * @param {Language} language
 * @returns {T | undefined}
 */
function choose(texts, language) {
  if (!texts || language === 'en') return texts && texts.en
  return texts.zh && language === 'zh-Hant' ? traditional.writeAll(texts.zh) : texts.zh
}

/** A breed as a question names it: "Is it a pug?". @param {{name: string, name_zh: string}} breed @param {Language} language @param {boolean} areDogs */
function asked(breed, language, areDogs) {
  const { main } = names(breed, language)
  if (language !== 'en') return main
  return areDogs ? `${/^(?!eu|uni)[aeiou]/i.test(breed.name) ? 'an' : 'a'} ${breed.name}` : `“${main}”`
}

/** One after the other. @param {string[]} some  '' for none @param {Language} language */
function sentences(some, language) {
  return some.filter(Boolean).join(language === 'en' ? ' ' : '')
}

/** @param {string[]} words @param {Language} language */
function list(words, language) {
  return words.join(language === 'en' ? ', ' : '、')
}

/** Fills "{name}" places in a sentence. */
function fill(sentence, values) {
  return sentence.replace(/\{(\w+)\}/g, (_, name) => String(values[name]))
}

/**
 * @param {number} time
 * @param {number} now  both in milliseconds since 1970
 * @param {{today: string, yesterday: string, date: string, months: string[]}} text
 */
function day(time, now, text) {
  const days = Math.round((midnight(now) - midnight(time)) / (24 * 3600 * 1000))
  if (days <= 0) return text.today
  if (days === 1) return text.yesterday
  const date = new Date(time)
  return fill(text.date, { year: date.getFullYear(), month: text.months[date.getMonth()], day: date.getDate() })
}

function midnight(time) {
  return new Date(time).setHours(0, 0, 0, 0)
}

/** 90 -> "90 seconds", 1500 -> "25 minutes", 5400 -> "an hour and a half". @param {number} seconds @param {any} text */
function duration(seconds, text) {
  if (seconds < 100) return fill(text.seconds, { count: seconds })
  if (seconds < 3600) return fill(text.minutes, { count: Math.ceil(seconds / 60) })
  const hours = Math.ceil(seconds / 1800) / 2
  return hours < 2 ? text[hours === 1 ? 'hour' : 'hourAndHalf'] : fill(text.hours, { count: hours })
}

/** [25, 34] -> "25–34"; [30, 30] -> "30" */
function range([low, high]) {
  return low === high ? String(low) : `${low}–${high}`
}

/** Items under what they have in common, in the order in which that is met first. @returns {[string, any[]][]} */
function groups(items, titleOf) {
  const found = new Map()
  for (const item of items) found.set(titleOf(item), [...(found.get(titleOf(item)) || []), item])
  return Array.from(found)
}

module.exports = { percent, names, within, withCapital, asked, sentences, choose, list, fill, day, duration, range, groups }
