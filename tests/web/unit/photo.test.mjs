import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { grid, plain } from './canvas.mjs'
import { Phone } from './phone.mjs'

/** On the result page, whose canvas the photos are drawn on. */
let phone, photo
beforeEach(() => {
  phone = new Phone()
  phone.ids = ['drawing']
  photo = phone.service('photo')
})

const savedSize = () => phone.saves.map(({ width, height }) => [width, height])[0]

test('a photo is shrunk so that its longest side is 640, in its own proportions', async () => {
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual(savedSize(), [640, 480])
})

test('a tall photo has its height shrunk to 640', async () => {
  phone.pictures['tmp/dog.jpg'] = plain(1000, 2000)
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual(savedSize(), [320, 640])
})

test('a small photo is not enlarged', async () => {
  phone.pictures['tmp/dog.jpg'] = plain(300, 200)
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual(savedSize(), [300, 200])
})

test('the quality goes down until the photo has 60 kB or less', async () => {
  phone.bytesAt = (quality) => quality * 90_000
  const { path, base64 } = await photo.prepare('tmp/dog.jpg')
  assert.equal(phone.saves.length, 2)
  assert.ok((base64.length * 3) / 4 <= 60_000)
  assert.equal(path, 'tmp/small-2.jpg')
})

test('a photo that stays large at the lowest quality is sent all the same', async () => {
  phone.bytesAt = () => 90_000
  assert.equal((await photo.prepare('tmp/dog.jpg')).path, 'tmp/small-3.jpg')
})

/** A picture seen upright, and how a file with each EXIF orientation holds it. */
const UPRIGHT = ['AB', 'CD', 'EF']
const STORED = {
  up: ['AB', 'CD', 'EF'],
  'up-mirrored': ['BA', 'DC', 'FE'],
  down: ['FE', 'DC', 'BA'],
  'down-mirrored': ['EF', 'CD', 'AB'],
  'left-mirrored': ['ACE', 'BDF'],
  right: ['BDF', 'ACE'],
  'right-mirrored': ['FDB', 'ECA'],
  left: ['ECA', 'FDB'],
}
for (const [orientation, rows] of Object.entries(STORED)) {
  for (const turnsPictures of [false, true]) {
    const canvas = turnsPictures ? 'turns photos itself' : 'draws them as they are stored'
    test(`a photo stored "${orientation}" comes out upright on a phone whose canvas ${canvas}`, async () => {
      Object.assign(phone, { turnsPictures })
      phone.pictures['tmp/dog.jpg'] = { ...grid(rows), orientation, upright: grid(UPRIGHT) }
      await photo.prepare('tmp/dog.jpg')
      assert.deepEqual(phone.saves[0].rows, UPRIGHT)
    })
  }
}

test('a large photo on its side is shrunk as well as turned', async () => {
  phone.turnsPictures = false
  phone.pictures['tmp/dog.jpg'] = { ...plain(4000, 3000), orientation: 'right' }
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual(savedSize(), [480, 640])
})

test('an orientation that the phone does not tell counts as upright', async () => {
  phone.turnsPictures = false
  phone.pictures['tmp/dog.jpg'] = { ...grid(UPRIGHT), orientation: '' }
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual(phone.saves[0].rows, UPRIGHT)
  phone.wx.getImageInfo = async () => {
    throw new Error('getImageInfo:fail')
  }
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual(phone.saves[1].rows, UPRIGHT)
})

test('a see-through picture is drawn on white', async () => {
  phone.pictures['tmp/dog.jpg'] = plain(2, 1, null)
  await photo.prepare('tmp/dog.jpg')
  assert.deepEqual(phone.saves[0].rows, ['whitewhite'])
})

test('whether the canvas turns photos is tried out once', async () => {
  await photo.prepare('tmp/dog.jpg')
  await photo.prepare('tmp/dog.jpg')
  assert.equal(phone.drawn.filter((path) => path.startsWith('data:')).length, 1)
})

test('a photo this phone cannot show is left to the server', async () => {
  delete phone.pictures['tmp/dog.jpg']
  assert.deepEqual(await photo.prepare('tmp/dog.jpg'), { path: 'tmp/dog.jpg', base64: 'dog', unshown: true })
  assert.deepEqual(phone.saves, [])
})

test('a file that is gone is a failure of its own kind', async () => {
  await assert.rejects(photo.prepare('tmp/gone.jpg'), { kind: 'photoGone' })
})

test('thinking better of it is not an error', async () => {
  phone.chosen = Object.assign(new Error(), { errMsg: 'chooseMedia:fail cancel' })
  assert.deepEqual(await photo.choose(['camera']), [])
})

test('a camera that may not be used is an error', async () => {
  phone.chosen = Object.assign(new Error(), { errMsg: 'chooseMedia:fail auth deny' })
  await assert.rejects(photo.choose(['camera']), { errMsg: 'chooseMedia:fail auth deny' })
})
