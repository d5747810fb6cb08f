import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { GUESSES, Phone, settle } from './phone.mjs'

let phone, history
beforeEach(() => {
  phone = new Phone()
  phone.facts = null
  history = phone.service('history')
})

const SEEN = { state: 'breed', model: { name: 'm', version: 1 }, group: null, set: null, box: [0, 0, 1, 1], feedbackId: '' }
const sure = (place) => ({ ...SEEN, breeds: GUESSES.slice(place) })
const met = () => Object.keys(phone.service('met').all()).sort()
const BREEDS = GUESSES.map(({ id, name, name_zh }) => ({ id, name, name_zh, look_alikes: [] }))

/** The page of all breeds. */
async function breedsPage() {
  const page = phone.open('breeds')
  await phone.requests.filter(({ url }) => url.endsWith('/api/breeds')).at(-1).answer(200, { breeds: BREEDS })
  await settle()
  return page
}

test('breeds that were met stay so beyond the hundredth photo and a deleted one, until all is deleted', async () => {
  await history.add('old', sure(1), 'tmp/dog.jpg')
  for (let number = 0; number < 101; number++) await history.add(`s${number}`, sure(0), 'tmp/dog.jpg')
  assert.equal(history.find('old'), undefined)
  assert.match((await breedsPage()).data.line, /遇见过 2 个/)
  for (const { id } of history.list()) history.remove(id)
  const page = phone.open('history')
  assert.deepEqual([page.data.count, page.data.hasMet, met()], [0, true, ['n01', 'n02']])
  await page.onClear()
  assert.deepEqual([met(), page.data.hasMet], [[], false])
})

test('of an earlier release what the history has was met', async () => {
  phone.storage.history = [{ id: 'a', time: 5, photo: 'usr/a.jpg', outcome: sure(2) }]
  await breedsPage()
  assert.deepEqual(phone.service('met').all(), { n03: { first: 5, last: 5 } })
})

test('every sure dog of a photo is met, and the page of each breed shows the photo around it', async () => {
  const dogs = [{ ...sure(0), box: [0, 0, 0.4, 1] }, { ...sure(1), box: [0.5, 0, 0.9, 1] }, { ...sure(2), state: 'unsure' }]
  await history.add('two', { ...dogs[0], dogs, chosen: 0 }, 'tmp/dog.jpg')
  assert.deepEqual(met(), ['n01', 'n02'])
  for (const [place, id] of ['n01', 'n02'].entries()) {
    const page = phone.open('breed', { id })
    await phone.requests.at(-1).answer(200, { breeds: BREEDS })
    await settle()
    assert.deepEqual(page.data.snaps.map((snap) => snap.id), ['two'])
    assert.match(page.data.snaps[0].focus, place ? /--x: 0.7;/ : /--x: 0.2;/)
  }
})

test('a breed that the user says is met, of each dog', async () => {
  const dogs = [sure(0), { ...sure(1), state: 'unsure' }]
  await history.add('a', { ...dogs[0], dogs, chosen: 0 }, 'tmp/dog.jpg')
  history.say('a', { verdict: '', breed: 'n04', name: 'redbone', name_zh: '' }, 1)
  assert.deepEqual(met(), ['n01', 'n04'])
})
