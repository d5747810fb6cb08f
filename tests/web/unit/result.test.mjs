import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { answerBody, GUESSES, HUSKY, LEVELS, Phone, settle, tap } from './phone.mjs'

let phone
beforeEach(() => {
  phone = new Phone()
})

/** A result page whose photo is on its way to the server, and that request. */
async function asking(on = phone) {
  const page = on.snap()
  await settle()
  return { page, request: on.requests.at(-1) }
}

/** The server says that it has started, where the app asks that. */
async function isReady() {
  const { url, answer } = phone.requests.at(-1)
  if (url.endsWith('/readyz')) await answer(200, {})
}

async function answered(changes) {
  const { page, request } = await asking()
  await request.answer(200, answerBody(changes))
  return page
}

test('a sure answer is shown with the breeds, their names in both languages and percentages', async () => {
  const page = await answered()
  assert.equal(page.data.state, 'breed')
  assert.deepEqual(
    page.data.answer.rows.map(({ name, second, percent, width }) => [name, second, percent, width]),
    [
      ['金毛寻回犬', 'Golden retriever', '93%', 93],
      ['拉布拉多寻回犬', 'Labrador retriever', '3%', 3],
      ['寻血猎犬', 'Bloodhound', '2%', 2],
    ],
  )
  assert.match(page.data.answer.answeredBy, /inception_v3.*2/)
})

test('a sure breed stands in the headline with its percentage; what can be many breeds has none there', async () => {
  const { best, headline } = (await answered()).data.answer
  assert.deepEqual([best.id, best.name, best.percent], ['n01', headline, '93%'])
  assert.equal((await answered({ ...LEVELS.set, set: ['n01'] })).data.answer.best.id, 'n01')
  assert.equal((await answered(LEVELS.set)).data.answer.best, null)
  assert.equal((await answered(LEVELS.group)).data.answer.best, null)
})

test('an answer without confidence is told as not sure', async () => {
  assert.equal((await answered({ confident: false })).data.state, 'unsure')
})

test('no dog is told as no dog, whatever breeds come along', async () => {
  assert.equal((await answered({ dog: false, confident: true })).data.state, 'no_dog')
})

for (const [state, changes] of Object.entries(LEVELS)) {
  test(`an answer at the level "${changes.level}" has a state of its own, is kept, and opens again as it was`, async () => {
    const page = await answered(changes)
    assert.equal(page.data.state, state)
    const again = phone.open('result', { id: page.snapId })
    await settle()
    assert.deepEqual(
      [again.data.state, again.data.answer.headline, again.data.answer.rows, again.data.answer.apart],
      [state, page.data.answer.headline, page.data.answer.rows, page.data.answer.apart],
    )
  })
}

test('labels are told together, a row each and nothing is asked; one is told by its percentage, none as none', async () => {
  const { headline, rows, best, feedback, isOne } = (await answered(LEVELS.labels)).data.answer
  assert.equal(headline, '拉布拉多寻回犬、金毛寻回犬')
  assert.deepEqual([rows.map(({ id }) => id), best, feedback, isOne], [['n02', 'n01'], null, '', true])
  const one = (await answered({ ...LEVELS.labels, labels: [GUESSES[1]] })).data.answer
  assert.deepEqual([one.headline, one.best.id], ['拉布拉多寻回犬', 'n02'])
  const none = (await answered({ ...LEVELS.labels, labels: [], confident: false })).data
  const { headline: said, rows: shown, isOne: isShared } = none.answer
  assert.deepEqual([none.state, said, shown, isShared], ['labels', '没看到认识的', [], false])
  assert.equal((await answered({ ...LEVELS.labels, labels: undefined })).data.state, 'failed')
})

test('a group is told by its name, with its members as rows and what tells them apart', async () => {
  const page = await answered(LEVELS.group)
  assert.equal(page.data.answer.headline, '哈士奇类')
  assert.deepEqual(
    page.data.answer.rows.map(({ id }) => id),
    ['n01', 'n03'],
  )
  assert.deepEqual(page.data.answer.apart, ['看眼睛。'])
})

