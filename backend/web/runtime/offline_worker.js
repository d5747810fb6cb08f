/** Runs the network that answers without a connection, beside the page: TensorFlow.js with its WebAssembly backend. */
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm'
import { loadGraphModel } from '@tensorflow/tfjs-converter'
import { io, ready, setBackend, tensor, tidy } from '@tensorflow/tfjs-core'
import { claim } from '../../../miniprogram/services/levels.js'
import { resample } from '../../../miniprogram/services/resample.js'

/** @type {Promise<import('@tensorflow/tfjs-converter').GraphModel>} */
let loaded

/** The first message has the network's files, each has its description and a picture. */
self.onmessage = async ({ data: { model, weights, description, picture } }) => {
  try {
    loaded ??= load(model, weights)
    const network = await loaded
    const { side } = description
    const logits = tidy(() => network.predict(tensor(resample(picture, side), [1, side, side, 3])).dataSync())
    self.postMessage({ claim: claim(Array.from(logits), description) })
  } catch (error) {
    self.postMessage({ error: String(error) })
  }
}

async function load(model, weightData) {
  // It asks for all three, and takes that for instructions on 128 bits without threads.
  setWasmPaths(Object.fromEntries(['', '-simd', '-threaded-simd'].map((kind) => [`tfjs-backend-wasm${kind}.wasm`, 'offline.wasm'])))
  await setBackend('wasm')
  await ready()
  const { modelTopology, weightsManifest } = JSON.parse(model)
  const [{ weights: weightSpecs }] = weightsManifest
  return loadGraphModel(io.fromMemory({ modelTopology, weightSpecs, weightData }))
}
