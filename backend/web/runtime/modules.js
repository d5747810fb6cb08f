/** CommonJS for the mini program's own files: require() by relative path, each file run once. Nothing else is known. */

/**
 * @param {Record<string, Function>} scripts  file path -> function of MODULE_GLOBALS (compiler/scripts.mjs)
 * @param {() => any[]} globals  what comes after `exports`, at the moment a module first runs
 */
export function createLoader(scripts, globals) {
  const loaded = new Map()

  function load(file) {
    if (loaded.has(file)) return loaded.get(file).exports
    const module = { exports: {} }
    loaded.set(file, module)
    const require = (target) => load(find(file, target))
    scripts[file](require, module, module.exports, ...globals())
    return module.exports
  }

  function find(from, target) {
    const path = join(target.startsWith('/') ? '' : folderOf(from), target)
    const file = [path, path + '.js'].find((candidate) => candidate in scripts)
    if (!file) throw new Error(`module '${target}' is not defined, require args is '${target}' (in ${from})`)
    return file
  }

  return load
}

function folderOf(file) {
  return file.split('/').slice(0, -1).join('/')
}

/** Joins a folder and a relative path; "." and ".." are resolved. */
export function join(folder, target) {
  const parts = []
  for (const part of `${folder}/${target}`.split('/')) {
    if (part === '..') parts.pop()
    else if (part && part !== '.') parts.push(part)
  }
  return parts.join('/')
}
