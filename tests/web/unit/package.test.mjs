import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import zlib from 'node:zlib'
import { program } from './phone.mjs'

const BACKEND = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../backend')
const WEB = path.join(BACKEND, 'web')
const APP = path.join(BACKEND, 'dogsnap/server/pages/app')
const dist = (file) => fs.readFileSync(path.join(APP, file))
const json = (file) => JSON.parse(fs.readFileSync(path.join(WEB, file), 'utf8'))

/** A quarter of WeChat's limit of 2 MB. */
const MOST_PACKAGE_BYTES = 500_000
/** What the first screen takes, and what comes once it is shown. */
const FIRST = ['index.html', 'app.js', 'app.css']
const REST = ['pages.js']
const MOST_FIRST_BYTES = 112_000
const MOST_WEB_BYTES = 127_000

test('the whole package has less than 500 kB', () => {
  const bytes = [...program.files.values()].reduce((sum, text) => sum + Buffer.byteLength(text), 0)
  console.log(`package: ${bytes} bytes in ${program.files.size} files`)
  assert.ok(bytes < MOST_PACKAGE_BYTES, `${bytes} bytes`)
})

test('the first screen takes at most 112 kB gzipped, and the whole app 127 kB', () => {
  const bytesOf = (files) => files.reduce((sum, file) => sum + zlib.gzipSync(dist(file)).length, 0)
  const [first, whole] = [bytesOf(FIRST), bytesOf([...FIRST, ...REST])]
  console.log(`gzipped: ${first} bytes for the first screen, ${whole} bytes in all`)
  assert.ok(first <= MOST_FIRST_BYTES, `${first} bytes`)
  assert.ok(whole <= MOST_WEB_BYTES, `${whole} bytes`)
})

test('the licences of what is bundled go along', () => {
  assert.match(dist('licenses.txt').toString(), /glass-easel[\s\S]*Permission is hereby granted/)
})

test('the three parts of the engine have one version', () => {
  const { dependencies } = json('package.json')
  const engine = ['glass-easel', 'glass-easel-miniprogram-adapter', 'glass-easel-template-compiler'].map(
    (name) => dependencies[name],
  )
  assert.deepEqual(engine, ['0.12.1', '0.12.1', '0.12.1'])
})

test('package-lock.json holds a hash for every package and the address of none', () => {
  const packages = Object.entries(json('package-lock.json').packages).filter(([name]) => name)
  assert.ok(packages.length > 0)
  for (const [name, { integrity, resolved }] of packages) {
    assert.match(integrity, /^sha512-/, name)
    assert.equal(resolved, undefined, name)
  }
})

test('the minimum base library of WeChat is one number, in the configuration and in the documents', () => {
  const { libVersion } = JSON.parse(program.files.get('project.config.json'))
  for (const file of ['miniprogram/README.md', 'miniprogram/README.zh.md', 'docs/tutorials/publish_in_wechat.md']) {
    const text = fs.readFileSync(path.join(BACKEND, '..', file), 'utf8')
    assert.deepEqual([...new Set(text.match(/(?<![\d.])\d\.\d\d\.\d+(?!\d|\.\d)/g))], [libVersion], file)
  }
})

test("the version of WeChat's compiler is pinned", () => {
  assert.match(json('check_wechat/package.json').dependencies['miniprogram-ci'], /^\d+\.\d+\.\d+$/)
})

test('names and order of the breeds come from the server: the package holds none', () => {
  const breeds = json('../../models/breeds.json')
  assert.ok(breeds.length > 100)
  for (const [file, text] of program.files) {
    const named = breeds.filter(({ id, name }) => text.includes(id) || text.includes(`'${name}'`))
    assert.deepEqual(named, [], file)
  }
})

test('the app says the version of the package', () => {
  const [, version] = /^version = "(.*)"$/m.exec(fs.readFileSync(path.join(BACKEND, '../pyproject.toml'), 'utf8'))
  assert.match(program.files.get('config.js'), new RegExp(`VERSION = '${version}'`))
})

test("the pictures of the tabs are as WeChat takes them, and each has the drawing that browsers show", () => {
  for (const { iconPath, selectedIconPath } of program.app.tabBar.list) {
    for (const file of [iconPath, selectedIconPath]) {
      const png = fs.readFileSync(path.join(program.root, file))
      assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [81, 81], file)
      assert.ok(png.length < 40_000, file)
    }
    assert.ok(fs.existsSync(path.join(program.root, iconPath.replace('png', 'svg'))))
  }
})

test('only config.js knows a host', () => {
  for (const [file, text] of program.files) {
    const hosts = text.replaceAll('http://www.w3.org/2000/svg', '').match(/https?:\/\/\S+/g) ?? []
    if (file !== 'config.js') assert.deepEqual(hosts, [], file)
  }
})