for (const [set, headline] of [
  [['n01'], '金毛寻回犬'],
  [['n02', 'n01'], '金毛寻回犬或\u200b拉布拉多寻回犬'],
  [['n01', 'n02', 'n03'], '3 个品种之一'],
]) {
  test(`a set of ${set.length} is told as "${headline}", its breeds as rows`, async () => {
    const page = await answered({ ...LEVELS.set, set })
    assert.equal(page.data.answer.headline, headline)
    assert.deepEqual(page.data.answer.rows.map(({ id }) => id).sort(), [...set].sort())
  })
}

const factsOf = (id, name) => ({ id, name, name_zh: '', height_cm: [51, 56], coat: { en: 'Golden.', zh: '金色。' } })
const FACTS = [factsOf('n01', 'golden'), factsOf('n02', 'Labrador'), factsOf('n03', 'bloodhound')]
const APART = ['Golden：肩高 51–56 厘米。金色。', 'Labrador：肩高 51–56 厘米。金色。']

test('a set is told apart by what the server knows of its breeds, and by nothing where it knows nothing', async () => {
  assert.deepEqual((await answered(LEVELS.set)).data.answer.apart, [])
  phone = new Phone()
  phone.facts = FACTS
  assert.deepEqual((await answered(LEVELS.set)).data.answer.apart, APART)
})

/** An answer whose facts are still on their way, and both requests. */
async function answeredBeforeFacts() {
  phone.facts = null
  const page = phone.snap()
  await settle()
  const [facts, photo] = ['/api/breeds', '/api/classify'].map((path) => phone.requests.find(({ url }) => url.endsWith(path)))
  await photo.answer(200, answerBody(LEVELS.set))
  return { page, facts }
}

test('what is known of its breeds is asked for with the photo, and an answer waits for it', async () => {
  const { page, facts } = await answeredBeforeFacts()
  assert.equal(page.data.state, 'working')
  await facts.answer(200, { breeds: FACTS })
  assert.deepEqual([page.data.state, page.data.answer.apart], ['set', APART])
})

test('where nothing is known of its breeds an answer waits for nothing', async () => {
  const { page, facts } = await answeredBeforeFacts()
  await facts.lose('request:fail')
  assert.deepEqual([page.data.state, page.data.answer.apart], ['set', []])
})

test('what comes after two seconds is told when the page is shown again, and moves nothing before', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { page, facts } = await answeredBeforeFacts()
  t.mock.timers.tick(2000)
  await settle()
  assert.deepEqual([page.data.state, page.data.answer.apart], ['set', []])
  await facts.answer(200, { breeds: FACTS })
  assert.deepEqual(page.data.answer.apart, [])
  page.onShow()
  assert.deepEqual(page.data.answer.apart, APART)
})

test('once an answer has waited for that in vain, the next one waits for nothing', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { page: first } = await answeredBeforeFacts()
  t.mock.timers.tick(2000)
  await settle()
  const { page } = await asking()
  t.mock.timers.tick(0)
  await phone.requests.at(-1).answer(200, answerBody(LEVELS.set))
  assert.deepEqual([first.data.state, page.data.state], ['set', 'set'])
})

test('a photo that is turned while its answer waits for that is asked about as it lies now', async () => {
  const { page, facts } = await answeredBeforeFacts()
  phone.service('snaps').turn(page.snapId, 90, null)
  await settle()
  page.start()
  await facts.answer(200, { breeds: FACTS })
  assert.equal(page.data.state, 'working')
})

/** An answer of the history whose facts are still on their way, since another version was chosen, and that request. */
async function openedBeforeFacts() {
  const { snapId } = await answered(LEVELS.set)
  phone.service('settings').change({ model: { model: 'inception_v3', version: 1 } })
  phone.facts = null
  const page = phone.open('result', { id: snapId })
  await settle()
  return { page, facts: phone.requests.at(-1) }
}

test('an answer from the history waits for what is known of its breeds, too', async () => {
  const { page, facts } = await openedBeforeFacts()
  assert.deepEqual([page.data.state, page.data.stage], ['working', ''])
  await facts.answer(200, { breeds: FACTS })
  assert.deepEqual([page.data.state, page.data.answer.apart], ['set', APART])
})

