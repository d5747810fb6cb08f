/** The language in force, and the app's texts in it. Which page shows which text is the pages' business. */
const models = require('./models')
const settings = require('./settings')
const traditional = require('./traditional')
const zh = require('../i18n/zh')
const en = require('../i18n/en')
const otherZh = require('../i18n/other_zh')
const otherEn = require('../i18n/other_en')

/** @typedef {typeof zh} Texts */
/** @typedef {'zh' | 'zh-Hant' | 'en'} Language */

/** By language: the texts about dogs, and those where the classes are other things. */
const TEXTS = {
  zh: { dogs: zh, other: replaced(zh, otherZh) },
  en: { dogs: en, other: replaced(en, otherEn) },
}

/** How phones name Chinese that is written in traditional characters. */
const TRADITIONAL = /Hant|TW|HK|MO/i

/** @returns {Language}  Chinese is in simplified characters until the table for the others is there */
function currentLanguage() {
  const wanted = wantedLanguage()
  return wanted === 'zh-Hant' && !traditional.isReady() ? 'zh' : wanted
}

/** @returns {Language} */
function wantedLanguage() {
  const { language: chosen } = settings.get()
  if (chosen !== 'phone') return chosen
  const { language: own } = wx.getAppBaseInfo()
  if (!own.startsWith('zh')) return 'en'
  return TRADITIONAL.test(own) ? 'zh-Hant' : 'zh'
}

/** @returns {Texts} */
function texts() {
  const language = currentLanguage()
  const { dogs, other } = TEXTS[language === 'en' ? 'en' : 'zh']
  const written = models.areDogs() ? dogs : other
  return language === 'zh-Hant' ? traditional.writeAll(written) : written
}

/** The texts with some of them replaced, at any depth. */
function replaced(texts, others) {
  const result = Object.assign({}, texts)
  for (const [name, text] of Object.entries(others)) {
    result[name] = typeof text === 'string' || Array.isArray(text) ? text : replaced(texts[name], text)
  }
  return result
}

module.exports = { currentLanguage, wantedLanguage, texts }
