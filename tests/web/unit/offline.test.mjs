import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { answerBody, GUESSES, HUSKY, Phone, settle } from './phone.mjs'

const LABELS = GUESSES.map(({ id, name, name_zh }) => ({ id, name, name_zh }))
const FILE = 'ONNX'
const NETWORK = {
  digest: 'd1',
  side: 4,
  parts: [1, 0.8],
  labels: LABELS,
  temperature: 1,
  lapse: 0,
  dog_bias: -2,
  log_prior: [0, 0, 0, 0],
  decision: { dog_threshold: 0.5, confident_threshold: 0.9, group_threshold: 0.9, set_threshold: 0.05, unknown_threshold: 0 },
  groups: [{ ...HUSKY, probability: undefined }],
  files: { 'network.onnx': { bytes: 3_700_000, sha1: `sha1 of ${FILE}` } },
}
/** Of a later release of the server. */
const OTHER_FILE = 'other ONNX'
const OTHER = { ...NETWORK, digest: 'd2', files: { 'network.onnx': { bytes: 3_700_000, sha1: `sha1 of ${OTHER_FILE}` } } }
/** Logits of the four breeds. */
const SURE = [9, 1, 1, 1]
const PATH = 'usr/network.onnx'

let phone
beforeEach(() => {
  phone = new Phone()
  Object.assign(phone, { infers: true, scores: SURE, network: 'wifi', facts: LABELS })
})

const wait = () => new Promise((resolve) => setTimeout(resolve, 5))
const asked = (part) => phone.requests.filter(({ url }) => url.includes(part))

/** The settings page of a server with this network. */
async function settings(network = NETWORK) {
  const page = phone.open('settings')
  await asked('/api/offline').at(-1)?.answer(...(network ? [200, network] : [404, { error: 'none' }]))
  await settle()
  return page
}

/** Switches it on; `end` is what becomes of the download. */
async function choose(page, end = (download) => download.end(FILE), network = NETWORK) {
  const chosen = page.onOffline()
  await wait()
  await asked('/api/offline').at(-1).answer(200, network)
  await wait()
  await end(phone.downloads.at(-1))
  await wait()
  await chosen
  return page.data.offline
}

async function ready(network = NETWORK) {
  await choose(await settings(network), undefined, network)
  phone.network = 'none'
}

/** Begins the download of what the server has, as at a start of the app. @returns {Promise<() => Promise<void>>}  waits for its end */
async function beginRenewal(network) {
  const renewed = phone.service('offline').renew()
  await wait()
  await asked('/api/offline').at(-1).answer(200, network)
  await wait()
  return () => renewed
}

/** Fetches it again, as at a start of the app. */
async function renew() {
  const renewed = await beginRenewal(NETWORK)
  await phone.downloads.at(-1).end(FILE)
  await renewed()
}

/** A photo that the server does not get. */
async function snapped(errMsg = 'request:fail') {
  const page = phone.snap()
  await wait()
  await asked('/api/classify').at(-1).lose(errMsg)
  await wait()
  return page
}

test('it is off until chosen, and the row says what it costs and what it is worth', async () => {
  const page = await settings()
  assert.match(page.data.offline.label, /4\sMB/)
  assert.match(page.data.offline.hint, /不如联网时准.*空间/)
  assert.equal(page.data.offline.isChosen, false)
  assert.deepEqual(phone.downloads, [])
  phone.network = 'none'
  assert.equal((await snapped()).data.state, 'failed')
})

