import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'

/** A worker that answers each question by its port, when it is told to. */
class FakeWorker extends EventTarget {
  constructor() {
    super()
    workers.push(this)
  }
  ports = []
  listeners = 0
  isEnded = false
  postMessage(question, [port]) {
    this.ports.push(port)
  }
  addEventListener(...listener) {
    this.listeners += 1
    super.addEventListener(...listener)
  }
  terminate() {
    this.isEnded = true
  }
}

let workers
beforeEach(() => {
  workers = []
  Object.assign(globalThis, { Worker: FakeWorker, caches: { delete: async () => true } })
})

const { offlineNetwork } = await import('../../../backend/web/runtime/wx/offline.js')
const ask = () => offlineNetwork.classify({}, {})
const answer = (place) => workers.at(-1).ports[place].postMessage({ claim: place })

test('one worker answers all questions, and nothing of them stays with it', async () => {
  for (const place of [0, 1, 2]) {
    const asked = ask()
    answer(place)
    assert.equal(await asked, place)
  }
  assert.deepEqual([workers.length, workers[0].listeners], [1, 0])
  await offlineNetwork.forget()
  assert.equal(workers[0].isEnded, true)
})

test('a worker that is forgotten or fails refuses all that it was asked, and the next question begins another one', async () => {
  const asked = [ask(), ask()]
  offlineNetwork.forget()
  for (const each of asked) await assert.rejects(each, /forgotten/)
  const next = ask()
  workers.at(-1).onerror({ message: 'no such file' })
  await assert.rejects(next, /no such file/)
  assert.deepEqual(workers.map(({ isEnded }) => isEnded), [true, true])
})
