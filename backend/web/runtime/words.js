/** What the runtime says itself, in the language of the page in view. */

const WORDS = {
  en: { copied: 'Link copied', copyByHand: 'Copy this link and send it to whom you like.', copy: 'Copy', close: 'Close' },
  zh: { copied: '链接已复制', copyByHand: '复制这个链接，发给朋友。', copy: '复制', close: '关闭' },
  'zh-Hant': { copied: '連結已複製', copyByHand: '複製這個連結，傳給朋友。', copy: '複製', close: '關閉' },
}

/** @returns {typeof WORDS.en} */
export function words() {
  return WORDS[document.documentElement.lang] ?? WORDS.zh
}