test('chosen it is fetched with progress and tried, and then the phone answers where the server does not', async () => {
  const page = await settings()
  const progress = []
  const { hint, isChosen } = await choose(page, async (download) => {
    for (const bytes of [1_000_000, 3_700_000]) {
      download.tell({ totalBytesWritten: bytes })
      progress.push(page.data.offline.hint)
    }
    await download.end(FILE)
  })
  assert.deepEqual(progress.map((text) => text.match(/\d+%/)[0]), ['27%', '99%'])
  assert.equal(isChosen, true)
  assert.match(hint, /已经在这台手机上/)
  assert.equal(phone.sessions.length, 1)
  phone.network = 'none'
  const result = await snapped()
  const { state, headline, onPhone, phoneNote, feedback, boxStyle, dogs } = result.data.answer
  assert.deepEqual([state, headline, feedback, boxStyle, dogs], ['breed', '金毛寻回犬', '', '', []])
  assert.match(onPhone, /手机/)
  assert.match(phoneNote, /照片先留着/)
  assert.equal(phone.sessions.at(-1).state, 'destroyed')
})

test('a network from before there were parts looks at the whole photo', async () => {
  const { parts, ...before } = NETWORK
  await ready(before)
  assert.equal((await snapped()).data.answer.headline, '金毛寻回犬')
})

test('the photo stays in the queue, and the answer of the server replaces that of the phone and says where it differs', async () => {
  await ready()
  const page = await snapped()
  const [entry] = phone.service('history').list()
  assert.deepEqual([entry.outcome, entry.onPhone.state], [null, 'breed'])
  phone.service('waiting').follow(() => page.onShow())
  phone.network = 'wifi'
  const sent = phone.service('waiting').send()
  await wait()
  const beagle = [{ id: 'n99', name: 'beagle', name_zh: '比格犬', probability: 0.97 }] // which the phone does not know
  await asked('/api/classify').at(-1).answer(200, answerBody({ breeds: beagle, feedback_id: 'f1' }))
  await sent
  assert.deepEqual([page.data.answer.headline, page.data.answer.onPhone, page.data.answer.feedback], ['比格犬', '', 'open'])
  assert.match(page.data.answer.phoneNote, /金毛寻回犬/)
  const again = phone.open('result', { id: page.snapId })
  await wait()
  assert.equal(again.data.answer.phoneNote, page.data.answer.phoneNote)
})

test('where the server says the same, nothing is said of the phone', async () => {
  await ready()
  const page = await snapped()
  phone.service('waiting').follow(() => page.onShow())
  phone.network = 'wifi'
  const sent = phone.service('waiting').send()
  await wait()
  await asked('/api/classify').at(-1).answer(200, answerBody())
  await sent
  assert.deepEqual([page.data.answer.onPhone, page.data.answer.phoneNote], ['', ''])
})

const SCORES = {
  breed: SURE,
  group: [4, 0, 3.5, 0],
  set: [3, 2.5, 0, 0],
  no_dog: [1.9, -9, -9, -9],
}
for (const [state, scores] of Object.entries(SCORES)) {
  test(`the phone claims ${state} by its own thresholds`, async () => {
    await ready()
    phone.scores = scores
    const page = await snapped()
    assert.equal(page.data.state, state)
    assert.ok(page.data.answer.onPhone)
  })
}

test('a breed that it does not know, and one of which it is not sure', () => {
  const { claim } = phone.service('levels')
  const labels = Array.from({ length: 12 }, (_, place) => ({ id: `n${place}`, name: `${place}`, name_zh: '' }))
  const network = { ...NETWORK, labels, log_prior: labels.map(() => 0), groups: [] }
  const even = labels.map((_, place) => 3 - place / 100)
  assert.equal(claim([even], network).state, 'unsure')
  const strict = { ...NETWORK.decision, unknown_threshold: 9 }
  assert.equal(claim([even], { ...network, decision: strict }).state, 'unknown')
})

test('an answer of the phone never reaches the page of another photo, nor that of the photo turned', async () => {
  await ready()
  const first = await snapped()
  phone.scores = [1, 9, 1, 1]
  const second = await snapped()
  assert.deepEqual([first.data.answer.headline, second.data.answer.headline], ['金毛寻回犬', '拉布拉多寻回犬'])
  phone.scores = [1, 1, 9, 1]
  await second.onTurn()
  await wait()
  assert.equal(second.data.state, 'working')
  await wait()
  await asked('/api/classify').at(-1).lose('request:fail')
  await wait()
  assert.equal(second.data.answer.headline, '寻血猎犬')
  assert.equal(phone.service('history').find(first.snapId).onPhone.breeds[0].id, 'n01')
})

