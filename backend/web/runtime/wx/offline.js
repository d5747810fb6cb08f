/**
 * The network that answers without a connection, in a browser: a worker fetches, keeps and runs it (offline_worker.js), so
 * that the page does not wait. services/inference.js does the same in WeChat.
 *
 * @typedef {import('../../../../miniprogram/services/offline').Network} Network
 */

/** TensorFlow.js is compiled for instructions on 128 bits; this module has one. */
const SIMD = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11)

/** @type {Worker | null} */
let worker = null

/** How many bytes it has. @param {Network} network */
const bytesOf = ({ files }) => files['model.json'].bytes + files['weights.bin'].bytes

/** As services/inference.js. */
export const offlineNetwork = {
  /** Not by plain http, where browsers have no cache. */
  isPossible: () => 'caches' in globalThis && WebAssembly.validate(SIMD),
  bytesOf,
  keep: (network, headers, tell) => ask({ network, headers }, (come) => tell(come / bytesOf(network))),
  forget: () => caches.delete('offline'),
  run: (network, picture) => ask({ network, picture }),
}

/** @param {any} question  @param {(bytes: number) => void} [tell]  of those that have come */
function ask(question, tell) {
  worker ??= new Worker('offline.js')
  const { port1, port2 } = new MessageChannel()
  return new Promise((resolve, reject) => {
    worker.onerror = ({ message }) => {
      worker = null
      reject(new Error(message || 'the worker cannot be started'))
    }
    port1.onmessage = ({ data: { come, claim, error } }) => {
      if (come) tell(come)
      else if (error) reject(new Error(error))
      else resolve(claim)
    }
    worker.postMessage(question, [port2])
  })
}
