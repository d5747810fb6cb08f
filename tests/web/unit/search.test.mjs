import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Phone } from './phone.mjs'

const { search, isMix } = new Phone().service('breeds')

const BREEDS = [
  { id: 'n01', name: 'golden retriever', name_zh: '金毛寻回犬' },
  { id: 'n02', name: 'German shepherd', name_zh: '德国牧羊犬' },
  { id: 'n03', name: 'pug', name_zh: '巴哥犬' },
  { id: 'n04', name: 'Saint Bernard', name_zh: '圣伯纳犬' },
  { id: 'n05', name: 'toy poodle', name_zh: '玩具贵宾犬' },
  { id: 'n06', name: 'Shih-Tzu', name_zh: '西施犬' },
  { id: 'n07', name: 'dachshund', name_zh: '腊肠犬' },
  { id: 'n08', name: 'Siberian husky', name_zh: '西伯利亚雪橇犬' },
]
const found = (words) => search(BREEDS, words).map(({ name }) => name)

test('a search forgives widths, marks, misspellings and the order of words', () => {
  const expected = {
    retreiver: 'golden retriever',
    'German Shepard': 'German shepherd',
    ｐｕｇ: 'pug',
    'pug.': 'pug',
    'St. Bernard': 'Saint Bernard',
    'poodle, toy': 'toy poodle',
    shitzu: 'Shih-Tzu',
    daschund: 'dachshund',
    huskies: 'Siberian husky',
    'the pug': 'pug',
    金毛: 'golden retriever',
  }
  for (const [words, name] of Object.entries(expected)) assert.deepEqual(found(words), [name], words)
})

test('words for dogs of no breed are known as such, and are no misspelt breed', () => {
  for (const words of ['土狗', '串串', 'mutt', 'Mutt', 'mixed', 'mongrel']) {
    assert.ok(isMix(words), words)
    assert.deepEqual(found(words), [], words)
  }
  for (const { name, name_zh: chinese } of BREEDS) assert.ok(!isMix(name) && !isMix(chinese), name)
})

test('a short word is not misspelt, and a strange one finds nothing', () => {
  for (const words of ['pig', 'zzzz', 'hamsters', 'the']) assert.deepEqual(found(words), [], words)
})
