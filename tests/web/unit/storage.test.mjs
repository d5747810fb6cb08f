import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { answerBody, Phone, program, settle } from './phone.mjs'

let phone, storage
beforeEach((t) => {
  t.mock.method(console, 'warn', () => {})
  phone = new Phone()
  storage = phone.service('storage')
})

async function answered() {
  const page = phone.snap()
  await settle()
  await phone.requests.at(-1).answer(200, answerBody())
  return page
}

test('what is written is read again, also in the next session', () => {
  assert.equal(storage.write('a', { b: 1 }), true)
  const later = new Phone()
  later.storage = phone.storage
  assert.deepEqual(later.service('storage').read('a', null), { b: 1 })
})

test('what was never written, or was removed, is what the caller says', () => {
  storage.write('a', 1)
  assert.equal(storage.remove('a'), true)
  assert.deepEqual([storage.read('a', 7), storage.read('b', 8)], [7, 8])
})

test('what the phone refuses to write counts for this session, and is told as not kept', () => {
  storage.write('a', 1)
  phone.refuses = ['write', 'remove']
  assert.equal(storage.write('a', 2), false)
  assert.equal(storage.read('a'), 2)
  assert.equal(storage.remove('a'), false)
  assert.equal(storage.read('a', 'none'), 'none')
  phone.refuses = []
  assert.equal(storage.write('a', 3), true)
  assert.deepEqual([storage.read('a'), phone.storage.a], [3, 3])
})

for (const refuses of [['write'], ['read', 'write', 'remove']]) {
  test(`a phone whose storage refuses to ${refuses.join(', ')} shows every page and answers photos`, async () => {
    phone.refuses = refuses
    assert.equal(phone.open('home').data.text.camera, '拍照')
    assert.equal((await answered()).data.state, 'breed')
    assert.equal(phone.open('history').data.count, 0)
    phone.open('settings').onOption({ currentTarget: { dataset: { name: 'language', value: 'en' } } })
    assert.equal(phone.open('home').data.text.camera, 'Take a photo')
  })
}

test('a snap whose entry cannot be written leaves no photo behind', async () => {
  phone.refuses = ['write']
  const { snapId } = await answered()
  assert.equal(`usr/${snapId}.jpg` in phone.files, false)
  assert.deepEqual(phone.service('history').list(), [])
})

test('a snap that cannot be written does not take the ones before it away', async () => {
  const { snapId } = await answered()
  phone.refuses = ['write']
  await answered()
  assert.deepEqual(
    phone.service('history').list().map(({ id }) => id),
    [snapId],
  )
})

test('the key of this installation stays the same for a session that cannot write it', async () => {
  phone.refuses = ['write']
  await answered()
  await answered()
  const keys = phone.requests.filter(({ url }) => url.endsWith('/classify')).map(({ header }) => header['X-Request-Key'])
  assert.equal(keys.length, 2)
  assert.equal(keys[0], keys[1])
})

test('breeds that cannot be kept are shown all the same', async () => {
  phone.refuses = ['write']
  const page = phone.open('breed', { id: 'n01' })
  await settle()
  await phone.requests[0].answer(200, { breeds: [] })
  assert.equal(page.data.state, 'unknown')
})

test('only storage.js touches the storage of the phone', () => {
  const touching = [...program.files].filter(([, text]) => /wx\.\w+Storage/.test(text)).map(([file]) => file)
  assert.deepEqual(touching, ['services/storage.js'])
})

test('snaps of an earlier release, whose answers have other words for the states, are read', () => {
  const outcome = { state: 'shown', breeds: [], dogs: [{ state: 'shown' }, { state: 'group' }] }
  storage.write('history', [{ id: 's1', outcome }, { id: 's2', outcome: { state: 'noDog' } }, { id: 's3', outcome: null }])
  const [several, none, waiting] = phone.service('history').list()
  assert.deepEqual([several.outcome.state, ...several.outcome.dogs.map(({ state }) => state)], ['breed', 'breed', 'group'])
  assert.deepEqual([none.outcome.state, waiting.outcome], ['no_dog', null])
})

test('each value is read from the phone once, until another window has written', () => {
  phone.storage.a = [1]
  let reads = 0
  const read = phone.wx.getStorageSync
  phone.wx.getStorageSync = (name) => ((reads += Number(name === 'a')), read(name))
  for (let time = 0; time < 5; time++) assert.deepEqual(storage.read('a', null), [1])
  assert.equal(reads, 1)
  phone.storage.a = [2]
  phone.load('app.js')
  phone.app.onStorageChange()
  assert.deepEqual([storage.read('a', null), reads], [[2], 2])
})

test('what the phone refused to keep is not forgotten when another window has written', () => {
  phone.refuses = ['write']
  storage.write('a', 1)
  storage.forget()
  assert.equal(storage.read('a', null), 1)
})

test('a history of a hundred photos is shown without reading the phone again and again', async () => {
  for (let number = 0; number < 100; number++) await phone.service('history').add(`s${number}`, null, 'tmp/dog.jpg')
  const later = new Phone()
  Object.assign(later, { storage: phone.storage, files: phone.files })
  let reads = 0
  const read = later.wx.getStorageSync
  later.wx.getStorageSync = (name) => (reads++, read(name))
  assert.equal(later.open('history').data.count, 100)
  later.open('home')
  assert.ok(reads < 15, `${reads} reads`)
})