test('an answer from the history is shown after two seconds without what is known of its breeds', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { page } = await openedBeforeFacts()
  t.mock.timers.tick(2000)
  await settle()
  assert.deepEqual([page.data.state, page.data.answer.apart], ['set', []])
})

test('a photo that is gone is told while its answer waits for that', async () => {
  const { page } = await openedBeforeFacts()
  delete phone.files[page.data.photo]
  await page.onPhotoError()
  assert.equal(page.data.photoProblem, 'photoLost')
})

test('a retry that begins while a page that was shown again waits for that goes on', async () => {
  const { page, request } = await asking()
  await request.lose('request:fail')
  phone.service('settings').change({ model: { model: 'inception_v3', version: 1 } })
  phone.facts = null
  page.onShow()
  const facts = phone.requests.at(-1)
  page.onRetry()
  await settle()
  phone.service('history').answer(page.snapId, { state: 'refused', kind: 'tooLarge', breeds: [], feedbackId: '' })
  await facts.answer(200, { breeds: FACTS })
  assert.equal(page.data.state, 'working')
})

test('a page that is left while it waits for that turns no photo', async () => {
  const { page, facts } = await openedBeforeFacts()
  phone.service('history').change(page.snapId, { outcome: { ...page.kept, turned: 90 } })
  phone.pages.pop()
  page.onUnload()
  await facts.answer(200, { breeds: FACTS })
  assert.equal(phone.service('history').find(page.snapId).photo, page.data.photo)
})

test('candidates that are all of one group are told apart by what the model says of the group', async () => {
  const page = await answered({ ...LEVELS.set, set: ['n01', 'n03'], group: HUSKY })
  assert.deepEqual(page.data.answer.apart, ['看眼睛。'])
})

test('a server that knows no levels is told as before', async () => {
  assert.equal((await answered()).data.state, 'breed')
  assert.equal((await answered({ level: 'of the future', confident: false })).data.state, 'unsure')
})

test('the box is drawn where the server saw the dog, and nowhere where it said nothing', async () => {
  const page = await answered({ box: [0.1, 0.2, 0.6, 0.9] })
  assert.equal(page.data.answer.boxStyle, 'left: 10.00%; top: 20.00%; width: 50.00%; height: 70.00%')
  assert.equal((await answered()).data.answer.boxStyle, '')
})

test('a tap on the photo leads to framing a part of it, once there is an answer', async () => {
  const { page, request } = await asking()
  page.onFrame()
  assert.deepEqual(phone.routes, [])
  await request.answer(200, answerBody())
  page.onFrame()
  assert.equal(phone.routes.at(-1), `navigateTo /pages/frame/frame?id=${page.snapId}`)
})

test('a group is shared as its first breed or a look-alike, with the probability of all', async () => {
  const page = await answered(LEVELS.group)
  page.drawCard = async () => 'tmp/card.jpg'
  assert.equal(page.onShareAppMessage().title, '这很可能是金毛寻回犬或与它相像的狗（97%）')
})

for (const [what, changes] of [
  ['a group of which one row is left', { group: { ...HUSKY, members: ['n01', 'n77'] } }],
  ['a group whose first breed is nearly sure', { breeds: GUESSES }],
]) {
  test(`${what} is told as that breed, and its look-alikes are in the rows`, async () => {
    const page = await answered({ ...LEVELS.group, ...changes })
    assert.equal(page.data.answer.headline, '金毛寻回犬')
    assert.equal(page.data.answer.best.id, 'n01')
    assert.equal(page.data.answer.lead, '很可能是它，或与它相像的狗')
    page.drawCard = async () => 'tmp/card.jpg'
    assert.match(page.onShareAppMessage().title, /^这很可能是金毛寻回犬（\d+%）$/)
  })
}

test('several dogs are all named where they are shared, and counted under a small picture', async () => {
  const second = { level: 'breed', confident: true, breeds: GUESSES.slice(1), group: null, set: null, box: [0.6, 0, 1, 1] }
  const first = { ...second, breeds: GUESSES, box: [0, 0, 0.5, 1] }
  const page = await answered({ box: first.box, dogs: [first, second] })
  const card = phone.service('card')
  let drawn
  card.draw = async (given) => {
    drawn = given
    return 'tmp/card.jpg'
  }
  assert.equal(page.onShareAppMessage().title, '两只狗：金毛寻回犬 · 拉布拉多寻回犬')
  assert.deepEqual([drawn.title, drawn.subtitle, drawn.percent], ['金毛寻回犬 · 拉布拉多寻回犬', '两只狗', ''])
  assert.deepEqual(drawn.boxes, [first.box, second.box])
  await settle()
  assert.equal(phone.service('captions').short(phone.service('history').find(page.snapId)), '两只狗')
})

