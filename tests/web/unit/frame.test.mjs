import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { grid, plain } from './canvas.mjs'
import { answerBody, Phone, settle, tap } from './phone.mjs'

let phone
beforeEach(() => {
  phone = new Phone()
})

const finger = ([clientX, clientY]) => ({ clientX, clientY })
const touch = (...point) => ({ touches: [finger(point)], changedTouches: [finger(point)] })
const lifted = (...point) => ({ touches: [], changedTouches: [finger(point)] })
const fingers = (...points) => ({ touches: points.map(finger), changedTouches: points.map(finger) })
const rounded = (frame) => ['left', 'top', 'right', 'bottom'].map((side) => Number(frame[side].toFixed(3)))

/** The framing page of a photo that was answered with this box. */
async function framing(box = null) {
  const page = phone.snap()
  await settle()
  await phone.requests.at(-1).answer(200, answerBody({ box }))
  const framed = phone.open('frame', { id: page.snapId })
  framed.onPhotoLoad({ detail: { width: 400, height: 200 } }) // as the stage of the phone, 200 x 100 pixels
  await settle()
  return framed
}

test('framing starts around the dog that the server saw, else in the middle', async () => {
  assert.deepEqual(rounded((await framing([0.1, 0.2, 0.6, 0.9])).frame), [0.1, 0.2, 0.6, 0.9])
  assert.deepEqual(rounded((await framing()).frame), [0.25, 0.25, 0.75, 0.75])
})

test('a finger beside the frame draws a new one from corner to corner, in whatever direction', async () => {
  const page = await framing()
  await page.onTouchStart(touch(180, 98))
  page.onTouchMove(touch(100, 50))
  page.onTouchMove(touch(40, 10))
  page.onTouchEnd(lifted(40, 10))
  assert.deepEqual(rounded(page.frame), [0.2, 0.1, 0.9, 0.98])
  page.onTouchMove(touch(0, 0)) // no finger is down
  assert.deepEqual(rounded(page.frame), [0.2, 0.1, 0.9, 0.98])
})

test('a finger on a corner moves that corner alone, and a tap there moves nothing', async () => {
  const page = await framing()
  await page.onTouchStart(touch(145, 70))
  page.onTouchEnd(lifted(145, 70))
  assert.deepEqual(rounded(page.frame), [0.25, 0.25, 0.75, 0.75])
  await page.onTouchStart(touch(145, 30))
  page.onTouchMove(touch(180, 10))
  page.onTouchEnd(lifted(180, 10))
  assert.deepEqual(rounded(page.frame), [0.25, 0.1, 0.9, 0.75])
})

test('a tap moves the frame there, and never beyond the edge', async () => {
  const page = await framing([0.1, 0.1, 0.3, 0.5])
  await page.onTouchStart(touch(100, 50))
  page.onTouchEnd(lifted(101, 50))
  assert.deepEqual(rounded(page.frame), [0.405, 0.3, 0.605, 0.7])
  await page.onTouchStart(touch(400, -20))
  page.onTouchEnd(lifted(400, -20))
  assert.deepEqual(rounded(page.frame), [0.8, 0, 1, 0.4])
})

test('a finger on the frame moves it, and takes it no further than the edge', async () => {
  const page = await framing([0.1, 0.1, 0.5, 0.5])
  await page.onTouchStart(touch(60, 30))
  page.onTouchMove(touch(80, 40))
  page.onTouchEnd(lifted(80, 40))
  assert.deepEqual(rounded(page.frame), [0.2, 0.2, 0.6, 0.6])
  await page.onTouchStart(touch(80, 40))
  page.onTouchMove(touch(-900, 900))
  page.onTouchEnd(lifted(-900, 900))
  assert.deepEqual(rounded(page.frame), [0, 0.6, 0.4, 1])
})

