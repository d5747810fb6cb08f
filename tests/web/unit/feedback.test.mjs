import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { answerBody, HUSKY, Phone, settle, tap } from './phone.mjs'

const ID = '0123456789abcdef.signed'
const OTHER_ID = 'fedcba9876543210.signed'
const HOUR_MS = 3600 * 1000

function breed(id, name, chinese, others = [], chineseOthers = []) {
  return { id, name, name_zh: chinese, other_names: others, other_names_zh: chineseOthers }
}

const BREEDS = [
  breed('n05', 'Shih-Tzu', '西施犬', ['Chrysanthemum Dog']),
  breed('n02', 'Labrador retriever', '拉布拉多寻回犬'),
  breed('n01', 'golden retriever', '金毛寻回犬', [], ['黄金猎犬']),
  breed('n06', 'Siberian husky', '西伯利亚雪橇犬', [], ['哈士奇', '二哈']),
]

const FIRST = [{ id: 'n02', name: 'Labrador retriever', name_zh: '拉布拉多寻回犬', probability: 0.9 }]

let phone
beforeEach(() => {
  phone = new Phone()
  phone.facts = BREEDS
})

/** A result page with its answer, and what was sent to a path. */
async function answered(changes = {}) {
  const page = phone.snap()
  await settle()
  await phone.requests.at(-1).answer(200, answerBody({ feedback_id: ID, ...changes }))
  await settle()
  return page
}

const sent = (path) => phone.requests.filter(({ url }) => url.endsWith(path))

async function correcting(page) {
  const correct = phone.open('correct', { id: page.snapId })
  await settle()
  return correct
}

const names = (page) => page.data.sections.flatMap(({ choices }) => choices.map(({ label }) => label))

test('one tap says that an answer is right, and it is not asked again', async () => {
  const page = await answered()
  assert.deepEqual([page.data.answer.feedback, page.data.answer.canConfirm], ['open', true])
  page.onRight()
  assert.equal(page.data.answer.feedback, 'given')
  const [request] = sent('/api/feedback')
  assert.deepEqual(request.data, { request_id: ID, verdict: 'right' })
  await request.answer(200, { kept: true })
  const again = phone.open('result', { id: page.snapId })
  await settle()
  assert.equal(again.data.answer.feedback, 'given')
})

for (const [what, lose] of [
  ['a lost connection', (request) => request.lose('request:fail')],
  ['a full disk', (request) => request.answer(503, { error: 'x' })],
]) {
  test(`after ${what} it can be said again`, async () => {
    const page = await answered()
    page.onRight()
    await lose(sent('/api/feedback')[0])
    await settle()
    assert.equal(page.data.answer.feedback, 'open')
    assert.match(phone.toast, /没能发出去/)
  })
}

test('what was said last replaces what the server has already', async () => {
  const page = await answered()
  page.onRight()
  await sent('/api/feedback')[0].answer(409, { error: 'x' })
  await sent('/api/feedback/forget')[0].answer(200, { forgotten: 1 })
  await sent('/api/feedback')[1].answer(200, { kept: true })
  assert.equal(page.data.answer.feedback, 'given')
})

test('a word that may have been lost on its way is forgotten before the next one is sent', async () => {
  const page = await answered()
  page.onRight()
  await sent('/api/feedback')[0].lose('request:fail timeout')
  assert.equal(page.data.answer.feedback, 'open')
  page.onRight()
  assert.deepEqual(sent('/api/feedback/forget')[0].data, { request_ids: [ID] })
  await sent('/api/feedback/forget')[0].answer(200, { forgotten: 1 })
  await sent('/api/feedback')[1].answer(200, { kept: true })
  assert.equal(page.data.answer.feedback, 'given')
})

test('a word whose predecessor cannot be forgotten is not sent, and nothing shows it as said', async () => {
  const page = await given()
  page.onTakeBack()
  await sent('/api/feedback/forget')[0].answer(503, { error: 'x' })
  page.onRight()
  await sent('/api/feedback/forget')[1].answer(503, { error: 'x' })
  await settle()
  assert.deepEqual([page.data.answer.feedback, sent('/api/feedback').length], ['open', 1])
})

