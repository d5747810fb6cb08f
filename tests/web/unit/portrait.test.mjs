import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import zlib from 'node:zlib'
import { Phone, program } from './phone.mjs'

const BREEDS = JSON.parse(fs.readFileSync(path.join(program.root, '../models/breeds.json'), 'utf8'))
const MOST_BYTES_COMPRESSED = 60_000
const { draw, WORDS } = new Phone().service('portrait')

test('the looks of every breed are said in words that the drawing knows, and no two are drawn alike', () => {
  const drawings = new Set()
  for (const { name, looks, size } of BREEDS) {
    assert.deepEqual(unknownWords(looks), [], name)
    const svg = draw(looks, size)
    assert.match(svg, /^<svg .*<\/svg>$/, name)
    assert.doesNotMatch(svg, /NaN|undefined|null/, name)
    drawings.add(svg)
  }
  assert.equal(drawings.size, BREEDS.length)
})

function unknownWords({ colours = {}, marks = [], hair = [], ...looks }) {
  const first = (words) => words.split(' ')[0]
  const ofKind = ['head', 'ears', 'muzzle', 'coat', 'colour'].filter((kind) => looks[kind])
  const said = [
    ...ofKind.map((kind) => [kind, first(looks[kind])]),
    ...Object.values(colours).map((colour) => ['colour', colour]),
    ...marks.concat(looks.body_marks ?? []).flatMap((words) => [['marks', first(words)], ['colour', words.split(' ')[1]]]),
    ...hair.flatMap((words) => [['hair', first(words)], ['colour', words.split(' ')[1]]]),
  ]
  return said.filter(([kind, word]) => !WORDS[kind].includes(word))
}

test('code and facts of all portraits together have less than 60 kB compressed', () => {
  const code = ['portrait', 'portrait_lines', 'portrait_shapes'].map((name) => program.files.get(`services/${name}.js`))
  const text = code.join('') + JSON.stringify(BREEDS.map(({ looks }) => looks))
  const bytes = zlib.gzipSync(text).length
  console.log(`portraits: ${bytes} bytes`)
  assert.ok(bytes < MOST_BYTES_COMPRESSED)
})

test('a drawing is small enough to be handed to a page', () => {
  const longest = Math.max(...BREEDS.map(({ looks, size }) => encodeURIComponent(draw(looks, size)).length))
  console.log(`longest: ${longest} characters`)
  assert.ok(longest < 20_000)
})

test('of a breed whose looks are not known the head is plain', () => {
  assert.match(draw(), /^<svg .*<\/svg>$/)
  assert.equal(draw({}, 'unheard-of'), draw())
})
