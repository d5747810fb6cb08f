import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import OpenCC from '../../../backend/web/node_modules/opencc-js/dist/esm/full.js'
import { OWN_WORDS, traditionalTable } from '../../../backend/web/compiler/traditional.mjs'
import { Phone, settle } from './phone.mjs'

const MODELS = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../models')
const zh = new Phone().load('i18n/zh.js')
const breeds = JSON.parse(fs.readFileSync(path.join(MODELS, 'breeds.json'), 'utf8'))
const table = traditionalTable({ app: zh, facts: breeds })
const { rewrite } = new Phone().load('services/characters.js')

test('the table writes every text of the app as OpenCC does, but for words that Taiwan says otherwise', () => {
  const convert = OpenCC.Converter({ from: 'cn', to: 'twp' })
  const own = new RegExp(`(${Object.keys(OWN_WORDS).join('|')})`)
  const written = (text) => text.split(own).map((part) => OWN_WORDS[part] ?? convert(part))
  for (const text of JSON.stringify(zh).match(/\p{Script=Han}+/gu)) assert.equal(rewrite(text, table), written(text).join(''))
  for (const [word, text] of Object.entries(OWN_WORDS)) assert.equal(rewrite(word, table), text)
  assert.equal(rewrite('请到“设置”里换一个。', table), '請到「設定」裡換一個。')
  assert.equal(rewrite('这台手机的识别记录', table), '這台手機的辨識紀錄')
})

test('a word decides how its characters are written', () => {
  const written = { 毛发: '毛髮', 发现: '發現', 服务器: '伺服器', 一只狗: '一隻狗', 黑面罩: '黑面罩', 比特犬: '比特犬', 松狮犬: '鬆獅犬', 'Pug 巴哥': 'Pug 巴哥' }
  for (const [text, expected] of Object.entries(written)) assert.equal(rewrite(text, table), expected)
})

/** A phone that shows the server's table when it asks for one. */
async function phoneIn(language) {
  const phone = new Phone()
  phone.language = language
  const page = phone.open('home')
  const [asked] = phone.requests
  if (asked) await asked.answer(200, table)
  return { phone, page }
}

for (const language of ['zh_TW', 'zh_HK', 'zh_Hant', 'zh_MO']) {
  test(`a phone in ${language} reads traditional characters, from the next start on without a connection`, async () => {
    const { phone, page } = await phoneIn(language)
    await settle()
    assert.equal(page.data.text.headline, '這是什麼狗？')
    assert.equal(page.data.language, 'zh-Hant')
    const next = new Phone()
    Object.assign(next, { language, storage: phone.storage })
    assert.equal(next.open('home').data.text.headline, '這是什麼狗？')
  })
}

test('other phones ask for no table', async () => {
  for (const language of ['zh_CN', 'en']) assert.equal((await phoneIn(language)).phone.requests.length, 0)
})

test('names and facts of the server are written so, and found in either writing', async () => {
  const { phone } = await phoneIn('zh_TW')
  const wording = phone.service('wording')
  assert.deepEqual(wording.names({ name: 'dachshund', name_zh: '腊肠犬' }, 'zh-Hant'), { main: '臘腸犬', second: 'Dachshund' })
  assert.deepEqual(wording.choose({ zh: ['松软'] }, 'zh-Hant'), [rewrite('松软', table)])
  const { search } = phone.service('search')
  for (const words of ['臘腸', '腊肠', 'dachs']) {
    assert.deepEqual(
      search(breeds, words).map(({ name }) => name),
      ['dachshund'],
      words,
    )
  }
})

test('each language is offered by its own name', async () => {
  const { phone } = await phoneIn('zh_TW')
  const [{ options }] = phone.open('settings').data.groups
  assert.deepEqual(options.map(({ label }) => label), ['跟隨手機', '简体中文', '繁體中文', 'English'])
})

test('without a table and a connection texts stay simplified, and it is asked for again', async () => {
  const phone = new Phone()
  phone.language = 'zh_TW'
  assert.equal(phone.open('home').data.text.headline, '这是什么狗？')
  await phone.requests[0].lose('request:fail')
  phone.open('settings')
  assert.equal(phone.requests.filter(({ url }) => url.endsWith('/traditional.json')).length, 2)
})
