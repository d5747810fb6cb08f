/**
 * Fetches, keeps and runs the network that answers without a connection, beside the page. Its files lie in the browser's
 * cache; what runs it is TensorFlow.js with its WebAssembly backend.
 */
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm'
import { loadGraphModel } from '@tensorflow/tfjs-converter'
import { io, setBackend, tensor, tidy } from '@tensorflow/tfjs-core'
import { claim } from '../../../miniprogram/services/levels.js'
import { resample } from '../../../miniprogram/services/resample.js'

/** By digest, what runs. @type {{digest?: string, model?: Promise<import('@tensorflow/tfjs-converter').GraphModel>}} */
let loaded = {}

/** Each question has its own port for the answer, and is about a picture, or is to fetch the network. */
self.onmessage = async ({ data: { network, headers, picture }, ports: [port] }) => {
  try {
    const act = picture ? classify(network, picture) : fetchAll(network, headers, (come) => port.postMessage({ come }))
    port.postMessage({ claim: await act })
  } catch (error) {
    loaded = {}
    port.postMessage({ error: String(error) })
  }
}

/** Each file is there whole or not at all, also where an earlier window was ended meanwhile. */
async function fetchAll({ digest, address, files }, headers, tell) {
  const cache = await caches.open('offline')
  await cache.addAll(['offline.js', 'offline.wasm']) // the service worker hands out from it what this worker consists of
  let come = 0
  const hear = (bytes) => tell((come += bytes))
  for (const [name, { bytes, sha1 }] of Object.entries(files)) {
    const path = `${address}/${name}`
    if (await cache.match(path)) hear(bytes)
    else await cache.put(path, await download(path, sha1, headers, hear))
  }
  const former = (await cache.keys()).filter(({ url }) => url.includes('/api/offline/') && !url.includes(digest))
  await Promise.all(former.map((request) => cache.delete(request)))
}

/** @returns {Promise<Response>} */
async function download(address, sha1, headers, tell) {
  const { body } = await fetch(address, { headers })
  const counter = new TransformStream({
    transform(part, controller) {
      tell(part.length)
      controller.enqueue(part)
    },
  })
  const file = await new Response(body.pipeThrough(counter)).arrayBuffer()
  if ((await sha1Of(file)) !== sha1) throw new Error(`another file than expected: ${address}`)
  return new Response(file)
}

async function sha1Of(file) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-1', file))
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

async function classify(network, picture) {
  const { digest, side, parts } = network
  if (loaded.digest !== digest) loaded = { digest, model: load(network) }
  const model = await loaded.model
  const look = (part) => tidy(() => model.predict(tensor(resample(picture, side, part), [1, side, side, 3])).dataSync())
  return claim(parts.map((part) => Array.from(look(part))), network)
}

async function load({ address }) {
  // It asks for all three, and takes that for instructions on 128 bits without threads.
  setWasmPaths(Object.fromEntries(['', '-simd', '-threaded-simd'].map((kind) => [`tfjs-backend-wasm${kind}.wasm`, 'offline.wasm'])))
  await setBackend('wasm')
  return loadGraphModel(io.http(`${address}/model.json`, { fetchFunc: (path) => caches.match(path) }))
}