test('an answer for the turned photo is shown with the photo turned, and its boxes with it', async () => {
  const { page, request } = await asking()
  await request.answer(200, answerBody({ turned: 90, box: [0.1, 0.2, 0.4, 0.8] }))
  await settle()
  assert.deepEqual(
    page.outcome.box.map((side) => side.toFixed(2)),
    ['0.20', '0.10', '0.80', '0.40'],
  )
  const { outcome, photo: kept } = phone.service('history').find(page.snapId)
  assert.deepEqual([outcome.turned, outcome.box], [0, page.outcome.box])
  assert.ok(kept in phone.files)
  assert.notEqual(page.data.photo, 'tmp/dog.jpg')
})

test('a tap turns the photo; where little was said of it, it is asked about again', async () => {
  const named = await answered()
  await named.onTurn()
  assert.equal(phone.requests.filter(({ url }) => url.endsWith('/api/classify')).length, 1)
  assert.equal(named.data.state, 'breed')
  const page = await answered(LEVELS.no_dog)
  await page.onTurn()
  await settle()
  assert.equal(page.data.state, 'working')
  await phone.requests.at(-1).answer(200, answerBody())
  assert.equal(page.data.state, 'breed')
  assert.equal(phone.service('history').find(page.snapId).outcome.state, 'breed')
})

test('a photo that cannot be turned stays as it is, and that is said', async () => {
  const page = await answered({ turned: 90 })
  phone.wx.canvasToTempFilePath = async () => {
    throw new Error('no canvas')
  }
  const { photo } = page.data
  await page.onTurn()
  assert.match(phone.toast, /无法旋转/)
  assert.equal(page.data.photo, photo)
})

test('a photo that the server refuses is not kept', async () => {
  const { request } = await asking()
  await request.answer(415, { error: 'x' })
  await settle()
  assert.deepEqual(phone.service('history').list(), [])
})

test('a photo without a connection waits, and goes again until it is answered', async () => {
  const { page, request } = await asking()
  await request.lose('request:fail ')
  await settle()
  assert.equal(Boolean(page.data.failure.waits), true)
  const kept = phone.service('history')
  assert.deepEqual(
    kept.list().map(({ id, outcome }) => [id, outcome]),
    [[page.snapId, null]],
  )
  const waiting = phone.service('waiting')
  phone.network = 'wifi'
  for (const status of [503, 200]) {
    const count = phone.requests.length
    waiting.send()
    await settle()
    waiting.send() // one at a time
    await settle()
    assert.equal(phone.requests.length, count + 1)
    await phone.requests.at(-1).answer(status, answerBody())
  }
  phone.network = 'none'
  assert.deepEqual(
    kept.list().map(({ outcome }) => outcome === null),
    [false],
  )
  await page.onShow()
  assert.equal(page.data.state, 'breed')
})

test('a photo that is deleted while it is sent stays deleted', async () => {
  const { page, request } = await asking()
  await request.lose('request:fail ')
  await settle()
  phone.network = 'wifi'
  phone.service('waiting').send()
  await settle()
  phone.network = 'none'
  phone.service('history').remove(page.snapId)
  await phone.requests.at(-1).answer(200, answerBody())
  assert.deepEqual(phone.service('history').list(), [])
})

test('the photo is sent once: coming back from the background does not send again', async () => {
  const { page } = await asking()
  page.onShow()
  page.onShow()
  await settle()
  assert.equal(phone.requests.filter(({ url }) => url.endsWith('/api/classify')).length, 1)
})

test('the server is asked for the version pinned in the settings', async () => {
  phone.service('settings').change({ model: { model: 'inception_v3', version: 1 } })
  const { request } = await asking()
  assert.equal(request.method, 'POST')
  assert.deepEqual(Object.keys(request.data), ['image', 'model', 'version'])
  assert.equal(request.data.version, 1)
})

