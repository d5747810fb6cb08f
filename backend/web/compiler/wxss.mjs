/**
 * Turns WXSS into CSS: imports inlined, rpx made a length, tags named wx-*, and each page's and component's rules kept
 * to itself. It checks no property and no value: browsers ignore what they do not know, as WeChat does.
 */
import { resolve } from './source.mjs'

/**
 * @param {import('./source.mjs').Program} program
 * @param {string[]} tags  built-in components; their elements are called wx-<tag> in the page
 * @returns {{css: string, scopes: Record<string, string>}}  scopes: class prefix by isolated component
 */
export function compileStyles(program, tags) {
  const scopes = componentScopes(program)
  const unitCss = Object.keys(program.units)
    .filter((unit) => program.files.has(unit + '.wxss'))
    .map((unit) =>
      toCss(program.files, unit + '.wxss', { tags, prefix: scopes[unit], page: program.units[unit].isPage && unit }),
    )
  return { css: [toCss(program.files, 'app.wxss', { tags }), ...unitCss].join('\n'), scopes }
}

/** Components are style-isolated, as in WeChat: their classes get a prefix. Pages share app.wxss and need none. */
function componentScopes(program) {
  const components = Object.keys(program.units).filter((unit) => !program.units[unit].isPage)
  return Object.fromEntries(components.map((unit, number) => [unit, 's' + number]))
}

function toCss(files, file, scope) {
  return rewriteRules(inlineImports(files, file, new Set()), scope)
}

function inlineImports(files, file, seen) {
  if (seen.has(file)) return ''
  seen.add(file)
  if (!files.has(file)) throw new Error(`WXSS file ${file} is missing; an @import names it.`)
  const text = files.get(file).replace(/\/\*[\s\S]*?\*\//g, '')
  return text.replace(/@import\s+["']([^"']+)["']\s*;/g, (_, target) =>
    inlineImports(files, resolve(file, target), seen),
  )
}

function rewriteRules(text, scope) {
  return splitRules(text)
    .map(({ head, body }) => {
      if (/^@(media|supports)\b/.test(head)) return `${head}{${rewriteRules(body, scope)}}`
      if (head.startsWith('@')) return `${head}{${rpxToCss(body)}}`
      const selectors = splitOutside(head, ',').map((selector) => scopeSelector(selector.trim(), scope))
      return `${selectors.join(',')}{${rpxToCss(body.trim())}}`
    })
    .join('\n')
}

/** "a{b}c{d}" as [{head: "a", body: "b"}, {head: "c", body: "d"}]; strings and inner rules are left whole. */
function splitRules(text) {
  const rules = []
  let depth = 0,
    start = 0,
    head = ''
  for (const { index, char } of outsideStrings(text)) {
    if (char === '{' && depth++ === 0) {
      head = text.slice(start, index).trim()
      start = index + 1
    }
    if (char === '}' && --depth === 0) {
      rules.push({ head, body: text.slice(start, index) })
      start = index + 1
    }
  }
  return rules
}

function splitOutside(text, separator) {
  const parts = []
  let depth = 0,
    start = 0
  for (const { index, char } of outsideStrings(text)) {
    if (char === '(' || char === '[') depth++
    if (char === ')' || char === ']') depth--
    if (char === separator && depth === 0) {
      parts.push(text.slice(start, index))
      start = index + 1
    }
  }
  return [...parts, text.slice(start)]
}

/** Every character that is not inside a quoted string (data: URLs are full of braces and commas). */
function* outsideStrings(text) {
  let quote = ''
  for (let index = 0; index < text.length; index++) {
    const char = text[index]
    if (quote) {
      if (char === quote) quote = ''
    } else if (char === '"' || char === "'") quote = char
    else yield { index, char }
  }
}

/** 750 rpx are the width of the screen; the runtime's style sheet says how long one is. */
export function rpxToCss(text) {
  return text.replace(/(-?(?:\d+\.?\d*|\.\d+))rpx\b/g, 'calc(var(--rpx) * $1)')
}

const SELECTOR_PARTS = /(\[[^\]]*\])|(:host)\b|(::?[-\w]+)|\.([-\w]+)|(#[-\w]+)|([a-zA-Z][-\w]*)/g

function scopeSelector(selector, { tags, prefix, page }) {
  const named = selector.replace(SELECTOR_PARTS, (whole, attribute, host, pseudo, className, id, tag) => {
    if (host) return `[wx-host="${prefix}"]`
    if (className) return '.' + (prefix ? `${prefix}--` : '') + className
    return tag === 'page' || tags.includes(tag) ? 'wx-' + tag : whole
  })
  return page ? keepToPage(named, page) : named
}

/** :where() keeps the page's name out of the specificity, so that app.wxss and page.wxss compete as in WeChat. */
function keepToPage(selector, page) {
  const name = `:where(wx-page[is="${page}"])`
  return /^wx-page\b/.test(selector) ? selector.replace(/^wx-page/, `wx-page${name}`) : `${name} ${selector}`
}
