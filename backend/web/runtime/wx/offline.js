/**
 * The network that answers without a connection, in a browser: its files lie in the browser's cache beside the app, and
 * TensorFlow.js runs it in a worker, so that the page does not wait. services/inference.js does the same in WeChat.
 *
 * @typedef {import('../../../../miniprogram/services/offline').Network} Network
 */

/** Of the browser's cache. The service worker hands out from it what the worker consists of. */
const CACHE = 'offline'
const LIBRARY = ['offline.js', 'offline.wasm']

/** Of the network. */
const FILES = ['model.json', 'weights.bin']

/** TensorFlow.js is compiled for instructions on 128 bits; this module has one. */
const SIMD = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11)

const SILENCE_MS = 20_000

/** @type {{digest: string, worker: Worker} | null}  what runs */
let running = null
let last = Promise.resolve()

export const offlineNetwork = {
  /** Not by plain http, where browsers have no cache. */
  isPossible: () => 'caches' in globalThis && 'Worker' in globalThis && WebAssembly.validate(SIMD),

  /** How many bytes it has. @param {Network} network */
  bytesOf: ({ files }) => FILES.reduce((sum, name) => sum + files[name].bytes, 0),

  /**
   * Fetches what is not there yet; each file is there whole or not at all. A browser ends what is fetched when its window
   * is left: that has not failed, and goes on at the next start.
   * @param {Network} network
   * @param {Record<string, string>} header
   * @param {(bytes: number) => void} tell  of those that have come
   */
  async keep(network, header, tell) {
    let isLeaving = false
    addEventListener('beforeunload', () => (isLeaving = true), { once: true })
    await fetchAll(network, header, tell).catch((error) => (isLeaving ? new Promise(() => {}) : Promise.reject(error)))
  },

  async forget() {
    stop()
    await caches.delete(CACHE)
  },

  /**
   * @param {Network} network
   * @param {import('../../../../miniprogram/services/offline').Picture} picture
   * @returns {Promise<any>}  what it claims, see services/levels.js; rejects where its files are gone, or it does not run here
   */
  run(network, picture) {
    const turn = last.then(() => ask(network, picture))
    last = turn.catch(stop)
    return turn
  },
}

/** @param {Network} network */
async function fetchAll({ address, files }, header, tell) {
  const cache = await caches.open(CACHE)
  await cache.addAll(LIBRARY)
  for (const name of FILES) {
    const place = `${address}/${name}`
    if (await cache.match(place)) tell(files[name].bytes)
    else await cache.put(place, new Response(await download(place, header, files[name].sha1, tell)))
  }
  const wanted = [...LIBRARY, ...FILES.map((name) => `${address}/${name}`)].map((file) => new URL(file, location.href).href)
  const former = (await cache.keys()).filter(({ url }) => !wanted.includes(url))
  await Promise.all(former.map((request) => cache.delete(request)))
}

function stop() {
  running?.worker.terminate()
  running = null
}

async function ask(network, picture) {
  const { digest, address } = network
  let files = {}
  if (running?.digest !== digest) {
    stop()
    files = await read(address)
    running = { digest, worker: new Worker('offline.js') }
  }
  const { worker } = running
  const claim = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => (data.claim ? resolve(data.claim) : reject(new Error(data.error)))
    worker.onerror = ({ message }) => reject(new Error(message || 'the worker cannot be started'))
    setTimeout(() => reject(new Error('the network does not answer')), SILENCE_MS)
  })
  worker.postMessage({ ...files, description: network, picture })
  return claim
}

/** @returns {Promise<{model: string, weights: ArrayBuffer}>} */
async function read(address) {
  const cache = await caches.open(CACHE)
  const [model, weights] = await Promise.all(FILES.map((name) => cache.match(`${address}/${name}`)))
  return { model: await model.text(), weights: await weights.arrayBuffer() }
}

/** @returns {Promise<Blob>}  rejects where it is another file than was expected */
async function download(address, headers, sha1, tell) {
  const response = await fetch(address, { headers })
  if (!response.ok) throw new Error(`${address}: status ${response.status}`)
  const parts = []
  const reader = response.body.getReader()
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value)
    tell(part.value.length)
  }
  const file = new Blob(parts)
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-1', await file.arrayBuffer()))
  if (Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') !== sha1) throw new Error(`${address}: another file`)
  return file
}
