/**
 * Puts the mini program's CommonJS files into objects of functions, by path.
 * `require` is resolved at run time, by the runtime's module loader.
 */
import { resolve } from './source.mjs'

/** The globals of a module besides JavaScript's own. The runtime passes them in this order. */
export const MODULE_GLOBALS = [
  'require',
  'module',
  'exports',
  'wx',
  'App',
  'Page',
  'Component',
  'Behavior',
  'getApp',
  'getCurrentPages',
]

/** What runs networks in WeChat; a browser's is in the worker that it fetches for that. */
const OF_WECHAT = ['inference', 'levels', 'resample'].map((name) => `services/${name}.js`)

/**
 * @param {import('./source.mjs').Program} program
 * @returns {{first: string, rest: string}}  two JavaScript expressions: what the app needs up to its first page, and the rest
 */
export function bundleScripts(program) {
  const needed = neededFirst(program)
  const scripts = [...program.files.keys()].filter((file) => file.endsWith('.js') && !OF_WECHAT.includes(file))
  const wrapped = (file) => `${JSON.stringify(file)}:function(${MODULE_GLOBALS}){'use strict';${program.files.get(file)}\n}`
  const bundle = (files) => `{${files.map(wrapped).join(',\n')}}`
  return { first: bundle(scripts.filter((file) => needed.has(file))), rest: bundle(scripts.filter((file) => !needed.has(file))) }
}

/** The app and its first page, with their components and all that these require. */
function neededFirst({ files, units, app }) {
  const needed = new Set()
  const add = (file) => {
    if (needed.has(file)) return
    needed.add(file)
    for (const [, target] of files.get(file).matchAll(/require\('(.+?)'\)/g)) add(`${resolve(file, target)}.js`)
    const { config = {} } = units[file.replace(/\.js$/, '')] ?? {}
    Object.values(config.usingComponents ?? {}).forEach((component) => add(`${component.slice(1)}.js`))
  }
  add('app.js')
  add(`${app.pages[0]}.js`)
  return needed
}