test('what is taken back while it is on its way is forgotten after it', async () => {
  const page = await answered({ feedback_asked: true })
  page.onRight()
  page.onTakeBack()
  assert.deepEqual(sent('/api/feedback/forget'), [])
  await sent('/api/feedback')[0].answer(200, { kept: true })
  await sent('/api/feedback/forget')[0].answer(200, { forgotten: 1 })
  assert.equal(page.data.answer.feedback, 'open')
  assert.equal(phone.service('history').find(page.snapId).said, null)
})

for (const [state, changes] of [
  ['unsure', { level: 'unsure', confident: false }],
  ['set', { level: 'set', set: ['n01', 'n02'] }],
  ['unknown', { level: 'unknown' }],
]) {
  test(`of an answer of the kind "${state}" only the breed can be said`, async () => {
    const { data } = await answered(changes)
    assert.deepEqual([data.state, data.answer.feedback, data.answer.canConfirm], [state, 'open', false])
  })
}

for (const [level, changes, said] of [
  ['breed', {}, { breed: 'n02' }],
  ['group', { group: HUSKY, confident: false }, { breed: 'n02' }],
  ['set', { set: ['n01', 'n02'] }, { breed: 'n02' }],
  ['unsure', { confident: false }, { breed: 'n02' }],
  ['unknown', {}, { verdict: 'other' }],
  ['no_dog', { dog: false }, { verdict: 'no_dog' }],
]) {
  test(`an answer of the level "${level}" that is asked about gets the same question and buttons, about what it claims`, async () => {
    const page = await answered({ level, ...changes, breeds: FIRST, feedback_asked: true })
    const question = { no_dog: '照片里真的没有狗吗？', unknown: '是列表里没有的品种吗？' }[level] ?? `是${FIRST[0].name_zh}吗？`
    assert.deepEqual([page.data.answer.feedback, page.data.answer.canConfirm, page.data.answer.question], ['open', true, question])
    page.onRight()
    assert.deepEqual(sent('/api/feedback')[0].data, { request_id: ID, ...said })
  })
}

test('an answer that is not asked about gets no question', async () => {
  assert.equal((await answered({ feedback_asked: false })).data.answer.question, '')
})

test('a server that takes no feedback is given none, and after a day it is too late', async (context) => {
  assert.equal((await answered({ feedback_id: undefined })).data.answer.feedback, '')
  const page = await answered()
  context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 25 * HOUR_MS })
  const again = phone.open('result', { id: page.snapId })
  await settle()
  assert.equal(again.data.answer.feedback, '')
})

test('the other guesses come first, then what is no breed, then the rest as the server orders them, each under its title', async () => {
  const correct = await correcting(await answered())
  const sections = correct.data.sections.map(({ title, choices }) => [title, choices.map(({ label }) => label)])
  assert.deepEqual(sections, [
    ['可能是', ['拉布拉多寻回犬']],
    ['其他情况', ['混血犬', '列表里没有的品种', '不是狗']],
    ['其他品种', ['西施犬', '金毛寻回犬', '西伯利亚雪橇犬']],
  ])
})

for (const [words, found] of [
  ['husky', ['西伯利亚雪橇犬']],
  ['哈士', ['西伯利亚雪橇犬']],
  ['shih tzu', ['西施犬']],
  ['CHRYSANTHEMUM', ['西施犬']],
  ['黄金', ['金毛寻回犬']],
  ['retriever', ['拉布拉多寻回犬', '金毛寻回犬']],
  ['zzz', []],
]) {
  test(`"${words}" finds ${found.join(' and ') || 'no breed'}`, async () => {
    const correct = await correcting(await answered())
    correct.onInput({ detail: { value: words } })
    assert.deepEqual(names(correct).slice(0, -1), found)
    assert.equal(Boolean(correct.data.notKnown), !found.length)
  })
}

test('a mix is told with the breeds of its parents, as names stand within a sentence', async () => {
  phone.language = 'en'
  const correct = await correcting(await answered())
  correct.onInput({ detail: { value: 'goldador' } })
  const [{ choices }] = correct.data.sections
  assert.deepEqual([choices[0].label, choices[0].second], ['A mix of breeds', 'Goldador: golden retriever, Labrador retriever'])
})

test('a breed that is tapped is sent once, and the page goes back', async () => {
  const correct = await correcting(await answered())
  correct.onChoose(tap({ key: 'n06' }))
  correct.onChoose(tap({ key: 'n06' }))
  const requests = sent('/api/feedback')
  assert.deepEqual(
    requests.map(({ data }) => data),
    [{ request_id: ID, breed: 'n06' }],
  )
  await requests[0].answer(200, { kept: true })
  await settle()
  assert.equal(phone.routes.at(-1), 'navigateBack')
})