test('two fingers enlarge the photo under the frame and move it; the finger that stays does nothing more', async () => {
  const page = await framing()
  await page.onTouchStart(touch(90, 50))
  await page.onTouchStart(fingers([90, 50], [110, 50]))
  page.onTouchMove(fingers([80, 50], [120, 50]))
  assert.match(page.data.photoStyle, /width: 400px; height: 200px/)
  assert.deepEqual(rounded(page.frame), [0.375, 0.375, 0.625, 0.625]) // where it was on the screen
  page.onTouchMove(fingers([100, 60], [140, 60]))
  assert.match(page.data.photoStyle, /left: -80px; top: -40px/)
  page.onTouchEnd(touch(100, 60))
  page.onTouchMove(touch(20, 20))
  page.onTouchEnd(lifted(20, 20))
  assert.deepEqual(rounded(page.frame), [0.325, 0.325, 0.575, 0.575])
  await page.onTouchStart(fingers([0, 0], [200, 100]))
  page.onTouchMove(fingers([99, 50], [101, 50]))
  assert.match(page.data.photoStyle, /left: 0px; top: 0px; width: 200px; height: 100px/)
})

test('buttons move and size the frame within the photo, and say where it is', async () => {
  const page = await framing()
  for (const move of ['left', 'up', 'larger']) page.onMove(tap({ move }))
  assert.deepEqual(rounded(page.frame), [0.175, 0.175, 0.725, 0.725])
  assert.match(page.data.label, /左边 1[78]%、上边 18%.*宽 55%，高 55%/)
  for (let press = 0; press < 30; press++) page.onMove(tap({ move: 'smaller' }))
  const [left, , right] = rounded(page.frame)
  assert.ok(Math.abs(right - left - 0.1) < 1e-9)
  for (let press = 0; press < 30; press++) page.onMove(tap({ move: 'right' }))
  assert.equal(page.frame.right, 1)
})

test('the framed part is cut out in the resolution of the photo, and asked about as a snap of its own', async () => {
  const page = await framing([0.5, 0, 1, 0.5])
  await page.onAsk()
  const { width, height } = phone.saves.at(-1)
  assert.deepEqual([width, height], [2000, 1500])
  const [, id] = phone.routes.at(-1).match(/^redirectTo \/pages\/result\/result\?id=(.+)$/)
  const next = phone.open('result', { id })
  await settle()
  assert.equal(next.data.photo, `tmp/small-${phone.saves.length}.jpg`)
})

test('a second tap on the button asks about no second part', async () => {
  const page = await framing([0.5, 0, 1, 0.5])
  const before = phone.service('history').list().length
  await Promise.all([page.onAsk(), page.onAsk()])
  await settle()
  assert.equal(phone.service('history').list().length, before + 1)
})

test('of a photo that is stored on its side, the part is cut out of the upright picture', async () => {
  for (const turnsPictures of [true, false]) {
    phone = new Phone()
    phone.turnsPictures = turnsPictures
    phone.pictures['tmp/dog.jpg'] = { ...grid(['BDF', 'ACE']), orientation: 'right', upright: grid(['AB', 'CD', 'EF']) }
    phone.ids = ['drawing']
    await phone.service('photo').crop('tmp/dog.jpg', { left: 0.5, top: 1 / 3, right: 1, bottom: 1 })
    assert.deepEqual(phone.saves.at(-1).rows, ['D', 'F'])
  }
})

test('a very large part is shrunk to what canvases can hold', async () => {
  phone.pictures['tmp/dog.jpg'] = plain(12000, 9000)
  phone.ids = ['drawing']
  await phone.service('photo').crop('tmp/dog.jpg', { left: 0, top: 0, right: 1, bottom: 1 })
  assert.equal(phone.saves.at(-1).width, 2048)
})

test('of a snap from the history the kept photo is framed; of one that is gone, the page says so', async () => {
  const { snapId } = await (async () => {
    const page = phone.snap()
    await settle()
    await phone.requests.at(-1).answer(200, answerBody())
    return page
  })()
  const later = new Phone()
  Object.assign(later, { storage: phone.storage, files: phone.files })
  assert.equal(later.open('frame', { id: snapId }).data.photo, `usr/${snapId}.jpg`)
  assert.equal(later.open('frame', { id: 'nothing' }).data.state, 'gone')
})

test('a photo that cannot be shown cannot be framed', async () => {
  const page = await framing()
  page.onPhotoError()
  assert.equal(page.data.state, 'gone')
  page.onCancel()
  assert.match(phone.routes.at(-1), /navigateBack|home/)
})
