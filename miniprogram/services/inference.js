/**
 * The network that answers without a connection, in WeChat: an ONNX file among the user's, which WeChat's own inference
 * runs. backend/web/runtime/wx/offline.js does the same in a browser.
 */
const answered = require('./answered')
const { claim } = require('./levels')
const promised = require('./promised')
const { resample } = require('./resample')

const FILE = 'network.onnx'
/** WeChat runs files of this ending alone. */
const PATH = `${wx.env.USER_DATA_PATH}/${FILE}`
const TIMEOUT_MS = 60 * 1000
const SILENCE_MS = 20 * 1000

/** WeChat on a computer may have no inference, whatever its base library. */
function isPossible() {
  return wx.canIUse('createInferenceSession')
}

/**
 * The file that is there answers until another one is whole.
 * @param {import('./offline').Network} network
 * @param {Record<string, string>} header
 * @param {(bytes: number) => void} tell  of those that have come
 */
async function fetch(network, header, tell) {
  if (await isOf(network, PATH)) return
  const { tempFilePath } = await promised((told) => {
    const task = wx.downloadFile({ url: `${network.address}/${FILE}`, header, timeout: TIMEOUT_MS, ...told })
    task.onProgressUpdate(({ totalBytesWritten }) => tell(totalBytesWritten))
  })
  if (!(await isOf(network, tempFilePath))) throw new Error('another file than expected') // whatever the status of the answer
  await promised((told) => wx.getFileSystemManager().copyFile({ srcPath: tempFilePath, destPath: PATH, ...told }))
}

/** Whether a file is this network's. @returns {Promise<boolean>} */
async function isOf(network, filePath) {
  const asked = promised((told) => wx.getFileSystemManager().getFileInfo({ filePath, digestAlgorithm: 'sha1', ...told }))
  const { digest } = await asked.catch(() => ({ digest: '' }))
  return digest === network.files[FILE].sha1
}

/** A file that cannot be deleted is replaced by the next one. */
function forget() {
  wx.getFileSystemManager().unlink({ filePath: PATH, fail: () => {} })
}

/**
 * @param {import('./offline').Network} network
 * @param {import('./offline').Picture} picture
 * @returns {Promise<ReturnType<typeof claim>>}  what it claims; rejects where its file is gone, or it does not run here; of kind 'timeout' where it is silent
 */
async function classify(network, picture) {
  if (!(await answered(isOf(network, PATH)))) throw new Error('its file is gone')
  const session = wx.createInferenceSession({ model: PATH })
  try {
    return claim(await answered(look(session, network, picture), SILENCE_MS, 'timeout'), network)
  } finally {
    session.destroy()
  }
}

/** @returns {Promise<number[][]>}  the scores for each part of the photo */
async function look(session, { side, parts }, picture) {
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

module.exports = { FILES: [FILE], isPossible, fetch, forget, classify }