test('what is no breed is sent as such', async () => {
  const correct = await correcting(await answered())
  correct.onChoose(tap({ key: 'mix' }))
  assert.deepEqual(sent('/api/feedback')[0].data, { request_id: ID, verdict: 'mix' })
})

async function given() {
  const page = await answered()
  page.onRight()
  await sent('/api/feedback')[0].answer(200, { kept: true })
  await settle()
  return page
}

test('"delete all" has the server forget what was said', async () => {
  await given()
  await phone.open('history').onClear()
  const [request] = sent('/api/feedback/forget')
  assert.deepEqual(request.data, { request_ids: [ID] })
  await request.answer(200, { forgotten: 1 })
  assert.deepEqual(phone.storage.feedbackStates, {})
})

test('one photo that is deleted takes what was said of it along', async () => {
  const page = await given()
  await phone.open('history').onRemove(tap({ id: page.snapId }))
  assert.deepEqual(sent('/api/feedback/forget')[0].data, { request_ids: [ID] })
})

/** A photo of two dogs, of which ID is the first one's. */
function ofTwo() {
  const dog = { box: [0, 0, 1, 1], level: 'breed', confident: true, breeds: FIRST, group: null, set: null }
  return answered({ ...dog, feedback_asked: true, dogs: [{ ...dog, feedback_id: ID }, { ...dog, feedback_id: OTHER_ID }] })
}

test('a photo of two dogs that is deleted takes along what was said of each', async () => {
  const page = await ofTwo()
  for (const place of [0, 1]) {
    page.onDog(tap({ place }))
    page.onRight()
    await sent('/api/feedback').at(-1).answer(200, { kept: true })
  }
  await phone.open('history').onRemove(tap({ id: page.snapId }))
  assert.deepEqual(sent('/api/feedback/forget')[0].data, { request_ids: [ID, OTHER_ID] })
})

test('what was said of one dog stays with it where another one is shown before it is sent', async () => {
  const page = await ofTwo()
  page.onRight()
  page.onDog(tap({ place: 1 }))
  await sent('/api/feedback')[0].answer(200, { kept: true })
  assert.deepEqual([page.data.answer.feedback, phone.service('history').find(page.snapId).said], ['open', null])
  page.onDog(tap({ place: 0 }))
  assert.deepEqual([page.data.answer.feedback, phone.service('history').find(page.snapId).said.breed], ['given', FIRST[0].id])
})

test('what could not be forgotten for want of a connection is when the app starts again', async () => {
  await given()
  await phone.open('history').onClear()
  await sent('/api/feedback/forget')[0].lose('request:fail')
  await settle()
  phone.service('feedback').forgetRest()
  const requests = sent('/api/feedback/forget')
  assert.deepEqual(requests[1].data, { request_ids: [ID] })
  await requests[1].answer(200, { forgotten: 1 })
  await settle()
  phone.service('feedback').forgetRest()
  assert.equal(sent('/api/feedback/forget').length, 2)
})

test('nothing that was not said is forgotten', async () => {
  const page = await answered()
  await phone.open('history').onRemove(tap({ id: page.snapId }))
  assert.deepEqual(sent('/api/feedback/forget'), [])
})

for (const [days, line] of [
  [90, /最多 90 天/],
  [null, /不收集/],
]) {
  test(`the settings page says what is kept where the server says ${days}`, async () => {
    const page = phone.open('settings')
    assert.equal(page.data.feedbackLine, '')
    await sent('/api/models')[0].answer(200, { models: [], feedback_days: days })
    await settle()
    assert.match(page.data.feedbackLine, line)
  })
}

test('"delete all" has the server forget everything, also beyond as much as it forgets at once', async () => {
  const said = Object.fromEntries(Array.from({ length: 1203 }, (_, number) => [`id-${number}`, 'given']))
  phone.storage.feedbackStates = said
  phone.service('feedback').forget()
  const asked = []
  for (let round = 0; round < 3; round++) {
    const { data } = sent('/api/feedback/forget').at(-1)
    asked.push(data.request_ids.length)
    await phone.requests.at(-1).answer(200, {})
  }
  assert.deepEqual([asked, phone.storage.feedbackStates], [[500, 500, 203], {}])
})
