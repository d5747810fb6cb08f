/**
 * The network that answers without a connection, in WeChat: an ONNX file among the user's, which WeChat's own inference
 * runs. backend/web/runtime/wx/offline.js does the same in a browser.
 *
 * @typedef {import('./offline').Network} Network
 */
const { claim } = require('./levels')
const { resample } = require('./resample')

const FILE = 'network.onnx'
const SILENCE_MS = 20 * 1000
const TIMEOUT_MS = 60 * 1000

/** Since base library 2.30.0. */
function isPossible() {
  return wx.canIUse('createInferenceSession')
}

/** How many bytes it has. @param {Network} network */
function bytesOf({ files }) {
  return files[FILE].bytes
}

/** WeChat takes files of this ending alone. @param {Network} network */
function pathOf({ digest }) {
  return `${wx.env.USER_DATA_PATH}/${digest}.onnx`
}

/**
 * Fetches it, whole or not at all.
 * @param {Network} network
 * @param {Record<string, string>} header
 * @param {(bytes: number) => void} tell  of those that have come
 */
async function keep(network, header, tell) {
  if (await isWhole(network)) return tell(bytesOf(network))
  try {
    const status = await download(network, header, tell)
    if (!(await isWhole(network))) throw new Error(`status ${status}, or another file than expected`)
  } catch (error) {
    await unlink(pathOf(network))
    throw error
  }
  await forget(network)
}

/** @returns {Promise<number>}  the status of the answer */
function download(network, header, tell) {
  return new Promise((resolve, reject) => {
    let before = 0
    const task = wx.downloadFile({
      url: `${network.address}/${FILE}`,
      filePath: pathOf(network),
      header,
      timeout: TIMEOUT_MS,
      success: ({ statusCode }) => resolve(statusCode),
      fail: reject,
    })
    task.onProgressUpdate(({ totalBytesWritten: come }) => {
      tell(come - before)
      before = come
    })
  })
}

/** @param {Network} network @returns {Promise<boolean>} */
function isWhole(network) {
  return new Promise((resolve) => {
    wx.getFileSystemManager().getFileInfo({
      filePath: pathOf(network),
      digestAlgorithm: 'sha1',
      success: ({ digest }) => resolve(digest === network.files[FILE].sha1),
      fail: () => resolve(false),
    })
  })
}

/** Deletes what lies there, but for one. @param {Network} [kept] @returns {Promise<void>} */
async function forget(kept) {
  const dirPath = wx.env.USER_DATA_PATH
  const files = await new Promise((resolve) => {
    wx.getFileSystemManager().readdir({ dirPath, success: (found) => resolve(found.files), fail: () => resolve([]) })
  })
  const paths = files.filter((name) => name.endsWith('.onnx')).map((name) => `${dirPath}/${name}`)
  await Promise.all(paths.filter((path) => !kept || path !== pathOf(kept)).map(unlink))
}

/** @param {string} filePath @returns {Promise<void>} */
function unlink(filePath) {
  return new Promise((resolve) => wx.getFileSystemManager().unlink({ filePath, complete: () => resolve() }))
}

/**
 * @param {Network} network
 * @param {import('./offline').Picture} picture
 * @returns {Promise<ReturnType<typeof claim>>}  what it claims; rejects where its file is gone, or it does not run here
 */
async function run(network, picture) {
  const { side } = network
  const session = wx.createInferenceSession({ model: pathOf(network) })
  try {
    await inTime((resolve, reject) => {
      session.onLoad(resolve)
      session.onError(reject)
    })
    const data = /** @type {ArrayBuffer} */ (resample(picture, side).buffer)
    const image = { type: 'float32', data, shape: [1, side, side, 3] }
    const { output0 } = await inTime((resolve, reject) => session.run({ image }).then(resolve, reject))
    return claim(Array.from(new Float32Array(output0.data)), network)
  } finally {
    session.destroy()
  }
}

/** @returns {Promise<any>} */
function inTime(act) {
  return new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error('the network does not answer')), SILENCE_MS)
    act(resolve, reject)
  })
}

module.exports = { isPossible, bytesOf, keep, forget, run }