test('names and facts are on the phone with it, without a connection', async () => {
  await ready()
  phone.facts = null
  const list = phone.open('breeds')
  await wait()
  assert.equal(list.data.state ?? list.data.listState, 'shown')
})

for (const [end, sentence] of [
  [(download) => download.lose('downloadFile:fail'), /没有下载完整/],
  [(download) => download.lose('downloadFile:fail exceed max storage size'), /空间不够/],
  [(download) => download.end('<html>Hotel</html>'), /没有下载完整/],
]) {
  test(`a download that ends otherwise leaves nothing behind: ${sentence}`, async () => {
    const row = await choose(await settings(), end)
    assert.match(row.hint, sentence)
    assert.equal(row.isChosen, false)
    assert.equal(PATH in phone.files, false)
    phone.network = 'none'
    assert.equal((await snapped()).data.state, 'failed')
  })
}

test('after a download that failed it is chosen again, and nothing more is said of that', async () => {
  const page = await settings()
  await choose(page, (download) => download.lose('downloadFile:fail'))
  const { hint, isChosen } = await choose(page, async (download) => {
    assert.match(page.data.offline.hint, /正在下载/)
    await download.end(FILE)
  })
  assert.match(hint, /已经在这台手机上/)
  assert.equal(isChosen, true)
})

test('a download during which the app was closed is finished at the next start, not by mobile data', async () => {
  const page = await settings()
  page.onOffline()
  await wait()
  await asked('/api/offline').at(-1).answer(200, NETWORK)
  await wait()
  const restarted = new Phone()
  Object.assign(restarted, { infers: true, scores: SURE, network: '4g', storage: phone.storage, files: { ...phone.files, [PATH]: 'half' } })
  phone = restarted
  await phone.service('offline').renew()
  assert.equal(asked('/api/offline').length, 0)
  phone.network = 'wifi'
  await renew()
  assert.equal(Boolean(phone.service('offline').kept()), true)
})

test('it is replaced when the server has another, and until that is whole the one before answers', async () => {
  await ready()
  phone.network = 'wifi'
  const renewed = await beginRenewal(OTHER)
  const page = await snapped()
  assert.ok(page.data.answer.onPhone)
  await phone.downloads.at(-1).end(OTHER_FILE)
  await renewed()
  assert.equal(phone.files[PATH], OTHER_FILE)
  assert.equal(phone.service('offline').kept().digest, 'd2')
  assert.ok((await snapped()).data.answer.onPhone)
})

test('what fails with the network before, once another one is whole, leaves that one', async () => {
  await ready()
  phone.isSilent = true
  await snapped()
  const session = phone.sessions.at(-1)
  phone.isSilent = false
  phone.network = 'wifi'
  const renewed = await beginRenewal(OTHER)
  await phone.downloads.at(-1).end(OTHER_FILE)
  await renewed()
  session.onError({ errMsg: 'createInferenceSession:fail' })
  await wait()
  assert.equal(phone.service('offline').kept()?.digest, 'd2')
})

test('what fails while the user comes back to the app is fetched again at the next start, too', async () => {
  await ready()
  phone.load('app.js')
  phone.isSilent = true
  await snapped()
  phone.app.onShow({})
  phone.sessions.at(-1).onError({ errMsg: 'createInferenceSession:fail' })
  await wait()
  assert.equal(phone.service('offline').kept(), null)
})

test('a download that fails leaves no part of it, and the network before answers on', async () => {
  await ready()
  phone.network = 'wifi'
  const renewed = await beginRenewal(OTHER)
  await phone.downloads.at(-1).lose('downloadFile:fail')
  await renewed()
  assert.equal(phone.files[PATH], FILE)
  assert.ok((await snapped()).data.answer.onPhone)
})