test('every photo goes with the same key of this installation, until all is deleted', async () => {
  const keys = []
  for (const forgetting of [false, true, false]) {
    if (forgetting) await phone.open('history').onClear()
    keys.push((await asking()).request.header['X-Request-Key'])
    keys.push((await asking()).request.header['X-Request-Key'])
  }
  assert.match(keys[0], /^[0-9a-z]{12,}$/)
  assert.deepEqual(keys, [keys[0], keys[0], keys[2], keys[2], keys[2], keys[2]])
  assert.notEqual(keys[0], keys[2])
  assert.notEqual((await asking(new Phone())).request.header['X-Request-Key'], keys[0])
})

test('no other request says which phone it comes from', async () => {
  phone.facts = null
  phone.open('settings')
  phone.open('breed', { id: 'n01' })
  assert.deepEqual(
    phone.requests.map(({ header }) => header),
    [undefined, undefined],
  )
})

const FAILURES = [
  { status: 400, sentence: /无法处理这次请求/, retry: false },
  { status: 401, sentence: /密钥/, retry: false },
  { status: 403, sentence: /密钥/, retry: false },
  { status: 404, sentence: /没有可用的模型/, retry: true },
  { status: 413, sentence: /太大/, retry: false },
  { status: 415, sentence: /不是照片/, retry: false },
  { status: 422, sentence: /没有通过内容检查/, retry: false },
  { status: 429, sentence: /人太多/, retry: true },
  { status: 503, sentence: /人太多/, retry: true },
  { status: 504, sentence: /没来得及/, retry: true },
  { status: 500, sentence: /出了点问题/, retry: true },
]
for (const { status, sentence, retry } of FAILURES) {
  test(`a ${status} is told in words, ${retry ? 'with' : 'without'} a retry`, async () => {
    const { page, request } = await asking()
    await request.answer(status, { error: 'An English sentence.', request_id: 'abc' })
    await isReady()
    assert.equal(page.data.state, 'failed')
    assert.match(page.data.failure.sentence, sentence)
    assert.equal(page.data.failure.retry, retry)
    assert.match(page.data.failure.reference, /abc/)
  })
}

test('a version that is gone leads to the settings, and the retry asks for the one chosen there', async () => {
  phone.service('settings').change({ model: { model: 'inception_v3', version: 7 } })
  const { page, request } = await asking()
  assert.equal(request.data.version, 7)
  await request.answer(404, { error: 'An English sentence.' })
  assert.equal(page.data.failure.settings, true)
  page.onSettings()
  assert.equal(phone.routes.at(-1), 'switchTab /pages/settings/settings')
  phone.service('settings').change({ model: null })
  page.onRetry()
  await settle()
  assert.equal(phone.requests.at(-1).data.version, undefined)
})

test('a request refused for the pinned model leads to the settings, and a retry asks for the one chosen there', async () => {
  phone.service('settings').change({ model: { model: 'apple2orange', version: 1 } })
  const { page, request } = await asking()
  await request.answer(400, { error: 'An English sentence.', request_id: 'abc' })
  assert.match(page.data.failure.sentence, /模型.*设置/)
  assert.deepEqual([page.data.failure.settings, page.data.failure.retry], [true, true])
  assert.match(page.data.failure.reference, /abc/)
})

test('a busy server that says how long is believed', async () => {
  const { page, request } = await asking()
  await request.answer(503, { error: 'busy' }, { 'Retry-After': '7' })
  await isReady()
  assert.match(page.data.failure.waits, /7 秒/)
})

test('a busy server that names a time is believed by its own clock, which the phone need not share', async () => {
  const { page, request } = await asking()
  const headers = { 'Retry-After': 'Thu, 01 Jan 2015 00:25:00 GMT', Date: 'Thu, 01 Jan 2015 00:00:00 GMT' }
  await request.answer(503, { error: 'busy' }, headers)
  assert.match(page.data.failure.waits, /25 分钟/)
})

for (const [errMsg, sentence] of [
  ['request:fail ', /没有网络/],
  ['request:fail timeout', /没有回应/],
  ['request:fail interrupted', /没有网络/],
]) {
  test(`"${errMsg}" is told in words and can be retried`, async () => {
    const { page, request } = await asking()
    await request.lose(errMsg)
    assert.match(page.data.failure.sentence, sentence)
    assert.equal(page.data.failure.retry, true)
  })
}

