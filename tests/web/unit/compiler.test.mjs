import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { bundleScripts } from '../../../backend/web/compiler/scripts.mjs'
import { readProgram, resolve } from '../../../backend/web/compiler/source.mjs'
import { compileTemplates } from '../../../backend/web/compiler/templates.mjs'
import { compileStyles } from '../../../backend/web/compiler/wxss.mjs'
import { BUILTINS } from '../../../backend/web/runtime/builtins/index.js'
import { unparsable, unparsableExpressions } from '../../../backend/web/check/old_engines.mjs'
import { program as shipped } from './phone.mjs'

/** A mini program of one page and one component, with these files changed or added. */
function tinyProgram(t, files) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'dogsnap-'))
  t.after(() => fs.rmSync(root, { recursive: true }))
  const all = {
    'app.json': '{"pages": ["pages/a/a"]}',
    'app.js': '',
    'app.wxss': '',
    'pages/a/a.js': 'Page({})',
    'pages/a/a.wxml': '<view></view>',
    'pages/a/a.json': '{"usingComponents": {"part": "../../parts/part"}}',
    'parts/part.js': 'Component({})',
    'parts/part.wxml': '<view></view>',
    'parts/part.json': '{"component": true}',
    ...files,
  }
  for (const [file, text] of Object.entries(all)) {
    fs.mkdirSync(path.join(root, path.dirname(file)), { recursive: true })
    fs.writeFileSync(path.join(root, file), text)
  }
  return readProgram(root)
}

const cssOf = (program) => compileStyles(program, Object.keys(BUILTINS)).css.replace(/\s+/g, ' ')

test('a program is its pages and the components they use', (t) => {
  const { units } = tinyProgram(t, {})
  assert.deepEqual(
    Object.entries(units).map(([unit, { isPage }]) => [unit, isPage]),
    [
      ['pages/a/a', true],
      ['parts/part', false],
    ],
  )
})

test('a page that app.json names but that is not there is named', (t) => {
  assert.throws(() => tinyProgram(t, { 'app.json': '{"pages": ["pages/b/b"]}' }), /pages\/b\/b\.js/)
})

test('up to the first page come the scripts that it needs, with its components, and then the others', (t) => {
  const files = {
    'app.json': '{"pages": ["pages/a/a", "pages/b/b"]}',
    'app.js': "require('./shared')",
    'shared.js': '',
    'late.js': '',
    'pages/b/b.js': "require('../../late')",
    'pages/b/b.wxml': '<view></view>',
  }
  const { first, rest } = bundleScripts(tinyProgram(t, files))
  const named = (script) => [...script.matchAll(/"([\w/]+)\.js":/g)].map(([, name]) => name).sort()
  assert.deepEqual(named(first), ['app', 'pages/a/a', 'parts/part', 'shared'])
  assert.deepEqual(named(rest), ['late', 'pages/b/b'])
})

test('paths are relative to the file, or to the program when they start with a slash', () => {
  assert.equal(resolve('pages/a/a', '../../parts/part'), 'parts/part')
  assert.equal(resolve('pages/a/a', '/parts/part'), 'parts/part')
})

test('every template of the app compiles without a remark', () => {
  assert.deepEqual(compileTemplates(shipped, BUILTINS).problems, [])
})

for (const [fault, wxml, remark] of [
  ['a missing end tag', '<view><view></view>', /pages\/a\/a\.wxml:1:\d+ missing end tag/],
  ['an unfinished expression', '<view>{{ a. }}</view>', /pages\/a\/a\.wxml:1/],
  ['a tag that is not there', '<picker></picker>', /<picker> is not a built-in component/],
]) {
  test(`${fault} in a template is a problem, with its place`, (t) => {
    const { problems } = compileTemplates(tinyProgram(t, { 'pages/a/a.wxml': wxml }), BUILTINS)
    assert.ok(problems.length > 0)
    assert.match(problems.join('\n'), remark)
  })
}

test('rpx is a length of the runtime, tags are wx-elements, and a page keeps its rules to itself', (t) => {
  const css = cssOf(tinyProgram(t, { 'pages/a/a.wxss': 'page { top: 1rpx } .x view > .y { margin: -7.5rpx 2px }' }))
  assert.match(css, /wx-page:where\(wx-page\[is="pages\/a\/a"\]\)\{top: calc\(var\(--rpx\) \* 1\)\}/)
  assert.match(
    css,
    /:where\(wx-page\[is="pages\/a\/a"\]\) \.x wx-view > \.y\{margin: calc\(var\(--rpx\) \* -7\.5\) 2px\}/,
  )
})

test('a component has classes of its own, and :host is its element', (t) => {
  const css = cssOf(tinyProgram(t, { 'parts/part.wxss': ':host { color: red } .x.y { color: blue }' }))
  assert.match(css, /\[wx-host="s0"\]\{color: red\}/)
  assert.match(css, /\.s0--x\.s0--y\{color: blue\}/)
})

test('imports are put in place, once, and a missing one is named', (t) => {
  const css = cssOf(
    tinyProgram(t, { 'app.wxss': '@import "a.wxss";\n@import "a.wxss"; .c { top: 0 }', 'a.wxss': '.a { top: 0 }' }),
  )
  assert.equal(css.match(/\.a\{/g).length, 1)
  assert.throws(() => cssOf(tinyProgram(t, { 'app.wxss': '@import "b.wxss";' })), /b\.wxss/)
})

test('media rules are rewritten inside, keyframes are not', (t) => {
  const css = cssOf(
    tinyProgram(t, {
      'app.wxss': '@media (min-width: 9px) { view { top: 1rpx } } @keyframes k { from { top: 0 } to { top: 2rpx } }',
    }),
  )
  assert.match(css, /@media \(min-width: 9px\)\{wx-view\{top: calc\(var\(--rpx\) \* 1\)\}\}/)
  assert.match(css, /@keyframes k\{ from \{ top: 0 \} to \{ top: calc\(var\(--rpx\) \* 2\) \} \}/)
})

test('pictures inside a style sheet are left as they are', (t) => {
  const url = `url("data:image/svg+xml,%3Csvg d='M1,2{}view.x'/%3E")`
  assert.ok(
    cssOf(tinyProgram(t, { 'app.wxss': `.a, .b { background: ${url}; }` })).includes(`.a,.b{background: ${url};}`),
  )
})

test('the regular expressions of the app, which nothing compiles away, are such as old engines can parse', () => {
  for (const [file, text] of shipped.files) {
    if (file.endsWith('.js')) assert.deepEqual(unparsableExpressions(file, text), [], file)
  }
  for (const expression of ['/\\p{L}/u', '/(?<=a)b/', '/(?<name>a)/', '/a/s']) {
    assert.equal(unparsableExpressions('a.js', `const a = ${expression}`).length, 1, expression)
  }
})

test('what was added to JavaScript after 2017 is found in what is compiled', () => {
  assert.deepEqual(unparsable('a.js', 'async function a() { return await b }'), [])
  for (const text of ['a?.b', '({ ...a })', 'try { a() } catch { }', 'a ?? b', '/\\p{L}/u']) assert.equal(unparsable('a.js', text).length, 1, text)
})
