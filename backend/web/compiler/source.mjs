/**
 * Reads a mini program from its folder: app.json, the pages, and the components they use.
 * It compiles nothing.
 */
import fs from 'node:fs'
import path from 'node:path'

/**
 * @typedef {object} Program
 * @property {string} root  folder the program was read from
 * @property {Map<string, string>} files  text files by path, relative to the root, "/" between folders
 * @property {any} app  app.json
 * @property {Record<string, Unit>} units  pages and components by path without extension
 *
 * @typedef {{isPage: boolean, config: any}} Unit  config: the .json beside the page, usingComponents made absolute
 */

const TEXT = /\.(js|json|wxml|wxss)$/

/** @returns {Program} */
export function readProgram(root) {
  const files = new Map(
    listFiles(root)
      .filter((file) => TEXT.test(file))
      .map((file) => [file, fs.readFileSync(path.join(root, file), 'utf8')]),
  )
  const app = JSON.parse(required(files, 'app.json'))
  return { root, files, app, units: findUnits(files, app) }
}

function listFiles(root, folder = '') {
  return fs.readdirSync(path.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const file = path.posix.join(folder, entry.name)
    return entry.isDirectory() ? listFiles(root, file) : [file]
  })
}

function required(files, file) {
  const text = files.get(file)
  if (text === undefined) throw new Error(`The mini program has no ${file}; expected it in its folder.`)
  return text
}

/** Pages named in app.json, and every component reachable from them through usingComponents. */
function findUnits(files, app) {
  const units = {}
  const add = (unit, isPage) => {
    if (units[unit]) return
    required(files, unit + '.js')
    required(files, unit + '.wxml')
    const config = JSON.parse(files.get(unit + '.json') ?? '{}')
    const using = absoluteComponents(unit, { ...app.usingComponents, ...config.usingComponents })
    units[unit] = { isPage, config: { ...config, usingComponents: using } }
    for (const target of Object.values(using)) add(target.slice(1), false)
  }
  for (const page of app.pages) add(page, true)
  return units
}

function absoluteComponents(from, using) {
  const absolute = ([name, target]) => [name, '/' + resolve(from, target)]
  return Object.fromEntries(Object.entries(using).map(absolute))
}

/** A path as written in a file, relative to that file or to the program's root ("/..."), as a path from the root. */
export function resolve(from, target) {
  return target.startsWith('/') ? target.slice(1) : path.posix.join(path.posix.dirname(from), target)
}
