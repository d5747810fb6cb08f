/**
 * Makes the table by which the app writes its Chinese in traditional characters: whatever OpenCC does differently for the
 * texts of the app and the names and facts of the breeds, as few and as short words as give its very result.
 */
import { createRequire } from 'node:module'
import OpenCC from 'opencc-js'

const { rewrite } = createRequire(import.meta.url)('../../../miniprogram/services/characters.js')

/** Longer words than these hardly decide how a character is written. */
const LONGEST = 8

/** Words that OpenCC takes for others (noodles, to knead dough, a tortuous sound), and those that Taiwan says otherwise than it. */
export const OWN_WORDS = {
  ...{ 黑面罩: '黑面罩', 和面部: '和面部', 回音: '回音', 线条: '線條' },
  ...{ 联网: '連線', 列表: '清單', 重发: '重新傳送', 发给: '傳給', 返回的: '傳回的', 运营者: '營運者' },
  ...{ 台: '台', 厘米: '公分', 反馈: '回饋', 识别: '辨識', 记录: '紀錄', 权限: '權限', 声明: '聲明', 撤销: '復原', 裁剪: '裁切' },
}

/**
 * @param {{app: any, facts: any}} texts  app: in Taiwan's own words, such as 伺服器 for 服务器; facts: in its characters
 * @returns {Record<string, string>}
 */
export function traditionalTable({ app, facts }) {
  const table = { '“': '「', '”': '」' }
  add(table, runsOf(app), converter('twp'))
  add(table, runsOf(facts), converter('tw'))
  return table
}

function converter(to) {
  const convert = OpenCC.Converter({ from: 'cn', to })
  const own = new RegExp(`(${Object.keys(OWN_WORDS).join('|')})`)
  return (text) => {
    const parts = text.split(own).map((part) => OWN_WORDS[part] ?? convert(part))
    return parts.join('')
  }
}

/** Whatever is written in Chinese characters, without what stands between. @returns {string[]} */
function runsOf(texts) {
  return [...new Set(JSON.stringify(texts).match(/\p{Script=Han}+/gu))]
}

/** What the table says already stays. */
function add(table, runs, convert) {
  let wrong = runs
  for (let length = 1; length <= LONGEST && wrong.length; length++) {
    for (const word of wordsOf(wrong, length)) {
      if (!(word in table) && rewrite(word, table) !== convert(word)) table[word] = convert(word)
    }
    wrong = wrong.filter((run) => rewrite(run, table) !== convert(run))
  }
}

function wordsOf(runs, length) {
  const words = new Set()
  for (const run of runs) for (let start = 0; start + length <= run.length; start++) words.add(run.slice(start, start + length))
  return words
}
