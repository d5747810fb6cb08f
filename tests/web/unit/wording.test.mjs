import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Phone, program } from './phone.mjs'

const phone = new Phone()
const wording = phone.service('wording')
const zh = phone.load('i18n/zh.js')
const en = phone.load('i18n/en.js')

test('percentages claim neither certainty nor impossibility', () => {
  assert.deepEqual([1, 0.996, 0.93, 0.014, 0.004, 0].map(wording.percent), ['>99%', '>99%', '93%', '1%', '<1%', '<1%'])
})

test('names are in the language of the app, with the English one under a Chinese one', () => {
  const breed = { name: 'basset', name_zh: '巴吉度猎犬' }
  assert.deepEqual(wording.names(breed, 'zh'), { main: '巴吉度猎犬', second: 'Basset' })
  assert.deepEqual(wording.names(breed, 'en'), { main: 'Basset', second: '' })
})

test('ranges of one value are written as one value', () => {
  assert.deepEqual([wording.range([8, 10.5]), wording.range([30, 30])], ['8–10.5', '30'])
})

test('a day is counted by the calendar, not by 24 hours', () => {
  const at = (day, hour) => new Date(2025, 4, day, hour).getTime()
  const { history } = en.pages
  assert.equal(wording.day(at(9, 23), at(10, 1), history), 'Yesterday')
  assert.equal(wording.day(at(10, 1), at(10, 23), history), 'Today')
  assert.equal(wording.day(at(3, 1), at(10, 23), history), '3 May 2025')
})

/** Every text with its path, as [["pages.home.title", "识狗"], ...]. */
function leaves(texts, path = []) {
  if (typeof texts !== 'object') return [[path.join('.'), texts]]
  return Object.entries(texts).flatMap(([key, value]) => leaves(value, [...path, key]))
}

const holes = (text) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort()

test('both languages have the same texts, with the same places to fill', () => {
  assert.deepEqual(
    leaves(zh)
      .map(([path]) => path)
      .sort(),
    leaves(en)
      .map(([path]) => path)
      .sort(),
  )
  const english = Object.fromEntries(leaves(en))
  for (const [path, text] of leaves(zh)) {
    if (path !== 'pages.history.date') assert.deepEqual(holes(text), holes(english[path]), path)
  }
})

test('where the classes are no dogs, the app speaks of no dog and no breed', () => {
  const other = new Phone()
  other.storage.areDogs = false
  for (const [language, words] of [['zh_CN', /狗|犬|品种/], ['en', /\bdogs?\b|breed|mutt|ancestry/i]]) {
    other.language = language
    const texts = Object.fromEntries(leaves(other.service('language').texts()))
    const base = Object.fromEntries(leaves(language === 'en' ? en : zh))
    assert.deepEqual(Object.keys(texts).sort(), Object.keys(base).sort())
    for (const [path, text] of Object.entries(texts)) {
      if (/((result|captions)\.(dog|dogs|moreDogs|chooseDog)|breed\.wild)\b/.test(path)) continue // of versions that find every dog, and of facts
      assert.doesNotMatch(text, words, path)
      if (text && text !== base[path] && path !== 'pages.breeds.mix') assert.deepEqual(holes(text), holes(base[path]), path)
    }
  }
})

test('every text is used by its page', () => {
  for (const [page, texts] of Object.entries(zh.pages)) {
    const components = Object.values(program.units[`pages/${page}/${page}`].config.usingComponents)
    const files = [`pages/${page}/${page}.js`, `pages/${page}/${page}.wxml`, ...components.map((path) => `${path.slice(1)}.wxml`)]
    const services = ['appearance', 'view', 'wording'].map((name) => `services/${name}.js`)
    const source = [...files, ...services].map((file) => program.files.get(file)).join('\n')
    for (const key of Object.keys(texts)) assert.match(source, new RegExp(`\\b${key}\\b`), `${page}.${key}`)
  }
})

test('every kind of failure that the services name has a sentence', () => {
  const [, union] = /@typedef \{('offline'[^}]*)\} FailureKind/.exec(program.files.get('services/request.js'))
  const kinds = [...union.matchAll(/'(\w+)'/g)].map((match) => match[1]).filter((kind) => kind !== 'cancelled')
  assert.ok(kinds.length > 8)
  for (const kind of kinds) assert.ok(zh.pages.result.failures[kind], kind)
})
