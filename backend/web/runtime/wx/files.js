/** wx.getFileSystemManager over the file store: the three calls the mini program makes. */
import { api } from './api.js'
import { keep, read, remove, USER_DATA_PATH } from './file_store.js'

const manager = {
  readFile: api('readFile', async ({ filePath }) => ({ data: await toBase64(await read(filePath)) })),
  copyFile: api('copyFile', async ({ srcPath, destPath }) => keep(destPath, await read(srcPath))),
  unlink: api('unlink', ({ filePath }) => remove(filePath)),
}

export const files = {
  env: { USER_DATA_PATH },
  getFileSystemManager: () => manager,
}

/** Standard base64, padded, without the data: prefix: the one encoding that is asked for. */
function toBase64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(',') + 1))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(blob)
  })
}
