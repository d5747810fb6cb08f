/** Choosing, measuring and saving pictures. Videos are not offered. */
import { api } from './api.js'
import { askSource, hasWebcam, takePhoto, tellThatThereIsNone } from '../webcam.js'
import { addTemporary, read } from './file_store.js'

export const media = {
  chooseMedia: api('chooseMedia', async ({ sourceType = ['album', 'camera'], count = 9 }) => {
    const isAsked = sourceType.length > 1 && hasWebcam()
    const onlyCamera = (isAsked ? await askSource() : sourceType.join()) === 'camera'
    if (onlyCamera && !hasWebcam()) tellThatThereIsNone()
    const files = onlyCamera && hasWebcam() ? [await takePhoto()] : await pickFiles(onlyCamera, count)
    const tempFiles = files.slice(0, count).map((file) => ({ tempFilePath: addTemporary(file), size: file.size, fileType: 'image' }))
    return { type: 'image', tempFiles }
  }),
  getImageInfo: api('getImageInfo', async ({ src }) => {
    const blob = await read(src)
    // "up": whatever its EXIF says, a browser only ever shows the upright picture
    const bitmap = await createImageBitmap(blob, { imageOrientation: 'from-image' })
    const { width, height } = bitmap
    bitmap.close()
    return { width, height, path: src, orientation: 'up', type: blob.type.replace('image/', '') }
  }),
  saveImageToPhotosAlbum: api('saveImageToPhotosAlbum', async ({ filePath }) => download(await read(filePath))),
}

let leaveDialog = () => {}

/**
 * Opens the browser's file dialog; on a phone, the camera where only that is asked for. Some browsers do not
 * tell when a dialog is left, so the next one ends it.
 */
function pickFiles(onlyCamera, count) {
  leaveDialog()
  const input = Object.assign(document.createElement('input'), { type: 'file', accept: 'image/*', hidden: true })
  if (onlyCamera) input.setAttribute('capture', 'environment')
  else input.multiple = count > 1
  document.body.append(input) // Safari forgets an input that is not in the page
  return new Promise((resolve, reject) => {
    leaveDialog = () => reject(new Error('cancel'))
    input.addEventListener('change', () => resolve([...input.files]))
    input.addEventListener('cancel', leaveDialog)
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
