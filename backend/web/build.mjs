/**
 * Builds the mini program and its runtime into a static folder: node build.mjs [SOURCE [TARGET]].
 * The server serves that folder at "/".
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import esbuild from 'esbuild'
import { bundleScripts } from './compiler/scripts.mjs'
import { readProgram } from './compiler/source.mjs'
import { compileTemplates } from './compiler/templates.mjs'
import { traditionalTable } from './compiler/traditional.mjs'
import { compileStyles } from './compiler/wxss.mjs'
import { BUILTINS } from './runtime/builtins/index.js'

const HERE = path.dirname(fileURLToPath(import.meta.url))
const SOURCE = path.join(HERE, '../../miniprogram')
const TARGET = path.join(HERE, '../dogsnap/server/pages/app')
const MODELS = path.join(HERE, '../../models')

/** Browsers from 2021 on; older ones have no :where() and no AbortSignal.timeout either. */
const BROWSERS = 'es2021'

/** Of the installed app, by language; English is in the manifest. */
const NAMES = { zh: '识狗', 'zh-Hant': '識狗' }
const MANIFEST = 'manifest.webmanifest'
const ICON = 'icon-192.png'

/** What answers without a connection: fetched by those alone who choose that. */
const OFFLINE = ['offline.js', 'offline.wasm']

/** What the page loads, the last once its first screen is shown; and what the runtime then does with it, which has to be of one version. */
const PARTS = { 'app.css': '', 'app.js': 'run', 'pages.js': 'add' }

/** Throws if the template compiler reports a problem; otherwise replaces the folder. */
export function build(source = SOURCE, target = TARGET) {
  const { script, rest, css } = compile(readProgram(source))
  fs.rmSync(target, { recursive: true, force: true })
  fs.mkdirSync(target, { recursive: true })
  const own = esbuild.transformSync(css, { minify: true, loader: 'css' }).code
  const contents = [bundle('runtime/runtime.css') + own, bundle('runtime/main.js') + script, rest]
  const version = digest(contents.join()).replace(/\W/g, '').slice(0, 12)
  Object.entries(PARTS).forEach(([file, act], place) => {
    const start = act && `miniProgram.${act}('${version}')`
    fs.writeFileSync(path.join(target, file), contents[place] + start)
  })
  fs.cpSync(path.join(HERE, 'runtime/install'), target, { recursive: true })
  writeManifests(target)
  writeTraditional(source, target)
  writePlots(target)
  writeOffline(target)
  fs.writeFileSync(path.join(target, 'licenses.txt'), licenses())
  writeVersion(target, version)
}

/** What is installed has a name in the language of the phone; main.js chooses the manifest. */
function writeManifests(target) {
  const manifest = JSON.parse(fs.readFileSync(path.join(target, 'manifest.webmanifest')))
  for (const [lang, short_name] of Object.entries(NAMES)) {
    const translated = { ...manifest, lang, short_name, name: `${short_name} dogsnap` }
    fs.writeFileSync(path.join(target, `manifest-${lang}.webmanifest`), JSON.stringify(translated))
  }
}

/** How the app writes Chinese in traditional characters: fetched by those phones alone that need it. */
function writeTraditional(source, target) {
  const read = createRequire(import.meta.url)
  const facts = ['breeds.json', 'groups.json'].map((file) => read(path.join(MODELS, file)))
  const app = ['zh.js', 'other_zh.js'].map((file) => read(path.resolve(source, 'i18n', file)))
  const table = traditionalTable({ app, facts })
  fs.writeFileSync(path.join(target, 'traditional.json'), JSON.stringify(table))
}

/** What draws the console's pictures, which imports it from here. */
function writePlots(target) {
  const folder = path.join(HERE, 'node_modules/uplot/dist')
  const script = fs.readFileSync(path.join(folder, 'uPlot.esm.js'), 'utf8')
  const { code } = esbuild.transformSync(script, { minify: true, target: BROWSERS, format: 'esm', legalComments: 'none' })
  fs.writeFileSync(path.join(target, 'uplot.js'), code)
  fs.copyFileSync(path.join(folder, 'uPlot.min.css'), path.join(target, 'uplot.css'))
}

/** TensorFlow.js, and what it runs networks with. */
function writeOffline(target) {
  const [script, module] = OFFLINE.map((file) => path.join(target, file))
  fs.writeFileSync(script, bundle('runtime/offline_worker.js'))
  fs.copyFileSync(path.join(HERE, 'node_modules/@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm'), module)
}

