/** Runs the network that answers without a connection, beside the page: TensorFlow.js with its WebAssembly backend. */
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm'
import { loadGraphModel } from '@tensorflow/tfjs-converter'
import { io, ready, setBackend, tensor, tidy } from '@tensorflow/tfjs-core'

/** @type {Promise<import('@tensorflow/tfjs-converter').GraphModel>} */
let loaded

/** The first message has the network's files, each has the pixels of a picture (side, side, 3), 0 to 1. */
self.onmessage = async ({ data: { model, weights, pixels, side } }) => {
  try {
    loaded ??= load(model, weights)
    const network = await loaded
    const scores = tidy(() => network.predict(tensor(pixels, [1, side, side, 3])).dataSync())
    self.postMessage({ scores: Array.from(scores) })
  } catch (error) {
    self.postMessage({ error: String(error) })
  }
}

async function load(model, weightData) {
  setWasmPaths({ 'tfjs-backend-wasm-simd.wasm': 'offline.wasm' })
  await setBackend('wasm')
  await ready()
  const { modelTopology, weightsManifest } = JSON.parse(model)
  const [{ weights: weightSpecs }] = weightsManifest
  return loadGraphModel(io.fromMemory({ modelTopology, weightSpecs, weightData }))
}
