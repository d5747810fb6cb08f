/** Choosing, measuring, shrinking and saving pictures. Several at once, and videos, are not offered. */
import { api } from './api.js'
import { addTemporary, read } from './file_store.js'
import { decode, encodeJpeg } from './pictures.js'

export const media = {
  chooseMedia: api('chooseMedia', async ({ sourceType = ['album', 'camera'] }) => {
    const file = await pickFile(sourceType)
    return { type: 'image', tempFiles: [{ tempFilePath: addTemporary(file), size: file.size, fileType: 'image' }] }
  }),
  getImageInfo: api('getImageInfo', async ({ src }) => {
    const [bitmap, blob] = [await decode(src), await read(src)]
    // "up": width and height below are already those of the upright picture, which is all this browser ever sees
    return {
      width: bitmap.width,
      height: bitmap.height,
      path: src,
      orientation: 'up',
      type: blob.type.replace('image/', ''),
    }
  }),
  compressImage: api('compressImage', async ({ src, quality = 80, compressedWidth, compressedHeight }) => {
    const bitmap = await decode(src)
    const { width, height } = targetSize(bitmap, compressedWidth, compressedHeight)
    return { tempFilePath: addTemporary(await encodeJpeg(bitmap, width, height, quality)) }
  }),
  saveImageToPhotosAlbum: api('saveImageToPhotosAlbum', async ({ filePath }) => download(await read(filePath))),
}

/** One size alone keeps the proportions, as in WeChat. */
function targetSize(bitmap, width, height) {
  if (width && height) return { width, height }
  if (width) return { width, height: Math.round((bitmap.height * width) / bitmap.width) }
  if (height) return { width: Math.round((bitmap.width * height) / bitmap.height), height }
  return { width: bitmap.width, height: bitmap.height }
}

/** Opens the browser's file dialog; on a phone, the camera when that is the only source asked for. */
function pickFile(sourceType) {
  const input = Object.assign(document.createElement('input'), { type: 'file', accept: 'image/*', hidden: true })
  if (sourceType.length === 1 && sourceType[0] === 'camera') input.setAttribute('capture', 'environment')
  document.body.append(input) // Safari forgets an input that is not in the page
  return new Promise((resolve, reject) => {
    input.addEventListener('change', () => resolve(input.files[0]))
    input.addEventListener('cancel', () => reject(new Error('cancel')))
    input.click()
  }).finally(() => input.remove())
}

/** A browser has no album to write to: the picture goes where downloads go. */
function download(blob) {
  const link = Object.assign(document.createElement('a'), {
    href: URL.createObjectURL(blob),
    download: `dogsnap-${Date.now()}.jpg`,
  })
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000) // long enough for the slowest "save as" dialog to start
}
