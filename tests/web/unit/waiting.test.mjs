import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { answerBody, Phone, settle } from './phone.mjs'

let phone, history
beforeEach(() => {
  phone = new Phone()
  history = phone.service('history')
})

async function wait(turns = 5) {
  for (let turn = 0; turn < turns; turn++) await settle()
}

/** A page whose photo could not be sent. */
async function lost(errMsg = 'request:fail ') {
  const page = phone.snap()
  await wait()
  await phone.requests.at(-1).lose(errMsg)
  await wait()
  return page
}

test('a photo that waits is sent once the connection is back, without an event and without a touch', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const page = await lost()
  assert.deepEqual([page.data.state, Boolean(page.data.failure.waits)], ['failed', true])
  const sent = () => phone.requests.filter(({ url }) => url.endsWith('/classify')).length
  for (const seconds of [5, 10, 20]) {
    t.mock.timers.tick(seconds * 1000)
    await wait()
  }
  assert.equal(sent(), 1) // the phone says that there is none
  phone.network = 'wifi'
  t.mock.timers.tick(40_000)
  await wait()
  assert.equal(sent(), 2)
  await phone.requests.at(-1).answer(200, answerBody())
  assert.deepEqual(history.list().map(({ outcome }) => outcome && outcome.state), ['breed'])
})

test('the pauses grow to five minutes and no further', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  await lost()
  let asked = 0
  phone.wx.getNetworkType = async () => (asked++, { networkType: 'none' })
  for (const seconds of [5, 10, 20, 40, 80, 160, 300, 300, 300]) {
    const before = asked
    t.mock.timers.tick(seconds * 1000 - 1)
    await wait()
    assert.equal(asked, before, `asked before ${seconds} s`)
    t.mock.timers.tick(1)
    await wait()
    assert.equal(asked, before + 1, `not asked after ${seconds} s`)
  }
})

test('a photo whose file the phone has cleared leaves the queue, and the history says why', async () => {
  phone.network = 'wifi'
  phone.storage.history = [{ id: 'a', time: 1, photo: 'usr/a.jpg', outcome: null }]
  const page = phone.open('history')
  await wait()
  page.show()
  const [item] = page.data.days[0].items
  assert.deepEqual([item.name, item.waits], ['没能识别', false])
  assert.match(item.detail, /不在手机上/)
  assert.equal(phone.requests.some(({ url }) => url.endsWith('/classify')), false)
})

test('a photo that could not be read just now is not taken for one that is gone', async () => {
  phone.network = 'wifi'
  phone.storage.history = [{ id: 'a', time: 1, photo: 'usr/a.jpg', outcome: null }]
  phone.wx.getFileSystemManager().readFile = ({ fail }) => fail({ errMsg: 'readFile:fail IndexedDB does not answer' })
  phone.open('history')
  await wait()
  assert.deepEqual(history.list().map(({ outcome, why }) => [outcome, why]), [[null, 'unread']])
})

test('an answer whose photo the phone has cleared stays, and says that the photo is gone', async () => {
  const page = phone.snap()
  await wait()
  await phone.requests.at(-1).answer(200, answerBody())
  delete phone.files[`usr/${page.snapId}.jpg`]
  const again = phone.open('result', { id: page.snapId })
  await again.onPhotoError()
  assert.deepEqual([again.data.state, again.data.photoProblem], ['breed', 'photoLost'])
})

test('a photo that was refused and whose file the phone has cleared says that it is gone', async () => {
  phone.storage.history = [{ id: 'a', time: 1, photo: 'usr/a.jpg', outcome: { state: 'refused', kind: 'notAllowed', breeds: [], feedbackId: '' } }]
  const page = phone.open('result', { id: 'a' })
  await page.onPhotoError()
  assert.deepEqual([page.data.state, page.data.photoProblem], ['failed', 'photoLost'])
})

const STATES = [
  ['no connection', () => lost('request:fail '), 'offline', /没有网络/, /联网后/],
  ['a server that cannot be reached', () => ((phone.network = 'wifi'), lost('request:fail ')), 'again', /连不上/, /自动重发/],
  ['no answer for a long time', () => lost('request:fail timeout'), 'again', /没有回应/, /自动重发/],
]
for (const [what, begin, kept, sentence, waits] of STATES) {
  test(`a photo that waits because of ${what} is told so, here and in the history, and asks for nothing that happens by itself`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const page = await begin()
    for (let attempt = 0; attempt < 6 && page.data.state === 'working'; attempt++) {
      t.mock.timers.tick(60_000)
      await wait()
      await phone.requests.at(-1).lose('request:fail ')
      await wait()
    }
    const { failure } = page.data
    assert.match(failure.sentence, sentence)
    assert.match(failure.waits, waits)
    assert.doesNotMatch(failure.sentence, /再试|重试/)
    const list = phone.open('history')
    assert.equal(list.data.days[0].items[0].detail, list.data.text.waits[kept])
  })
}

test('a photo that no phone keeps is told what to do', async () => {
  phone.refuses = ['write']
  const page = await lost('request:fail timeout')
  assert.match(page.data.failure.sentence, /请稍后再试/)
  assert.equal(page.data.failure.waits, '')
})

const BREED = { id: 'n01', name: 'golden retriever', name_zh: '金毛寻回犬', probability: 0.9 }
for (const [what, body] of [
  ['without breeds', { breeds: [] }],
  ['with a breed without a name', { breeds: [{ id: 'n01', probability: 0.9 }] }],
  ['with a breed without a probability', { breeds: [{ ...BREED, probability: undefined }] }],
  ['with a breed that is none', { breeds: [null] }],
  ['of a group that is missing', { level: 'group', group: null }],
  ['of a group without members', { level: 'group', group: { ...BREED, members: null } }],
  ['of a set that is missing', { level: 'set', set: null }],
  ['of a set of other breeds', { level: 'set', set: ['x'] }],
  ['with a second dog without breeds', { dogs: [{ box: [0, 0, 1, 1], breeds: [BREED], level: 'breed' }, { box: [0, 0, 1, 1] }] }],
]) {
  test(`an answer ${what} is told as one that cannot be read, and the photo waits`, async () => {
    const page = phone.snap()
    await wait()
    await phone.requests.at(-1).answer(200, answerBody(body))
    await wait()
    assert.deepEqual([page.data.state, page.data.failure.kind, Boolean(page.data.failure.waits)], ['failed', 'unreadable', true])
    assert.equal(history.list().length, 1)
  })
}
