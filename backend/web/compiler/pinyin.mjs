/**
 * Makes the table by which the app knows the pinyin of the breeds' names: node compiler/pinyin.mjs writes it. WeChat on
 * Android has no order of Chinese characters, so a phone cannot tell it by itself.
 */
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { customPinyin, pinyin } from 'pinyin-pro'

const HERE = path.dirname(fileURLToPath(import.meta.url))
const BREEDS = path.join(HERE, '../../../models/breeds.json')
const TABLE = path.join(HERE, '../../../miniprogram/services/pinyin_table.js')

/** What pinyin-pro reads otherwise or not at all: the mastiff of Tibet is not a hidden one, Staffordshire is no doctor. */
customPinyin({ 藏獒: 'zàng áo', 藏梗: 'zàng gěng', 史大夫: 'shǐ dà fū', 㹴: 'gěng' })

/**
 * @param {{name_zh?: string, other_names_zh?: string[]}[]} breeds
 * @returns {Record<string, string>}  by syllable, without tones, the characters that are read so. Throws where a character
 *   is read in two ways: then the table has to know words, too
 */
export function pinyinTable(breeds) {
  const names = breeds.flatMap(({ name_zh: name = '', other_names_zh: others = [] }) => [name, ...others])
  const syllables = new Map()
  for (const { origin, result } of names.flatMap((name) => pinyin(name, { toneType: 'none', type: 'all', v: true }))) {
    if (!/\p{Script=Han}/u.test(origin)) continue
    const known = syllables.get(origin) ?? result
    if (known !== result) throw new Error(`${origin} is read ${known} and ${result}`)
    syllables.set(origin, result)
  }
  const table = {}
  for (const [character, syllable] of [...syllables].sort()) table[syllable] = (table[syllable] ?? '') + character
  return table
}

/** @returns {string}  the module of the app */
export function tableModule(breeds) {
  const table = pinyinTable(breeds)
  const entries = Object.keys(table).sort().map((syllable) => `  ${syllable}: '${table[syllable]}',`)
  return `/** By syllable the characters of the breeds' names. Written by \`npm run pinyin\` in backend/web. */\nmodule.exports = {\n${entries.join('\n')}\n}\n`
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const breeds = createRequire(import.meta.url)(BREEDS)
  fs.writeFileSync(TABLE, tableModule(breeds))
}