test('a 200 that is not an answer is a failure', async () => {
  const { page, request } = await asking()
  await request.answer(200, '<html>a captive portal</html>')
  assert.equal(page.data.state, 'failed')
  assert.match(page.data.failure.sentence, /内容有误/)
})

test('after a failure, a retry sends the same photo again and shows the answer', async () => {
  const { page, request } = await asking()
  await request.lose('request:fail ')
  page.onRetry()
  assert.equal(page.data.state, 'working')
  await settle()
  await phone.requests.at(-1).answer(200, answerBody())
  assert.equal(page.data.state, 'breed')
})

test('cancel aborts the request, goes back, and a late answer is not heard', async () => {
  const { page, request } = await asking()
  page.onCancel()
  page.onUnload()
  await request.answer(200, answerBody())
  assert.equal(request.aborted, true)
  assert.notEqual(page.data.state, 'breed')
  assert.notEqual(page.data.state, 'failed')
  assert.match(phone.routes.at(-1), /navigateBack|home/)
})

test('cancel while the photo is still being prepared sends nothing', async () => {
  const page = phone.snap()
  page.onCancel()
  await settle()
  assert.deepEqual(phone.requests, [])
})

test('a page that is left shows nothing more, and its photo is answered in the history', async () => {
  const { page, request } = await asking()
  page.onUnload()
  await request.answer(200, answerBody())
  assert.equal(page.data.state, 'working')
  assert.deepEqual(
    phone.service('history').list().map(({ outcome }) => outcome.state),
    ['breed'],
  )
})

test('what is cancelled is neither kept nor sent later', async () => {
  const { page, request } = await asking()
  page.onCancel()
  await settle()
  assert.ok(request.aborted)
  assert.deepEqual(phone.service('history').list(), [])
  assert.deepEqual(phone.files, { 'tmp/dog.jpg': 'dog', 'tmp/small-1.jpg': phone.files['tmp/small-1.jpg'] })
})

test('the background leaves what was just chosen to its page, however late that is ready, and cancel deletes it', async () => {
  phone.network = 'wifi'
  const id = phone.service('snaps').open('tmp/dog.jpg')
  await settle()
  const page = phone.render('result', { id })
  await settle()
  page.onReady()
  await settle()
  page.onCancel()
  await settle()
  assert.deepEqual(phone.service('history').list(), [])
})

test('a photo that is refused at once is not kept, and one that was said to be kept stays with the reason', async () => {
  const { page, request } = await asking()
  await request.answer(413, {})
  assert.deepEqual([page.data.failure.kind, phone.service('history').list()], ['tooLarge', []])
  const second = await asking()
  await second.request.lose('request:fail')
  assert.ok(second.page.data.failure.waits)
  second.page.onRetry()
  await settle()
  await phone.requests.at(-1).answer(413, {})
  assert.equal(second.page.data.failure.kind, 'tooLarge')
  assert.deepEqual(phone.service('history').list().map(({ outcome }) => outcome.kind), ['tooLarge'])
})

test('what was cancelled stays so when its page is opened again', async () => {
  const { page } = await asking()
  page.onCancel()
  await settle()
  const again = phone.open('result', { id: page.snapId })
  await settle()
  assert.deepEqual([again.data.state, phone.requests.length], ['failed', 1])
  assert.deepEqual(phone.service('history').list(), [])
})

