/**
 * The network that answers without a connection, in a browser: a worker fetches, keeps and runs it (offline_worker.js), so
 * that the page does not wait. services/inference.js does the same in WeChat.
 *
 * @typedef {import('../../../../miniprogram/services/offline').Network} Network
 */

/** TensorFlow.js is compiled for instructions on 128 bits; this module has one. */
const SIMD = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11)

/** A download of which nothing comes for so long is ended. */
const SILENCE_MS = 60 * 1000

/** @type {Worker | null} */
let worker = null

/** Of each open question: tells it that the worker has ended. @type {Set<(error: Error) => void>} */
const open = new Set()

/** As services/inference.js. */
export const offlineNetwork = {
  /** Not by plain http, where browsers have no cache. */
  isPossible: () => 'caches' in globalThis && WebAssembly.validate(SIMD),
  bytesOf: ({ files }) => files['model.json'].bytes + files['weights.bin'].bytes,
  keep: (network, headers, tell) => ask({ network, headers }, SILENCE_MS, (come) => tell(come / network.bytes)),
  forget() {
    end(new Error('forgotten'))
    return caches.delete('offline')
  },
  run: (network, picture, silenceMs) => ask({ network, picture }, silenceMs),
}

/** Ends the worker and all that it was asked. The next question begins another one. */
function end(error) {
  worker?.terminate()
  worker = null
  for (const tell of open) tell(error)
}

/**
 * @param {any} question
 * @param {number} silenceMs  after so long without a word the worker is ended, and the error is of the kind 'timeout'
 * @param {(bytes: number) => void} [tell]  of those that have come
 */
function ask(question, silenceMs, tell) {
  worker ??= Object.assign(new Worker('offline.js'), {
    onerror: ({ message }) => end(new Error(message || 'the worker cannot be started')),
  })
  const { port1, port2 } = new MessageChannel()
  let timer
  const hear = () => {
    clearTimeout(timer)
    timer = setTimeout(() => end(Object.assign(new Error('the worker does not answer'), { kind: 'timeout' })), silenceMs)
  }
  let fail
  return new Promise((resolve, reject) => {
    fail = reject
    open.add(fail)
    hear()
    port1.onmessage = ({ data: { come, claim, error } }) => {
      if (come) {
        tell(come)
        hear()
      } else if (error) reject(new Error(error))
      else resolve(claim)
    }
    worker.postMessage(question, [port2])
  }).finally(() => {
    clearTimeout(timer)
    open.delete(fail)
    port1.close()
  })
}
