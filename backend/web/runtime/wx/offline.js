/**
 * The network that answers without a connection, in a browser: a worker fetches, keeps and runs it (offline_worker.js), so
 * that the page does not wait. services/inference.js does the same in WeChat.
 */

/** TensorFlow.js is compiled for instructions on 128 bits; this module has one. */
const SIMD = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11)

/** Without a word for so long a worker is ended: while it fetches, and while it runs the network. */
const FETCH_SILENCE_MS = 60 * 1000
const RUN_SILENCE_MS = 20 * 1000

/** @type {Worker | null} */
let worker = null

/** As services/inference.js. */
export const offlineNetwork = {
  FILES: ['model.json', 'weights.bin'],
  /** Not by plain http, where browsers have no cache. */
  isPossible: () => 'caches' in globalThis && WebAssembly.validate(SIMD),
  fetch: (network, headers, tell) => ask({ network, headers }, FETCH_SILENCE_MS, tell),
  classify: (network, picture) => ask({ network, picture }, RUN_SILENCE_MS),
  forget() {
    end(new Error('forgotten'))
    return caches.delete('offline')
  },
}

/** What the worker was asked and has not answered. @type {Set<(error: Error) => void>} */
const open = new Set()

/** Ends the worker and all that it was asked. The next question begins another one. */
function end(error) {
  worker?.terminate()
  worker = null
  open.forEach((refuse) => refuse(error))
}

function begin() {
  worker = new Worker('offline.js')
  worker.onerror = ({ message }) => end(new Error(message || 'the worker cannot be started'))
}

/**
 * @param {number} silenceMs  after so long without a word the error is of the kind 'timeout'
 * @param {(bytes: number) => void} [tell]  of those that have come
 */
function ask(question, silenceMs, tell) {
  if (!worker) begin()
  const { port1, port2 } = new MessageChannel()
  worker.postMessage(question, [port2])
  let timer, refuse
  const hear = () => {
    clearTimeout(timer)
    timer = setTimeout(() => end(Object.assign(new Error('the worker does not answer'), { kind: 'timeout' })), silenceMs)
  }
  return new Promise((resolve, reject) => {
    hear()
    refuse = reject
    open.add(refuse)
    port1.onmessage = ({ data: { come, claim, error } }) => {
      if (error) return reject(new Error(error))
      if (!come) return resolve(claim)
      hear()
      return tell(come)
    }
  }).finally(() => {
    clearTimeout(timer)
    open.delete(refuse)
    port1.close()
  })
}