test('a file that cannot be deleted keeps nobody from choosing the network and switching it off', async () => {
  phone.files[PATH] = 'of before'
  phone.wx.getFileSystemManager().unlink = ({ fail }) => fail({ errMsg: 'unlink:fail permission denied' })
  const page = await settings()
  assert.equal((await choose(page)).isChosen, true)
  await page.onOffline()
  assert.equal(page.data.offline.isChosen, false)
})

test('a file of another network than the phone knows, as after an end between two steps, says nothing', async () => {
  await ready()
  phone.files[PATH] = OTHER_FILE
  assert.equal((await snapped()).data.state, 'failed')
})

test('a phone without room for the file says so, and keeps nothing', async () => {
  phone.wx.getFileSystemManager().copyFile = ({ fail }) => fail({ errMsg: 'copyFile:fail the maximum size of the file storage limit is exceeded' })
  const row = await choose(await settings())
  assert.match(row.hint, /空间不够/)
  assert.equal(row.isChosen, false)
})

test('mobile data are used only where the user says so', async () => {
  const page = await settings()
  Object.assign(phone, { network: '5g', answerModal: false })
  await page.onOffline()
  assert.equal(phone.modals.length, 1)
  assert.deepEqual(phone.downloads, [])
  phone.answerModal = true
  assert.equal((await choose(page)).isChosen, true)
})

test('the same switch deletes it, also while it is fetched', async () => {
  const page = await settings()
  await choose(page)
  await page.onOffline()
  assert.deepEqual([PATH in phone.files, page.data.offline.isChosen], [false, false])
  const fetching = page.onOffline()
  await wait()
  await asked('/api/offline').at(-1).answer(200, NETWORK)
  await wait()
  await page.onOffline()
  await phone.downloads.at(-1).end(FILE)
  await fetching
  await wait()
  assert.deepEqual([PATH in phone.files, page.data.offline.isChosen], [false, false])
  phone.network = 'none'
  assert.equal((await snapped()).data.state, 'failed')
})

test('a switch off and on during a download that fails begins another one, and says why that fails', async () => {
  const page = await settings()
  const first = page.onOffline()
  await wait()
  await asked('/api/offline').at(-1).answer(200, NETWORK)
  await wait()
  await page.onOffline()
  const second = page.onOffline()
  await wait()
  await phone.downloads[0].lose('downloadFile:fail')
  await first
  await wait()
  assert.equal(page.data.offline.isChosen, true)
  assert.match(page.data.offline.hint, /正在下载/)
  await asked('/api/offline').at(-1).answer(200, NETWORK)
  await wait()
  await phone.downloads[1].lose('downloadFile:fail')
  await second
  assert.equal(page.data.offline.isChosen, false)
  assert.match(page.data.offline.hint, /没有下载完整/)
})

test('where this WeChat runs no networks, or the server has none, there is no row', async () => {
  phone.infers = false
  assert.equal((await settings()).data.offline.label, '')
  assert.equal(asked('/api/offline').length, 0)
  phone.infers = true
  assert.equal((await settings(null)).data.offline.label, '')
})

for (const [what, network] of [
  ['without files', { ...NETWORK, files: {} }],
  ['without labels', { ...NETWORK, labels: undefined }],
  ['that is nothing', 'x'],
]) {
  test(`a description ${what} is taken for none, and the other settings are there`, async () => {
    const page = await settings(network)
    assert.deepEqual([page.data.offline.label, page.data.groups.length], ['', 2])
    page.show()
  })
}

test('without a connection the row is there to switch it off', async () => {
  await ready()
  const page = phone.open('settings')
  await asked('/api/offline').at(-1).lose('request:fail')
  assert.match(page.data.offline.label, /4\sMB/)
})

