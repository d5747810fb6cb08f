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

/**
 * Components are style-isolated, as in WeChat: their classes get a prefix. Pages share app.wxss and need none, nor do
 * components that say that they are dressed by their page.
 */
function componentScopes(program) {
  const isOwn = ({ isPage, config }) => !isPage && config.styleIsolation !== 'apply-shared'
  const components = Object.keys(program.units).filter((unit) => isOwn(program.units[unit]))
  return Object.fromEntries(components.map((unit, number) => [unit, 's' + number]))
}

/** Strings (data: URLs are full of braces and commas) are put aside meanwhile. */
function toCss(files, file, scope) {
  const strings = []
  const bare = inlineImports(files, file, new Set()).replace(/"[^"]*"|'[^']*'/g, (text) => `"${strings.push(text) - 1}"`)
  return rewriteRules(bare, scope).replace(/"(\d+)"/g, (_, number) => strings[number])
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

/** "a{b}", where b may hold rules of its own, as @media and @keyframes do. */
const RULE = /([^{}]+)\{((?:[^{}]|\{[^{}]*\})*)\}/g
const COMMA_OUTSIDE_BRACKETS = /,(?![^()]*\))/

function rewriteRules(text, scope) {
  return text.trim().replace(RULE, (_, untrimmed, body) => {
    const head = untrimmed.trim()
    if (/^@(media|supports)\b/.test(head)) return `${head}{${rewriteRules(body, scope)}}\n`
    if (head.startsWith('@')) return `${head}{${rpxToCss(body)}}\n`
    const selectors = head.split(COMMA_OUTSIDE_BRACKETS).map((selector) => scopeSelector(selector.trim(), scope))
    return `${selectors.join(',')}{${rpxToCss(body.trim())}}\n`
  }).trim()
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