/** The page asks for files of its own version alone, and the service worker keeps them only with these contents. */
function writeVersion(target, version) {
  const read = (file) => fs.readFileSync(path.join(target, file))
  const parts = Object.keys(PARTS)
  const html = fs.readFileSync(path.join(HERE, 'runtime/index.html'), 'utf8')
  const ofVersion = parts.reduce((text, file) => text.replace(`"${file}"`, `"${file}?${version}"`), html)
  fs.writeFileSync(path.join(target, 'index.html'), ofVersion)
  const integrity = (file) => `sha256-${digest(read(file))}`
  const asTheyAre = (names) => names.map((file) => ({ url: file, integrity: integrity(file) }))
  const files = [
    { url: './', integrity: integrity('index.html') },
    ...parts.map((file) => ({ url: `${file}?${version}`, integrity: integrity(file) })),
    ...asTheyAre([MANIFEST, ICON]),
  ]
  const constants = { VERSION: version, FILES: files, OFFLINE: asTheyAre(OFFLINE) }
  const stated = Object.entries(constants).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
  const worker = `const ${stated.join(', ')}\n${read('sw.js')}`
  fs.writeFileSync(path.join(target, 'sw.js'), worker)
}

function digest(contents) {
  return createHash('sha256').update(contents).digest('base64')
}

/** Packages whose code or words are in what is built: their licences go along. */
const TENSORFLOW = ['core', 'converter', 'backend-cpu', 'backend-wasm'].map((part) => `@tensorflow/tfjs-${part}`)
const BUNDLED = ['glass-easel', 'glass-easel-miniprogram-adapter', 'long', 'opencc-js', 'seedrandom', 'uplot', ...TENSORFLOW]

/** Its own file, or the end of its README; what has neither is under the licence of this project. */
function licenses() {
  const read = (file) => fs.readFileSync(file, 'utf8')
  const text = (name) => {
    const own = path.join(HERE, 'node_modules', name)
    if (fs.existsSync(path.join(own, 'LICENSE'))) return read(path.join(own, 'LICENSE'))
    return read(path.join(own, 'README.md')).split(/^LICENSE.*$/m)[1]?.trim() ?? read(path.join(HERE, '../../LICENSE'))
  }
  const names = new Map()
  for (const name of BUNDLED) names.set(text(name), [...(names.get(text(name)) ?? []), name])
  return [...names].map(([words, own]) => `${own.join(', ')}\n\n${words}`).join('\n\n')
}

/** The program as a script, another with the rest of it, which leave it to the runtime, and one style sheet. */
export function compile(program) {
  const templates = compileTemplates(program, BUILTINS)
  if (templates.problems.length) throw new Error('Templates with problems:\n' + templates.problems.join('\n'))
  const { css, scopes } = compileStyles(program, Object.keys(BUILTINS))
  const { units } = program
  const data = JSON.stringify({ app: withIcons(program), units, scopes }).slice(1, -1)
  const { first, rest } = bundleScripts(program)
  const script = `${minified(`miniProgram.scripts=${first}`)}miniProgram.program={${data},templates:${templates.code}};`
  return { css, script, rest: minified(`miniProgram.rest=${rest}`) }
}

/** app.json with the pictures of its tabs in place of their paths. WeChat takes PNG alone; a browser gets the drawing beside it. */
function withIcons({ root, app }) {
  const drawing = (file) => fs.readFileSync(path.join(root, file.replace(/png$/, 'svg')), 'utf8').trim()
  const picture = (file) => `data:image/svg+xml,${drawing(file).replaceAll('#', '%23').replaceAll('<', '%3C').replaceAll('>', '%3E')}`
  const list = app.tabBar?.list.map(({ pagePath, text, iconPath }) => ({ pagePath, text, iconPath: picture(iconPath) }))
  return list ? { ...app, tabBar: { list } } : app
}

/** Not for templates: as their compiler writes them they are smaller, once compressed. */
function minified(script) {
  return esbuild.transformSync(script, { minify: true, target: BROWSERS, charset: 'utf8' }).code
}

/** What only the engine's own code calls so. */
const ENGINES_OWN = /^_\$./
const ASKED_BY_NAME = /^_\$(lifetimeFuncs|pageLifetimeFuncs|dataGroupObserverTree)$/

/** @returns {string}  the file with all that it imports */
function bundle(entry) {
  const { outputFiles } = esbuild.buildSync({
    entryPoints: [path.join(HERE, entry)],
    write: false,
    bundle: true,
    minify: true,
    mangleProps: ENGINES_OWN,
    reserveProps: ASKED_BY_NAME,
    format: 'iife',
    target: BROWSERS,
    legalComments: 'none',
  })
  return outputFiles[0].text
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) build(...process.argv.slice(2))
