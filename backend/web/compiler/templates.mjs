/**
 * Compiles WXML templates to the functions that glass-easel runs, with glass-easel's own compiler.
 * Problems that the compiler reports fail the build.
 */
import { createRequire } from 'node:module'

const { TmplGroup } = createRequire(import.meta.url)('glass-easel-template-compiler')

/** Where the templates of the runtime's built-in components live, apart from every path of a mini program. */
export const BUILTIN_PREFIX = 'wx/'

/**
 * @param {import('./source.mjs').Program} program
 * @param {Record<string, {template: string}>} builtins  built-in components by tag
 * @returns {{code: string, problems: string[]}}  code: one JavaScript expression, template functions by path
 */
export function compileTemplates(program, builtins) {
  const group = new TmplGroup()
  const problems = []
  const add = (path, file, text) => {
    for (const { message, startLine, startColumn } of group.addTmpl(path, text))
      problems.push(`${file}:${startLine + 1}:${startColumn + 1} ${message}`)
  }
  for (const [file, text] of program.files) {
    if (file.endsWith('.wxml')) add(file.slice(0, -'.wxml'.length), file, text)
  }
  for (const [tag, { template }] of Object.entries(builtins)) add(BUILTIN_PREFIX + tag, `built-in <${tag}>`, template)
  return { code: group.getTmplGenObjectGroups(), problems: [...problems, ...unknownTags(program, builtins)] }
}

/** Elements that template syntax itself defines. */
const SYNTAX_TAGS = new Set(['block', 'template', 'import', 'include', 'slot'])

/** Unknown tags: neither syntax, nor built-in, nor a component of the page. In a browser they would be empty. */
function unknownTags(program, builtins) {
  return Object.entries(program.units).flatMap(([unit, { config }]) => {
    const known = (tag) => SYNTAX_TAGS.has(tag) || tag in builtins || tag in config.usingComponents
    const text = program.files.get(unit + '.wxml').replace(/<!--[\s\S]*?-->/g, '')
    const tags = new Set([...text.matchAll(/<([a-z][\w-]*)/g)].map((match) => match[1]))
    return [...tags]
      .filter((tag) => !known(tag))
      .map((tag) => `${unit}.wxml: <${tag}> is not a built-in component of the runtime, nor in usingComponents`)
  })
}
