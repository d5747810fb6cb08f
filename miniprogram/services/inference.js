/**
 * The network that answers without a connection, in WeChat: an ONNX file among the user's, which WeChat's own inference
 * runs. backend/web/runtime/wx/offline.js does the same in a browser.
 *
 * @typedef {import('./offline').Network} Network
 */
const answered = require('./answered')
const { claim } = require('./levels')
const { resample } = require('./resample')

const FILE = 'network.onnx'
const TIMEOUT_MS = 60 * 1000

/** Since base library 2.30.0. */
function isPossible() {
  return wx.canIUse('createInferenceSession')
}

/** How many bytes it has. @param {Network} network */
function bytesOf({ files }) {
  return files[FILE].bytes
}

/** WeChat takes files of this ending alone. @param {{digest: string}} network */
function pathOf({ digest }) {
  return `${wx.env.USER_DATA_PATH}/${digest}.onnx`
}

/**
 * Fetches it; what was there before is deleted once it is whole.
 * @param {Network} network
 * @param {Record<string, string>} header
 * @param {(share: number) => void} tell  of its bytes, which have come
 */
async function keep(network, header, tell) {
  try {
    if (!(await isWhole(network))) await download(network, header, tell)
    if (!(await isWhole(network))) throw new Error('another file than expected')
  } catch (error) {
    remove(pathOf(network))
    throw error
  }
  forget(network)
}

/** Whatever the status of the answer. */
function download(network, header, tell) {
  return new Promise((success, fail) => {
    const task = wx.downloadFile({
      url: `${network.address}/${FILE}`,
      filePath: pathOf(network),
      header,
      timeout: TIMEOUT_MS,
      success,
      fail,
    })
    task.onProgressUpdate(({ totalBytesWritten }) => tell(totalBytesWritten / network.bytes))
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

/** Deletes what lies there, but for one. @param {{digest: string}} [kept] */
function forget(kept = { digest: '' }) {
  const paths = list().map((name) => `${wx.env.USER_DATA_PATH}/${name}`)
  paths.filter((path) => path.endsWith('.onnx') && path !== pathOf(kept)).forEach(remove)
}

/** @returns {string[]}  names of the user's files, as far as they can be read */
function list() {
  try {
    return wx.getFileSystemManager().readdirSync(wx.env.USER_DATA_PATH)
  } catch (error) {
    return []
  }
}

/** What cannot be deleted is left: the next download tries again. */
function remove(path) {
  wx.getFileSystemManager().unlink({ filePath: path, fail: () => {} })
}

/**
 * @param {Network} network
 * @param {import('./offline').Picture} picture
 * @param {number} silenceMs  after so long it is ended
 * @returns {Promise<ReturnType<typeof claim>>}  what it claims; rejects where its file is gone, or it does not run here; of kind 'timeout' where it is silent
 */
async function run(network, picture, silenceMs) {
  const session = wx.createInferenceSession({ model: pathOf(network) })
  try {
    const views = await answered(runLoaded(session, network, picture), silenceMs, 'timeout')
    return claim(views, network)
  } finally {
    session.destroy()
  }
}

/** @returns {Promise<number[][]>}  the scores for each part of the photo */
async function runLoaded(session, { side, parts }, picture) {
  await new Promise((resolve, reject) => {
    session.onLoad(resolve)
    session.onError(reject)
  })
  const views = []
  for (const part of parts) {
    const data = /** @type {ArrayBuffer} */ (resample(picture, side, part).buffer)
    const { output0 } = await session.run({ image: { type: 'float32', data, shape: [1, side, side, 3] } })
    views.push(Array.from(new Float32Array(output0.data)))
  }
  return views
}

module.exports = { isPossible, bytesOf, keep, forget, run }
