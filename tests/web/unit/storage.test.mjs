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

/** A photo of four dogs with all that a server says of each, as long as it gets; it was asked about with others, and is not asked about itself. */
function fourDogs() {
  const guess = (number) => ({ id: `n0210996${number}`, name: 'soft-coated wheaten terrier', name_zh: '软毛麦色梗', probability: 0.12345678901 })
  const breeds = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(guess)
  const group = { id: 'terriers', name: 'terrier', name_zh: '梗犬', members: breeds.map(({ id }) => id), difference: 'x'.repeat(400), difference_zh: '看'.repeat(90), probability: 0.9 }
  const dog = (place) => ({ state: 'group', breeds, group, set: null, box: [place / 10, 0, 1, 1], model: { name: 'inception_v3', version: 3 }, feedbackId: `${place}`.repeat(60), asked: true })
  const dogs = [0, 1, 2, 3].map(dog)
  return { ...dogs[1], feedbackId: '', dogs, chosen: 1, moreDogs: true, together: { count: 2, isSame: false } }
}

test('a hundred photos of four dogs each stay well below what WeChat takes under one name, and are read as they were', () => {
  const outcome = fourDogs()
  const former = Array.from({ length: 100 }, (_, number) => ({ id: `s${number}`, time: 1, photo: `usr/s${number}.jpg`, outcome, onPhone: outcome.dogs[0] }))
  assert.ok(JSON.stringify(former).length > 1024 * 1024) // an earlier release would have kept no further photo
  phone.storage.history = former
  const history = phone.service('history')
  assert.deepEqual(history.list(), former)
  history.change('s5', { why: 'busy' })
  assert.ok(JSON.stringify(phone.storage.history).length < 0.9 * 1024 * 1024)
  const later = new Phone()
  later.storage = phone.storage
  assert.deepEqual(later.service('history').find('s7'), former[7])
  later.service('history').choose('s7', 3)
  assert.equal(later.service('history').find('s7').outcome.box[0], 0.3)
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