/** Pages whose photo is on its way again, each for another reason. */
const AGAIN = {
  async 'retried after it waited'() {
    const { page, request } = await asking()
    await request.lose('request:fail')
    assert.ok(page.data.failure.waits)
    page.onRetry()
    page.retried = 0 // a while ago
    return page
  },
  async 'left and opened again'() {
    const { page } = await asking()
    page.onUnload()
    return phone.open('result', { id: page.snapId })
  },
  async 'answered, turned and asked about anew'() {
    const page = await answered({ confident: false })
    page.onTurn()
    return page
  },
  async 'sent without its page'() {
    const id = phone.service('snaps').open('tmp/dog.jpg')
    phone.network = 'wifi'
    await settle()
    phone.service('history').change(id, { time: Date.now() - 60_000 }) // no page is to come any more
    phone.open('home') // which sends what waits
    for (let turn = 0; turn < 5; turn++) await settle()
    await phone.requests.at(-1).lose('request:fail timeout')
    return phone.open('result', { id })
  },
}
for (const [what, open] of Object.entries(AGAIN)) {
  test(`cancel deletes what was just chosen alone: a photo that was ${what} stays`, async () => {
    const page = await open()
    await settle()
    assert.equal(page.data.state, 'working')
    page.onCancel()
    await settle()
    assert.deepEqual(phone.service('history').list().map(({ id }) => id), [page.snapId])
    assert.match(phone.routes.at(-1), /navigateBack|home/)
  })
}

/** Copies end when they are told to. */
function holdCopies() {
  const files = phone.wx.getFileSystemManager()
  const { copyFile } = files
  const held = []
  files.copyFile = (options) => held.push(() => copyFile(options))
  return held
}

test('an answer that comes while the small copy of its photo is kept stays with it', async () => {
  const history = phone.service('history')
  const id = phone.service('snaps').open('tmp/dog.jpg')
  await settle()
  const held = holdCopies()
  const keeping = history.add(id, null, 'tmp/dog.jpg')
  history.answer(id, { state: 'breed', breeds: GUESSES, feedbackId: '' })
  held.forEach((end) => end())
  await keeping
  assert.deepEqual([history.list().length, history.find(id).outcome.state, history.find(id).isRaw], [1, 'breed', false])
})

test('a page that opens while its photo is asked about without it shows that answer, and nothing is sent twice', async () => {
  phone.network = 'wifi'
  const { snapId } = (await asking()).page
  phone.pages.length = 0
  const page = phone.open('result', { id: snapId })
  await settle()
  const [request] = phone.requests
  await request.answer(200, answerBody())
  await settle()
  assert.equal(page.data.state, 'breed')
  assert.equal(phone.requests.filter(({ url }) => url.endsWith('/api/classify')).length, 1)
})

for (const [what, copy] of [
  ['answered', (history, id) => history.add(id, { state: 'breed', breeds: GUESSES, feedbackId: '' }, 'tmp/dog.jpg')],
  ['turned', (history, id) => history.turn(id, 'tmp/dog.jpg', null)],
]) {
  test(`a snap that is deleted while it is ${what} stays deleted, with its files`, async () => {
    const { snapId } = await answered()
    const history = phone.service('history')
    const held = holdCopies()
    const copying = copy(history, snapId)
    history.remove(snapId)
    held.forEach((end) => end())
    await copying
    assert.deepEqual(history.list(), [])
    assert.deepEqual(Object.keys(phone.files).filter((path) => path.startsWith('usr/')), [])
  })
}

test('an answer never appears under another photo than its own', async () => {
  const first = await asking()
  phone.files['tmp/other.jpg'] = 'other'
  phone.pictures['tmp/other.jpg'] = phone.pictures['tmp/dog.jpg']
  const second = phone.snap('tmp/other.jpg')
  await settle()
  await first.request.answer(200, answerBody())
  assert.equal(second.data.photo, 'tmp/small-2.jpg')
  assert.equal(second.data.state, 'working')
  await phone.requests[1].answer(200, answerBody({ breeds: [...GUESSES].reverse() }))
  assert.equal(first.page.data.answer.rows[0].id, 'n01')
  assert.equal(second.data.answer.rows[0].id, 'n04')
})

test('a kept snap opens with its own photo and asks the server nothing', async () => {
  const { snapId } = await answered()
  phone.requests.length = 0
  const page = phone.open('result', { id: snapId })
  await settle()
  assert.equal(page.data.state, 'breed')
  assert.equal(page.data.photo, `usr/${snapId}.jpg`)
  assert.deepEqual(phone.requests, [])
})

test('a kept snap that is shown before its page is ready stays so', async () => {
  const { snapId } = await answered()
  phone.requests.length = 0
  const page = phone.render('result', { id: snapId })
  await settle()
  page.onReady()
  await settle()
  assert.deepEqual([page.data.state, page.data.wasAsked], ['breed', false])
  assert.deepEqual(phone.requests, [])
})

