/**
 * Puts the mini program's CommonJS files into one object of functions, by path.
 * `require` is resolved at run time, by the runtime's module loader.
 */

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
 * @returns {string}  a JavaScript expression
 */
export function bundleScripts(program) {
  const scripts = [...program.files].filter(([file]) => file.endsWith('.js') && !OF_WECHAT.includes(file))
  const entries = scripts.map(
    ([file, text]) => `${JSON.stringify(file)}:function(${MODULE_GLOBALS}){'use strict';${text}\n}`,
  )
  return `{${entries.join(',\n')}}`
}