test('a network that does not run on this phone is said, and not kept', async () => {
  phone.crashes = true
  const row = await choose(await settings())
  assert.match(row.hint, /用不了/)
  assert.equal(PATH in phone.files, false)
})

test('where the phone has deleted its file, the photo waits as without it, and the next start fetches it again', async () => {
  await ready()
  delete phone.files[PATH]
  const page = await snapped()
  assert.deepEqual([page.data.state, Boolean(page.data.failure.waits)], ['failed', true])
  phone.network = 'wifi'
  await renew()
  assert.ok((await snapped()).data.answer.onPhone)
})

/** Lets promises run and the time of the app pass. */
async function pass(t, milliseconds) {
  for (let turn = 0; turn < 9; turn++) await settle()
  t.mock.timers.tick(milliseconds)
  for (let turn = 0; turn < 9; turn++) await settle()
}

test('a network that does not answer is ended, the photo waits, and the next photo asks it again', async (t) => {
  await ready()
  t.mock.timers.enable({ apis: ['setTimeout'] })
  phone.isSilent = true
  const page = phone.snap()
  await pass(t, 1)
  await asked('/api/classify').at(-1).lose('request:fail')
  await pass(t, 1)
  await pass(t, 20_000)
  assert.deepEqual([page.data.state, phone.sessions.at(-1).state], ['failed', 'destroyed'])
  assert.equal(Boolean(phone.service('offline').kept()), true)
})

/** The browser's side of it, and the workers that it starts; what those are asked, tests answer by hand. */
async function inBrowser() {
  const workers = []
  globalThis.Worker = class extends EventTarget {
    questions = []
    postMessage(question, [port]) {
      this.questions.push({ question, port })
    }
    terminate() {
      this.isEnded = true
    }
    constructor() {
      super()
      workers.push(this)
    }
  }
  globalThis.caches = { delete: async () => true }
  const { offlineNetwork } = await import(`../../../backend/web/runtime/wx/offline.js?${Math.random()}`)
  return { workers, ...offlineNetwork }
}

const IN_BROWSER = { digest: 'd1', files: {} }
const TIMEOUT = { kind: 'timeout' }

test('in a browser a worker that does not answer is ended with all that it was asked, and another one answers', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { workers, classify, fetch } = await inBrowser()
  const open = [classify(IN_BROWSER, {}), fetch(IN_BROWSER, {}, () => {})].map((answer) => assert.rejects(answer, TIMEOUT))
  t.mock.timers.tick(20_000)
  await Promise.all(open)
  const next = classify(IN_BROWSER, {})
  assert.deepEqual(workers.map(({ isEnded = false }) => isEnded), [true, false])
  workers[1].questions[0].port.postMessage({ claim: 'dog' })
  assert.equal(await next, 'dog')
  t.mock.timers.tick(20_000)
  assert.equal(workers[1].isEnded, undefined)
})

test('in a browser a download lasts as long as something comes, and no longer', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { workers, fetch } = await inBrowser()
  let heard
  const ended = assert.rejects(fetch(IN_BROWSER, {}, (bytes) => heard(bytes)), TIMEOUT)
  for (const come of [1, 2]) {
    t.mock.timers.tick(50_000)
    workers[0].questions[0].port.postMessage({ come })
    assert.equal(await new Promise((resolve) => (heard = resolve)), come)
  }
  t.mock.timers.tick(60_000)
  await ended
  assert.equal(workers[0].isEnded, true)
})

test('in a browser a worker that cannot be started, or whose network is deleted, leaves no question open', async () => {
  const { workers, classify, fetch, forget } = await inBrowser()
  for (const end of [() => workers[0].dispatchEvent(new Event('error')), forget]) {
    const open = [classify(IN_BROWSER, {}), fetch(IN_BROWSER, {}, () => {})].map((answer) => assert.rejects(answer))
    end()
    await Promise.all(open)
  }
  assert.deepEqual(workers.map(({ isEnded }) => isEnded), [true, true])
})

