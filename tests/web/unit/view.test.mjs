import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerBody, GUESSES, HUSKY, LEVELS, Phone } from './phone.mjs'

/** The view of an answer of the server, in a language. */
function viewOf(changes, language = 'en', { said = null, feedback = 'open' } = {}, facts = []) {
  const phone = new Phone()
  Object.assign(phone, { language, storage: { breeds: facts } })
  const { text } = phone.open('result').data
  const { feedback_asked: asked = false, group = null, set = null, box = null, ...body } = answerBody(changes)
  const outcome = { ...body, group, set, box, asked, state: body.level ?? 'breed', feedbackId: 'f' }
  return phone.service('view').of({ outcome, entry: { outcome, said }, feedback }, { text, language, areDogs: true }).answer
}

const SHOWN = {
  breed: { headline: 'Golden retriever', lead: 'Most likely', rows: 4, best: 'n01', isOne: true },
  group: { headline: 'Husky', lead: 'Very likely one of these look-alikes', rows: 2, best: '', isOne: true },
  set: { headline: 'Golden retriever or Labrador retriever', lead: 'Probably', rows: 2, best: '', isOne: false },
  unsure: { headline: 'Not sure: Golden retriever?', lead: '', rows: 3, best: '', isOne: false },
  unknown: { headline: "Perhaps a breed I don't know", lead: '', rows: 3, best: '', isOne: false },
  no_dog: { headline: 'No dog seen', lead: '', rows: 3, best: '', isOne: false },
}
for (const [level, { headline, lead, rows, best, isOne }] of Object.entries(SHOWN)) {
  test(`an answer of the level "${level}" is shown whole, whatever was shown before`, () => {
    const view = viewOf(LEVELS[level])
    const shown = [view.state, view.headline, view.lead, view.best?.id ?? '', view.isOne]
    assert.deepEqual(shown, [level, headline, lead, best, isOne])
    assert.ok(view.rows.length <= rows && view.rows.length > 0)
    assert.deepEqual(Object.keys(view).sort(), Object.keys(viewOf(LEVELS.breed)).sort())
  })
}

test('the row under a breed says that it has a page, where nothing more is known', () => {
  assert.equal(viewOf(LEVELS.breed).about, 'About this breed')
  const facts = [{ id: 'n01', name: 'golden retriever', name_zh: '' }]
  assert.equal(viewOf(LEVELS.breed, 'en', {}, facts).about, 'About this breed')
  assert.equal(viewOf(LEVELS.breed, 'en', {}, [{ ...facts[0], size: 'large' }]).about, 'Large')
})

test('the same answer gives the same view', () => {
  assert.deepEqual(viewOf({ ...LEVELS.group, feedback_asked: true }), viewOf({ ...LEVELS.group, feedback_asked: true }))
})

test('a question is asked as one would say it', () => {
  const questions = [
    ['golden retriever', 'Is it a golden retriever?'],
    ['Airedale terrier', 'Is it an Airedale terrier?'],
    ['otterhound', 'Is it an otterhound?'],
    ['Eurasier', 'Is it a Eurasier?'],
  ]
  for (const [name, question] of questions) {
    const breeds = [{ ...GUESSES[0], name }]
    assert.equal(viewOf({ level: 'breed', breeds, feedback_asked: true }).question, question)
  }
  assert.equal(viewOf({ ...LEVELS.breed, feedback_asked: true }, 'zh').question, '是金毛寻回犬吗？')
  assert.equal(viewOf({ ...LEVELS.no_dog, feedback_asked: true }).question, 'Is there really no dog?')
  assert.equal(viewOf({ ...LEVELS.breed, feedback_asked: false }).question, '')
})

test('what the user said can be shared where the answer itself names nothing', () => {
  const said = { verdict: '', breed: 'n04', name: 'redbone', name_zh: '' }
  const view = viewOf(LEVELS.unsure, 'en', { said, feedback: 'given' })
  assert.deepEqual([view.isOne, view.said, view.feedback], [true, 'You said: Redbone', 'given'])
})

test('what is shared is what the user said, else all that the answer names', () => {
  const said = { verdict: '', breed: 'n04', name: 'redbone', name_zh: '' }
  const both = [GUESSES, GUESSES.slice(1)].map((breeds) => ({ state: 'breed', breeds, group: null, set: null, box: [0, 0, 1, 1], feedbackId: '' }))
  const several = { level: 'breed', dogs: both, chosen: 0 }
  const shared = (...view) => viewOf(...view).card?.message
  assert.equal(shared(LEVELS.breed), 'Most likely: Golden retriever (93%)')
  assert.equal(shared(several), 'Two dogs: Golden retriever · Labrador retriever')
  assert.equal(shared(several, 'en', { said }), 'You said: Redbone')
  assert.equal(shared(LEVELS.unsure, 'en', { said }), 'You said: Redbone')
  assert.equal(shared(LEVELS.labels), 'Labrador retriever, Golden retriever')
  assert.equal(shared(LEVELS.unsure), undefined)
})

test('a failure tells what happened, and what to do only where that does not happen by itself', () => {
  const phone = new Phone()
  phone.language = 'en'
  const { text } = phone.open('result').data
  const known = (problem, waits) => ({ outcome: null, problem, entry: waits ? { outcome: null } : undefined, feedback: '' })
  const problem = (failure, waits) => phone.service('view').of(known(failure, waits), { text, language: 'en', areDogs: true }).failure
  assert.equal(problem({ kind: 'server' }, false).sentence, 'Something went wrong on the server. Please try again later.')
  assert.equal(problem({ kind: 'server' }, true).sentence, 'Something went wrong on the server.')
  assert.equal(problem({ kind: 'busy', retryAfter: 90 }, false).sentence, 'Too many people are asking right now. Please try again in 90 seconds.')
  assert.match(problem({ kind: 'busy', retryAfter: 90 }, true).waits, /90 seconds at the earliest/)
  assert.deepEqual([problem({ kind: 'noneReady' }, false).settings, problem({ kind: 'noModel' }, false).settings], [false, true])
  assert.equal(problem({}, false).kind, 'unexpected')
  assert.equal(problem({ kind: 'photoGone' }, false).retry, false)
  const refused = { state: 'refused', kind: 'notPhoto' }
  const later = { outcome: refused, problem: { kind: 'offline' }, entry: { outcome: refused }, feedback: '' }
  const shown = phone.service('view').of(later, { text, language: 'en', areDogs: true })
  assert.deepEqual([shown.failure.kind, shown.answer], ['notPhoto', null], 'not the problem from before')
})

test('a group whose one breed is nearly sure is told as that, with its look-alikes', () => {
  const breeds = GUESSES.map((guess, place) => ({ ...guess, probability: [0.92, 0.03, 0.02, 0.01][place] }))
  const view = viewOf({ level: 'group', group: HUSKY, breeds })
  assert.deepEqual([view.best.id, view.lead], ['n01', 'Very likely this one, or a look-alike'])
})