test('a snap that is neither kept nor of this session says that its photo is gone', () => {
  const page = phone.open('result', { id: 'of-yesterday' })
  assert.equal(page.data.state, 'failed')
  assert.match(page.data.failure.sentence, /已不在/)
  assert.equal(page.data.failure.retry, false)
})

test('a history that cannot be written does not take the answer away', async (t) => {
  t.mock.method(console, 'warn', () => {})
  const { page, request } = await asking()
  for (const file of Object.keys(phone.files)) delete phone.files[file]
  await request.answer(200, answerBody())
  assert.equal(page.data.state, 'breed')
})

test('a change of language rewords the answer, and a failure too', async () => {
  const page = await answered()
  const lost = await asking()
  await lost.request.lose('request:fail ')
  phone.service('settings').change({ language: 'en' })
  page.onShow()
  lost.page.onShow()
  assert.deepEqual([page.data.answer.rows[0].name, page.data.answer.rows[0].second], ['Golden retriever', ''])
  assert.match(lost.page.data.failure.sentence, /no connection/)
})

test('a photo the phone cannot draw gives way to a sentence, and the answer stays', async () => {
  const page = await answered()
  page.onPhotoError()
  assert.equal(page.data.photoProblem, 'photoHidden')
  assert.equal(page.data.state, 'breed')
})

test('a row leads to its breed, and "again" replaces the page by one for the new photo', async () => {
  const page = await answered()
  page.onBreed(tap({ id: 'n02' }))
  assert.equal(phone.routes.at(-1), 'navigateTo /pages/breed/breed?id=n02')
  await page.onAgain()
  assert.match(phone.routes.at(-1), /^redirectTo \/pages\/result\/result\?id=/)
})

test('"again" where camera and album may not be used is told, and the answer stays', async (t) => {
  t.mock.method(console, 'warn', () => {})
  const page = await answered()
  phone.chosen = Object.assign(new Error(), { errMsg: 'chooseMedia:fail auth deny' })
  await page.onAgain()
  assert.match(phone.modals[0].content, /允许/)
  assert.deepEqual([page.data.state, phone.routes], ['breed', []])
})

test('only a sure answer is shared, as a link to the breed', async () => {
  const { page } = await asking()
  assert.equal(page.onShareAppMessage().path, '/pages/home/home')
  const shown = await answered()
  shown.drawCard = async () => 'tmp/card.jpg'
  const { title, path, promise } = shown.onShareAppMessage()
  assert.equal(title, '这很可能是金毛寻回犬（93%）')
  assert.equal(path, '/pages/breed/breed?id=n01')
  assert.equal((await promise).imageUrl, 'tmp/card.jpg')
})

test('the card is drawn of the small upright copy, not of the photo as it was stored', async () => {
  const page = await answered()
  phone.drawn.length = 0
  await page.drawCard()
  assert.deepEqual(phone.drawn, ['tmp/small-1.jpg'])
  assert.deepEqual([phone.saves.at(-1).width, phone.saves.at(-1).height], [1000, 800])
})

test('a picture that cannot be drawn is told as not saved', async () => {
  const page = await answered()
  page.drawCard = async () => {
    throw new Error('no album')
  }
  await page.onSave()
  assert.match(phone.toast, /没能保存/)
})

test('a breed that is named has its look-alikes in a smaller line, and only where the model confuses it with some', async () => {
  assert.equal((await answered({ ...LEVELS.breed, group: HUSKY })).data.answer.alike, '相像的品种：寻血猎犬')
  assert.equal((await answered(LEVELS.breed)).data.answer.alike, '')
  assert.equal((await answered(LEVELS.group)).data.answer.alike, '')
})

for (const box of [null, 'left', [0, 0, 1], [0, 0, 1, NaN]]) {
  test(`a second dog of which nobody can say where it is (${box}) is left out`, async () => {
    const dogs = [{ ...answerBody(), box: [0, 0, 0.5, 1] }, { ...answerBody(), box }]
    const page = await answered({ box: [0, 0, 0.5, 1], dogs })
    assert.deepEqual([page.data.state, page.data.answer.dogs], ['breed', []])
  })
}