test('a photo that this phone cannot show waits as without it', async () => {
  await ready()
  delete phone.pictures['tmp/dog.jpg']
  const page = phone.snap()
  await wait()
  for (const request of phone.requests.filter(({ ended }) => !ended)) await request.lose('request:fail')
  await wait()
  for (const request of phone.requests.filter(({ ended }) => !ended)) await request.lose('request:fail')
  await wait()
  assert.deepEqual([page.data.state, Boolean(page.data.failure.waits)], ['failed', true])
})

test('a photo that no longer fits into the queue has its answer, and nothing says that it waits', async () => {
  await ready()
  for (let count = 0; count < 10; count++) await snapped()
  const page = await snapped()
  assert.ok(page.data.answer.onPhone)
  assert.doesNotMatch(page.data.answer.phoneNote, /留着/)
})

test('after the app was closed the answer of the phone is still there, and its photo waits', async () => {
  await ready()
  const { snapId } = await snapped()
  const restarted = new Phone()
  Object.assign(restarted, { infers: true, storage: phone.storage, files: phone.files, pictures: phone.pictures })
  phone = restarted
  const page = phone.open('result', { id: snapId })
  await wait()
  assert.deepEqual([page.data.state, Boolean(page.data.answer.onPhone)], ['breed', true])
  const history = phone.open('history')
  const [{ name, waits }] = history.data.days[0].items
  assert.deepEqual([name, waits], ['金毛寻回犬', true])
})

test('a server that is slow is not waited for: the phone answers meanwhile, and late it says nothing', async (t) => {
  await ready()
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const page = phone.snap()
  for (let turn = 0; turn < 9; turn++) await settle()
  t.mock.timers.tick(8000)
  for (let turn = 0; turn < 9; turn++) {
    await settle()
    t.mock.timers.tick(1)
  }
  assert.ok(page.data.answer.onPhone)
  await asked('/api/classify').at(-1).answer(200, answerBody())
  for (let turn = 0; turn < 9; turn++) await settle()
  assert.deepEqual([page.data.answer.onPhone, page.data.state], ['', 'breed'])
})

for (const [what, end] of [
  ['comes late', (request) => request.answer(200, answerBody())],
  ['is refused', (request) => request.answer(415, { error: 'no photo' })],
]) {
  test(`a photo that is turned while the server is slow is asked about as it lies now: what ${what} for the other is not kept`, async (t) => {
    await ready()
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const page = phone.snap()
    await pass(t, 8000)
    for (let turn = 0; turn < 9; turn++) await pass(t, 1)
    assert.ok(page.data.answer.onPhone)
    const [former] = asked('/api/classify')
    page.onTurn()
    for (let turn = 0; turn < 9; turn++) await pass(t, 1)
    assert.equal(former.aborted, true)
    await end(former)
    await pass(t, 1)
    assert.equal(asked('/api/classify').length, 2)
    assert.deepEqual(phone.service('history').list().map(({ outcome }) => outcome), [null])
    assert.equal(phone.service('snaps').of(page.snapId).state, 'again')
    await asked('/api/classify')[1].answer(200, answerBody({ breeds: [...GUESSES].reverse() }))
    await pass(t, 1)
    assert.equal(page.data.answer.rows[0].id, 'n04')
    assert.equal(phone.service('history').find(page.snapId).outcome.breeds[0].id, 'n04')
  })
}

/** Copies end when they are told to. */
function holdCopies() {
  const files = phone.wx.getFileSystemManager()
  const { copyFile } = files
  const held = []
  files.copyFile = (options) => held.push(() => copyFile(options))
  return () => ((files.copyFile = copyFile), held.forEach((end) => end()))
}

