import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { answerBody, GUESSES, Phone, settle, tap } from './phone.mjs'

const DOGS = [
  { level: 'breed', confident: true, breeds: GUESSES, group: null, set: null, box: [0, 0, 0.5, 1], feedback_id: 'f1' },
  { level: 'unsure', confident: false, breeds: [...GUESSES].reverse(), group: null, set: null, box: [0.6, 0.5, 1, 1], feedback_id: 'f2' },
]

let phone
beforeEach(() => {
  phone = new Phone()
})

async function answered(changes) {
  const page = phone.snap()
  await settle()
  await phone.requests.at(-1).answer(200, answerBody({ ...DOGS[0], ...changes }))
  await settle()
  return page
}

test('two dogs are told as two, each with a box, and the largest is the answer', async () => {
  const page = await answered({ dogs: DOGS, more_dogs: false })
  assert.equal(page.data.answer.dogsHeadline, '两只狗')
  assert.deepEqual(page.data.answer.dogs.map(({ isChosen }) => isChosen), [true, false])
  assert.match(page.data.answer.dogs[1].style, /left: 60.00%; top: 50.00%/)
  assert.equal(page.data.state, 'breed')
})

test('a tap on a dog shows its answer, which is kept with what was said of it', async () => {
  const page = await answered({ dogs: DOGS })
  page.onDog(tap({ place: 1 }))
  assert.equal(page.data.state, 'unsure')
  assert.equal(page.data.answer.rows[0].id, GUESSES.at(-1).id)
  assert.equal(page.outcome.feedbackId, 'f2')
  const again = phone.open('result', { id: page.snapId })
  await settle()
  assert.deepEqual([again.data.state, again.data.answer.dogs[1].isChosen], ['unsure', true])
  page.onDog(tap({ place: 0 }))
  assert.deepEqual([page.data.state, page.outcome.feedbackId], ['breed', 'f1'])
})

test('more dogs than four are told as more', async () => {
  assert.match((await answered({ dogs: [...DOGS, ...DOGS], more_dogs: true })).data.answer.dogsHeadline, /不止/)
})

test('one dog looks as without a list', async () => {
  const page = await answered({ dogs: DOGS.slice(0, 1) })
  assert.deepEqual([page.data.answer.dogs, page.data.answer.dogsHeadline], [[], ''])
})
