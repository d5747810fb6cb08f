import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { acceptPhotos } from '../../../backend/web/runtime/incoming.js'

const MATERIALS = [{ materialType: 'image/*', path: 'pages/home/home' }]

/** What App and router were told, in order: the type of each delivered photo, "unsupported", and the page launched. */
let told
beforeEach(() => {
  told = []
  globalThis.document = Object.assign(new EventTarget(), { documentElement: { classList: { toggle() {} } } })
  const app = {
    onShow: ({ forwardMaterials: [{ type, name }] }) => told.push(`${name}: ${type}`),
    onUnsupportedMaterial: () => told.push('unsupported'),
  }
  acceptPhotos({ app: () => app, router: { reLaunch: (url) => told.push(url) }, materials: MATERIALS })
})

const file = (name, type) => new File(['x'], name, { type })
const drop = (...files) => document.dispatchEvent(Object.assign(new Event('drop'), { dataTransfer: { files } }))
const paste = (...files) => document.dispatchEvent(Object.assign(new Event('paste'), { clipboardData: { files } }))

test('a photo is delivered to the page that app.json names for photos', () => {
  drop(file('dog.jpg', 'image/jpeg'))
  paste(file('image.png', 'image/png'))
  assert.deepEqual(told, ['dog.jpg: image/jpeg', '/pages/home/home', 'image.png: image/png', '/pages/home/home'])
})

for (const [name, type, expected] of [
  ['IMG_1.HEIC', '', 'image/heic'],
  ['dog.heif', 'application/octet-stream', 'image/heif'],
  ['dog.avif', '', 'image/avif'],
]) {
  test(`${name} of the type "${type}" is a photo`, () => {
    drop(file(name, type))
    assert.deepEqual(told, [`${name}: ${expected}`, '/pages/home/home'])
  })
}

for (const [name, type] of [
  ['letter.pdf', 'application/pdf'],
  ['heic', ''],
  ['notes.heic.txt', 'text/plain'],
]) {
  test(`${name} is no photo: the app is told, and the page in view stays`, () => {
    drop(file(name, type))
    paste(file(name, type))
    assert.deepEqual(told, ['unsupported', 'unsupported'])
  })
}

test('of several files the first photo is taken', () => {
  drop(file('letter.pdf', 'application/pdf'), file('dog.jpg', 'image/jpeg'), file('cat.jpg', 'image/jpeg'))
  assert.deepEqual(told, ['dog.jpg: image/jpeg', '/pages/home/home'])
})

const transfer = (file, ...types) => ({ files: [file], types: ['Files', ...types] })
const FIELD = { closest: () => ({}) }
for (const [what, types, target, expected] of [
  ['words of an office program, pasted into a search', ['text/plain', 'text/html'], FIELD, []],
  ['the same, pasted beside it', ['text/plain', 'text/html'], null, []],
  ['the same with its format alone', ['text/plain', 'text/rtf'], null, []],
  ['a file of a folder, with its name', ['text/plain'], null, ['image.png: image/png', '/pages/home/home']],
  ['the name of a file, pasted into a search', ['text/plain'], FIELD, []],
  ['a picture of a page', ['text/html'], FIELD, ['image.png: image/png', '/pages/home/home']],
]) {
  test(`${what}: ${expected.length ? 'a photo' : 'text'}`, () => {
    const photo = file('image.png', 'image/png')
    for (const [type, field] of [['paste', 'clipboardData'], ['drop', 'dataTransfer']]) {
      told = []
      const event = Object.assign(new Event(type, { cancelable: true }), { [field]: transfer(photo, ...types) })
      Object.defineProperty(event, 'target', { value: target })
      document.dispatchEvent(event)
      assert.deepEqual(told, expected)
      if (!expected.length) assert.equal(event.defaultPrevented, false, 'the text does not arrive')
    }
  })
}

test('text without a file means nothing', () => {
  drop()
  paste()
  document.dispatchEvent(new Event('paste'))
  assert.deepEqual(told, [])
})