test('what is asked about in the background while a photo is being turned says nothing of the turned one', async () => {
  await ready()
  const page = await snapped()
  const end = holdCopies()
  page.onTurn()
  await wait()
  phone.network = 'wifi'
  phone.service('waiting').send()
  await wait()
  const early = asked('/api/classify').at(-1)
  end()
  await wait()
  if (!early.ended) await early.answer(200, answerBody({ level: 'no_dog', dog: false }))
  assert.equal(phone.service('history').find(page.snapId).outcome, null)
  await asked('/api/classify').at(-1).answer(200, answerBody({ level: 'breed' }))
  await wait()
  assert.deepEqual([page.data.state, phone.service('history').find(page.snapId).outcome.state], ['breed', 'breed'])
})

for (const [what, end] of [
  ['answered', (request) => request.answer(200, answerBody())],
  ['refused', (request) => request.answer(413, {})],
]) {
  test(`a photo that another window has turned is not ${what} by what was asked of it before`, async () => {
    const page = phone.snap()
    await wait()
    await phone.service('history').turn(page.snapId, 'tmp/dog.jpg', null)
    await end(asked('/api/classify').at(-1))
    await wait()
    assert.equal(phone.service('history').find(page.snapId).outcome, null)
  })
}

test('where the photo was refused, the phone says nothing', async () => {
  await ready()
  const page = phone.snap()
  await wait()
  await asked('/api/classify').at(-1).answer(415, { error: 'no photo' })
  await wait()
  assert.equal(page.data.state, 'failed')
  assert.equal(phone.sessions.length, 1)
})

test('the key of the server goes along', async () => {
  phone.service('settings').change({ key: 'dogsnap_k' })
  await choose(await settings())
  assert.equal(phone.downloads[0].header['X-Api-Key'], 'dogsnap_k')
})

/** Red of a picture of 11 x 7, and of the same by tf.image.resize(picture, (4, 4), antialias=True), and the middle of (8, 8). */
const RED = [
  207, 60, 222, 24, 159, 40, 8, 100, 107, 150, 193, 72, 166, 74, 19, 76, 11, 149, 48, 7, 133, 23, 133, 53, 63, 189, 167, 212, 1, 209, 244, 224, 151, 100, 98, 178,
  160, 70, 101, 156, 204, 191, 84, 235, 64, 43, 248, 155, 154, 202, 137, 21, 183, 219, 17, 126, 145, 181, 191, 180, 75, 94, 22, 171, 77, 50, 158, 123, 186, 100, 158,
  52, 175, 97, 21, 89, 126,
]
const RESIZED = [0.4722, 0.3215, 0.2778, 0.4485, 0.4013, 0.493, 0.5296, 0.6516, 0.4768, 0.6147, 0.4973, 0.5241, 0.5762, 0.5601, 0.383, 0.3435]
const MIDDLE = [0.4767, 0.5588, 0.352, 0.5654, 0.604, 0.5043, 0.4531, 0.7451, 0.6308, 0.4827, 0.5722, 0.553, 0.7001, 0.6366, 0.5284, 0.2757]

for (const [part, expected] of Object.entries({ 1: RESIZED, 0.5: MIDDLE })) {
  test(`pictures are brought to size as TensorFlow does it, ${part} of them`, () => {
    const { resample } = phone.service('resample')
    const data = RED.flatMap((red) => [red, 0, 255, 255])
    const pixels = resample({ data, width: 11, height: 7 }, 4, Number(part))
    assert.equal(pixels.length, 4 * 4 * 3)
    expected.forEach((red, place) => {
      assert.ok(Math.abs(pixels[3 * place] - red) < 1e-4, `${place}: ${pixels[3 * place]}`)
      assert.equal(pixels[3 * place + 1], 0)
      assert.ok(Math.abs(pixels[3 * place + 2] - 1) < 1e-6)
    })
  })
}

test('the whole photo and its middle count alike', () => {
  const { claim } = phone.service('levels')
  const alone = claim([[3, 1, 2, 0]], NETWORK)
  const both = claim([[6, 1, 2, 0], [0, 1, 2, 0]], NETWORK)
  assert.deepEqual(both, alone)
})
