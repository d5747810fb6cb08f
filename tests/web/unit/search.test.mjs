import assert from 'node:assert/strict'
import { test } from 'node:test'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { pinyinTable, tableModule } from '../../../backend/web/compiler/pinyin.mjs'
import { Phone, program, settle } from './phone.mjs'

const { search, isMix, isNamedMix } = new Phone().service('search')

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

// --- the server's breeds

const ALL = JSON.parse(fs.readFileSync(path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../models/breeds.json'), 'utf8'))
const best = (words) => (search(ALL, words)[0] ?? {}).name

test('the breed that is called so comes first, then those that have it in their name', () => {
  const expected = { husky: 'Siberian husky', 杜宾: 'Doberman pinscher', 柯基: 'Pembroke Welsh corgi', bulldog: 'English bulldog', collie: 'collie', lab: 'Labrador retriever', yorkie: 'Yorkshire terrier', 泰迪: 'toy poodle' }
  for (const [words, name] of Object.entries(expected)) assert.equal(best(words), name, words)
})

test('pinyin finds breeds, whole, its beginning, its initials and by another name; letters that are a name come first', () => {
  const expected = { jinmao: 'golden retriever', chaiquan: 'Shiba Inu', 'chai quan': 'Shiba Inu', jmq: 'golden retriever', hashiqi: 'Siberian husky', zangao: 'Tibetan mastiff', xunhui: 'flat-coated retriever', pug: 'pug', chow: 'chow chow' }
  for (const [words, name] of Object.entries(expected)) {
    if (words === 'xunhui') assert.ok(search(ALL, words).length >= 5)
    else assert.equal(best(words), name, words)
  }
})

test('the commonest mixes are known as such, with the breeds of the parents', () => {
  const expected = {
    labradoodle: ['Labrador retriever', 'standard poodle'],
    Goldendoodles: ['golden retriever', 'standard poodle'],
    cockapoo: ['cocker spaniel', 'miniature poodle'],
    maltipoo: ['Maltese', 'toy poodle'],
    puggle: ['pug', 'beagle'],
    pomsky: ['Pomeranian', 'Siberian husky'],
    boxerdoodle: ['standard poodle'],
    'golden doodle': ['golden retriever', 'standard poodle'],
    'mini goldendoodle': ['golden retriever', 'standard poodle'],
    马尔泰迪: ['Maltese', 'toy poodle'],
    金毛贵宾犬: ['golden retriever', 'standard poodle'],
    拉布拉多贵宾狗: ['Labrador retriever', 'standard poodle'],
  }
  for (const [words, names] of Object.entries(expected)) {
    assert.ok(isMix(words) && isNamedMix(words), words)
    assert.deepEqual(search(ALL, words).map(({ name }) => name), names, words)
  }
  for (const word of ['poodle', 'toy poodle', 'schnauzer', '贵宾', 'shampoo']) assert.ok(!isNamedMix(word), word)
})

test('all names of breeds find their breed', () => {
  for (const { id, name, name_zh: chinese, other_names: others = [], other_names_zh: chineseOthers = [] } of ALL) {
    for (const each of [name, chinese, ...others, ...chineseOthers]) assert.ok(search(ALL, each).some((breed) => breed.id === id), each)
  }
})

test('every Chinese name has its letter, by a table that pinyin-pro makes of the breeds', async () => {
  assert.equal(program.files.get('services/pinyin_table.js'), tableModule(ALL), 'run `npm run pinyin` in backend/web')
  assert.deepEqual(pinyinTable([{ name_zh: '柴犬' }, { name_zh: '藏獒' }]), { ao: '獒', chai: '柴', quan: '犬', zang: '藏' })
  const phone = new Phone()
  phone.facts = [...ALL, { id: 'x', name: 'x', name_zh: '龘犬' }]
  const page = phone.open('breeds')
  await settle()
  const letters = Object.fromEntries(page.data.groups.flatMap(({ title, breeds }) => breeds.map(({ name }) => [name, title])))
  for (const [name, letter] of Object.entries({ 藏獒: 'Z', 柴犬: 'C', 阿富汗猎犬: 'A', 金毛寻回犬: 'J', 玩具贵宾犬: 'W', 龘犬: '#' })) assert.equal(letters[name], letter, name)
  const titles = page.data.groups.map(({ title }) => title)
  assert.deepEqual(titles, [...titles.filter((title) => title !== '#').sort(), '#'])
})
