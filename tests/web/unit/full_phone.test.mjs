import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerBody, GUESSES, Phone, settle } from './phone.mjs'

const MOST_STEPS = 40

async function wait() {
  for (let turn = 0; turn < 12; turn++) await settle()
}

/** Has the phone refuse its n-th write, or all from there on. @returns {() => boolean}  whether it came to that */
function fill(phone, n, isForGood) {
  let count = 0
  const isRefused = () => (count++, isForGood ? count >= n : count === n)
  const files = phone.wx.getFileSystemManager()
  const { copyFile } = files
  const { setStorageSync } = phone.wx
  const FULL = 'fail the maximum size of the file storage limit is exceeded'
  files.copyFile = (options) => (isRefused() ? options.fail({ errMsg: `copyFile:${FULL}` }) : copyFile(options))
  phone.wx.setStorageSync = (key, value) => {
    if (isRefused()) throw Object.assign(new Error(), { errMsg: `setStorageSync:${FULL}` })
    setStorageSync(key, value)
  }
  return () => count >= n
}

const open = (phone, part) => phone.requests.filter(({ url, ended }) => url.includes(part) && !ended)

async function answerAll(phone, part, body) {
  for (const request of open(phone, part)) await request.answer(200, body)
  await wait()
}

/** A photo that is answered, confirmed and turned, and one that is answered once there is a connection. */
async function use(phone) {
  const page = phone.snap()
  await wait()
  await answerAll(phone, 'classify', answerBody({ level: 'unsure', feedback_id: 'f1' }))
  page.onTurn()
  await wait()
  await answerAll(phone, 'classify', answerBody({ level: 'breed', feedback_id: 'f2' }))
  if (page.data.answer.feedback === 'open') page.onRight()
  await wait()
  await answerAll(phone, 'feedback', {})
  const other = phone.snap('tmp/two.jpg')
  await wait()
  await open(phone, 'classify')[0].lose('request:fail')
  await wait()
  phone.network = 'wifi'
  phone.service('waiting').send()
  await wait()
  await answerAll(phone, 'classify', answerBody({ breeds: [...GUESSES].reverse(), level: 'breed' }))
  other.onShow()
  await wait()
  return [page, other]
}

for (const isForGood of [false, true]) {
  test(`a phone that is full ${isForGood ? 'from some moment on' : 'at some moment'} loses no photo and no answer of what it keeps`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    for (let n = 1; n < MOST_STEPS; n++) {
      const phone = new Phone()
      Object.assign(phone.files, { 'tmp/two.jpg': 'two' })
      phone.pictures['tmp/two.jpg'] = phone.pictures['tmp/dog.jpg']
      const isFull = fill(phone, n, isForGood)
      const pages = await use(phone)
      if (!isFull()) return
      assert.notEqual(pages[0].data.state, 'failed')
      for (const { id, photo, outcome } of phone.service('history').list()) {
        assert.ok(photo in phone.files, `the photo is gone, full at ${n}`)
        assert.ok(outcome, `the answer is gone, full at ${n}`)
        const page = pages.find(({ snapId }) => snapId === id)
        assert.deepEqual([page.data.state, page.data.answer.rows[0].id], [outcome.state, outcome.breeds[0].id])
      }
    }
    assert.fail(`more than ${MOST_STEPS} writes`)
  })
}

test('where there was no room for the small copy at first, it takes the place of the chosen photo with the answer', async () => {
  const phone = new Phone()
  const files = phone.wx.getFileSystemManager()
  const { copyFile } = files
  const page = phone.snap()
  files.copyFile = ({ fail }) => fail({ errMsg: 'copyFile:fail the maximum size of the file storage limit is exceeded' })
  await wait()
  assert.ok(phone.service('history').find(page.snapId).isRaw)
  files.copyFile = copyFile
  await answerAll(phone, 'classify', answerBody())
  const { outcome, isRaw, photo } = phone.service('history').find(page.snapId)
  assert.deepEqual([outcome.state, isRaw, page.data.state], ['breed', false, 'breed'])
  assert.deepEqual(Object.keys(phone.files).filter((path) => path.startsWith('usr/')), [photo])
})

test('a photo that cannot be read while it is turned stays as it is, and the next tap turns it', async () => {
  const phone = new Phone()
  const page = phone.snap()
  await wait()
  await answerAll(phone, 'classify', answerBody({ level: 'breed' }))
  const files = phone.wx.getFileSystemManager()
  const { readFile } = files
  files.readFile = ({ fail }) => fail({ errMsg: 'readFile:fail IndexedDB does not answer' })
  const { photo } = page.data
  await page.onTurn()
  assert.deepEqual([page.data.photo, phone.toast], [photo, page.data.text.notTurned])
  files.readFile = readFile
  await page.onTurn()
  assert.notEqual(page.data.photo, photo)
})

/** Lets promises run and so many seconds of the app pass. */
async function pass(t, seconds) {
  for (let second = 0; second < seconds; second++) {
    t.mock.timers.tick(1000)
    await wait()
  }
}

for (const name of ['getImageInfo', 'copyFile', 'readFile', 'canvasToTempFilePath', 'getNetworkType']) {
  test(`a phone that leaves ${name} without an answer once sends that photo all the same or later, and the next one as ever`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const phone = new Phone()
    phone.turnsPictures = false // else it is not asked how a photo lies
    phone.files['tmp/two.jpg'] = 'two'
    phone.pictures['tmp/two.jpg'] = phone.pictures['tmp/dog.jpg']
    const owner = name in phone.wx ? phone.wx : phone.wx.getFileSystemManager()
    const act = owner[name]
    owner[name] = () => {
      owner[name] = act
      return new Promise(() => {})
    }
    const page = phone.snap()
    await pass(t, 30)
    if (name === 'getNetworkType') await open(phone, 'classify')[0].lose('request:fail')
    else await answerAll(phone, 'classify', answerBody({ level: 'breed' }))
    await pass(t, 6)
    const isAskedAgain = open(phone, 'classify').length > 0
    assert.ok(page.data.state === 'breed' || page.data.failure?.kind === 'unread' || isAskedAgain, page.data.state)
    const next = phone.snap('tmp/two.jpg')
    await pass(t, 1)
    await answerAll(phone, 'classify', answerBody({ level: 'breed' }))
    assert.equal(next.data.state, 'breed')
  })
}
