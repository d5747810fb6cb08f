import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { Phone } from './phone.mjs'

let phone, photo
beforeEach(() => {
  phone = new Phone()
  photo = phone.service('photo')
})

test('a photo is shrunk so that its longest side is 640, in its own proportions', async () => {
  await photo.prepare('tmp/dog.jpg')
  const [{ compressedWidth, compressedHeight }] = phone.compressions
  assert.deepEqual([compressedWidth, compressedHeight], [640, 480])
})

test('a tall photo has its height shrunk to 640', async () => {
  phone.picture = { width: 1000, height: 2000, orientation: 'up' }
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual([phone.compressions[0].compressedWidth, phone.compressions[0].compressedHeight], [320, 640])
})

test('a small photo is not enlarged', async () => {
  phone.picture = { width: 300, height: 200, orientation: 'up' }
  await photo.prepare('tmp/dog.jpg')
  assert.equal(phone.compressions[0].compressedWidth, 300)
})

test('the quality goes down until the photo has 60 kB or less', async () => {
  phone.bytesAt = (quality) => quality * 900
  const { path, base64 } = await photo.prepare('tmp/dog.jpg')
  assert.equal(phone.compressions.length, 2)
  assert.ok((base64.length * 3) / 4 <= 60_000)
  assert.equal(path, 'tmp/small-2.jpg')
})

test('a photo that stays large at the lowest quality is sent all the same', async () => {
  phone.bytesAt = () => 90_000
  assert.equal((await photo.prepare('tmp/dog.jpg')).path, 'tmp/small-3.jpg')
})

test('a photo on its side is left to the server, because shrinking would forget which way is up', async () => {
  phone.picture = { width: 4000, height: 3000, orientation: 'right' }
  assert.deepEqual(await photo.prepare('tmp/dog.jpg'), { path: 'tmp/dog.jpg', base64: 'dog' })
  assert.deepEqual(phone.compressions, [])
})

test('a photo this phone cannot decode is left to the server', async () => {
  phone.picture = new Error('getImageInfo:fail')
  assert.deepEqual(await photo.prepare('tmp/dog.jpg'), { path: 'tmp/dog.jpg', base64: 'dog' })
})

test('a file that is gone is a failure of its own kind', async () => {
  phone.picture = new Error('getImageInfo:fail')
  await assert.rejects(photo.prepare('tmp/gone.jpg'), { kind: 'photoGone' })
})

test('thinking better of it is not an error', async () => {
  phone.chosen = Object.assign(new Error(), { errMsg: 'chooseMedia:fail cancel' })
  assert.equal(await photo.choose(['camera']), null)
})

test('a camera that may not be used is an error', async () => {
  phone.chosen = Object.assign(new Error(), { errMsg: 'chooseMedia:fail auth deny' })
  await assert.rejects(photo.choose(['camera']), { errMsg: 'chooseMedia:fail auth deny' })
})
