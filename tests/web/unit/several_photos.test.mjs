import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { plain } from './canvas.mjs'
import { answerBody, GUESSES, Phone, settle } from './phone.mjs'

let phone, history
const PATHS = ['tmp/dog.jpg', 'tmp/two.jpg', 'tmp/three.jpg']
beforeEach(() => {
  phone = new Phone()
  history = phone.service('history')
  for (const path of PATHS) Object.assign(phone.files, { [path]: path }), (phone.pictures[path] = plain(800, 600))
  phone.chosen = PATHS
})

async function wait() {
  for (let turn = 0; turn < 8; turn++) await settle()
}

/** The page of three photos that were chosen at once, while the server looks at them. */
async function choosing() {
  await phone.open('home').onAlbum()
  assert.equal(phone.chooseOptions.count, 5)
  const page = phone.open('result', { id: phone.routes.at(-1).split('id=')[1] })
  await wait()
  return page
}

const classified = () => phone.requests.filter(({ url }) => url.endsWith('/api/classify'))
const photoOf = (breeds, box) => ({ dog: true, level: 'breed', breeds, box })
const joint = (changes) => answerBody({ level: 'breed', photos: [0, 1, 2].map((place) => photoOf(GUESSES.slice(place), [place / 10, 0, 1, 1])), feedback_id: 'f', ...changes })
const names = () => history.list().map(({ outcome }) => outcome && outcome.breeds[0].id).sort()

test('photos of one dog are asked about together, and each is kept with what they say and with its own box', async () => {
  const page = await choosing()
  assert.deepEqual(classified().map(({ data }) => data.images.length), [3])
  await classified()[0].answer(200, joint({ same_dog: true }))
  await wait()
  assert.deepEqual([page.data.state, page.data.answer.best.id], ['breed', 'n01'])
  assert.match(page.data.answer.together, /3 张/)
  assert.deepEqual(names(), ['n01', 'n01', 'n01'])
  assert.deepEqual(history.list().map(({ outcome }) => outcome.box[0]).sort(), [0, 0.1, 0.2])
  assert.deepEqual(history.list().map(({ outcome }) => outcome.feedbackId).sort(), ['', '', 'f'])
  assert.equal(classified().length, 1)
})

test('photos of different dogs have each their own answer', async () => {
  const page = await choosing()
  await classified()[0].answer(200, joint({ same_dog: false }))
  await wait()
  assert.match(page.data.answer.together, /不同的狗/)
  assert.deepEqual(names(), ['n01', 'n02', 'n03'])
})

test('a server that takes one photo alone is asked about each', async () => {
  const page = await choosing()
  await classified()[0].answer(400, { error: 'unknown field images' })
  await wait()
  assert.ok(classified()[1].data.image)
  phone.network = 'wifi'
  await classified()[1].answer(200, answerBody({ level: 'breed' }))
  await wait()
  assert.deepEqual([page.data.state, page.data.answer.together], ['breed', ''])
  assert.equal(history.list().filter(({ outcome }) => !outcome).length, 2) // they wait
  phone.service('waiting').send()
  await wait()
  assert.ok(classified()[2].data.image)
})

test('a file among them that is no photo takes no neighbour down, and has its own reason', async () => {
  delete phone.pictures[PATHS[1]]
  phone.network = 'wifi'
  const page = await choosing()
  await phone.requests.find(({ url }) => url.endsWith('/api/upright')).answer(415, { error: 'no photo' })
  await wait()
  assert.deepEqual(classified().map(({ data }) => data.images.length), [2])
  await classified()[0].answer(200, answerBody({ level: 'breed', photos: [photoOf(GUESSES), photoOf(GUESSES)], same_dog: true }))
  await wait()
  await phone.requests.filter(({ url }) => url.endsWith('/api/upright')).at(-1).answer(415, { error: 'no photo' })
  await wait()
  await classified()[1].answer(415, { error: 'no photo' })
  await wait()
  assert.equal(page.data.state, 'breed')
  assert.deepEqual(history.list().map(({ outcome }) => outcome.kind || outcome.breeds[0].id).sort(), ['n01', 'n01', 'notPhoto'])
})

for (const [status, model] of [[400], [413], [415], [422], [400, { model: 'inception_v3', version: 1 }]]) {
  test(`where ${model ? 'the chosen model' : 'the server'} refuses them together with ${status}, each is asked about alone, at once`, async () => {
    phone.network = 'wifi'
    if (model) phone.service('settings').change({ model })
    const page = await choosing()
    await classified()[0].answer(status, { error: 'images[1]' })
    await wait()
    for (const place of [1, 2, 3]) {
      assert.ok(classified()[place].data.image)
      await classified()[place].answer(200, answerBody({ level: 'breed' }))
      await wait()
    }
    assert.deepEqual([page.data.state, names()], ['breed', ['n01', 'n01', 'n01']])
  })
}

test('of several the first of which is no photo, the others are answered meanwhile', async () => {
  phone.network = 'wifi'
  const page = await choosing()
  await classified()[0].answer(415, { error: 'images[0]' })
  await wait()
  for (const place of [1, 2, 3]) {
    await classified()[place].answer(...(place === 1 ? [415, { error: 'no photo' }] : [200, answerBody({ level: 'breed' })]))
    await wait()
  }
  assert.deepEqual([page.data.state, page.data.failure.kind, names()], ['failed', 'notPhoto', ['n01', 'n01']])
})

test('without a connection all of them wait; one that cannot be read is told, and the others are answered', async () => {
  const page = await choosing()
  await classified()[0].lose('request:fail ')
  await wait()
  assert.deepEqual([page.data.state, Boolean(page.data.failure.waits)], ['failed', true])
  assert.deepEqual(names(), [null, null, null])
})

test('one photo alone is asked about as before, and the camera takes one', async () => {
  phone.chosen = 'tmp/dog.jpg'
  await choosing()
  assert.ok(classified()[0].data.image)
  await phone.open('home').onCamera()
  assert.equal(phone.chooseOptions.count, 1)
})

for (const [what, end] of [
  ['is lost', (request) => request.lose('request:fail ')],
  ['is refused', (request) => request.answer(415, { error: 'no photo' })],
]) {
  test(`a photo whose own request ${what} shows and keeps the answer that came with the others meanwhile`, async () => {
    const first = await choosing()
    first.onUnload()
    const { id } = history.list().find(({ id }) => id !== first.snapId)
    const second = phone.open('result', { id })
    await wait()
    await classified()[0].answer(200, joint({ same_dog: true }))
    await wait()
    await end(classified()[1])
    await wait()
    assert.equal(second.data.state, 'breed')
    assert.deepEqual(names(), ['n01', 'n01', 'n01'])
  })
}

test('cancel leaves those of several photos that have their answer', async () => {
  phone.network = 'wifi'
  const first = await choosing()
  first.onUnload()
  const [{ id }] = history.list().filter(({ id }) => id !== first.snapId)
  const second = phone.open('result', { id })
  await wait()
  await classified()[1].answer(200, answerBody({ level: 'breed' }))
  await wait()
  assert.equal(second.data.state, 'breed')
  const again = phone.open('result', { id: first.snapId })
  await wait()
  again.onCancel()
  await wait()
  assert.equal(history.find(id).outcome.breeds[0].id, 'n01')
  assert.equal(history.list().length, 3)
})
