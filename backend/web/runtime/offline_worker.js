/**
 * Fetches, keeps and runs the network that answers without a connection, beside the page. Its files lie in the browser's
 * cache; what runs it is TensorFlow.js with its WebAssembly backend.
 */
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm'
import { loadGraphModel } from '@tensorflow/tfjs-converter'
import { io, ready, setBackend, tensor, tidy } from '@tensorflow/tfjs-core'
import { claim } from '../../../miniprogram/services/levels.js'
import { resample } from '../../../miniprogram/services/resample.js'

/** Of the browser's cache. The service worker hands out from it what this worker consists of. */
const CACHE = 'offline'
const LIBRARY = ['offline.js', 'offline.wasm']

/** Of the network. */
const FILES = ['model.json', 'weights.bin']

/** By digest, what runs. @type {{digest?: string, model?: Promise<import('@tensorflow/tfjs-converter').GraphModel>}} */
let loaded = {}

/** Each question has its own port for the answer, and is about a picture, or is to fetch the network. */
self.onmessage = async ({ data: { network, headers, picture }, ports: [port] }) => {
  try {
    const act = picture ? run(network, picture) : keep(network, headers, (come) => port.postMessage({ come }))
    port.postMessage({ claim: await act })
  } catch (error) {
    loaded = {}
    port.postMessage({ error: String(error) })
  }
}

/** Each file is there whole or not at all. */
async function keep({ digest, address, files }, headers, tell) {
  const cache = await caches.open(CACHE)
  await cache.addAll(LIBRARY)
  let come = 0
  for (const name of FILES) {
    const path = `${address}/${name}`
    const hear = (bytes) => tell((come += bytes))
    if (await cache.match(path)) {
      hear(files[name].bytes) // it was whole
      continue
    }
    const file = await download(path, headers, hear)
    if ((await sha1Of(file)) !== files[name].sha1) throw new Error(`${name} is another file than expected`)
    await cache.put(path, new Response(file))
  }
  const former = (await cache.keys()).filter(({ url }) => url.includes('/api/offline/') && !url.includes(digest))
  await Promise.all(former.map((request) => cache.delete(request)))
}

/** @returns {Promise<ArrayBuffer>} */
async function download(address, headers, tell) {
  const { body } = await fetch(address, { headers })
  const counter = new TransformStream({
    transform(part, controller) {
      tell(part.length)
      controller.enqueue(part)
    },
  })
  return new Response(body.pipeThrough(counter)).arrayBuffer()
}

async function sha1Of(file) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-1', file))
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

async function run(network, picture) {
  const { digest, side, parts } = network
  if (loaded.digest !== digest) loaded = { digest, model: load(network) }
  const model = await loaded.model
  const look = (part) => tidy(() => model.predict(tensor(resample(picture, side, part), [1, side, side, 3])).dataSync())
  const views = parts.map((part) => Array.from(look(part)))
  return claim(views, network)
}

async function load({ address }) {
  const cache = await caches.open(CACHE)
  const [description, weights] = await Promise.all(FILES.map((name) => cache.match(`${address}/${name}`)))
  // It asks for all three, and takes that for instructions on 128 bits without threads.
  setWasmPaths(Object.fromEntries(['', '-simd', '-threaded-simd'].map((kind) => [`tfjs-backend-wasm${kind}.wasm`, 'offline.wasm'])))
  await setBackend('wasm')
  await ready()
  const { modelTopology, weightsManifest } = await description.json()
  const [{ weights: weightSpecs }] = weightsManifest
  return loadGraphModel(io.fromMemory({ modelTopology, weightSpecs, weightData: await weights.arrayBuffer() }))
}
