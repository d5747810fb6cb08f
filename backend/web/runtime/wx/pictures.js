/** Decoding and encoding pictures with the browser's own codecs. Every decoded picture is upright, whatever its EXIF says. */
import { read } from './file_store.js'

/** @returns {Promise<ImageBitmap>}  rejects when the browser cannot decode the file */
export async function decode(path) {
  return createImageBitmap(await read(path), { imageOrientation: 'from-image' })
}

/** @returns {Promise<Blob>}  a JPEG of the given size in pixels; quality 0 to 100 */
export function encodeJpeg(bitmap, width, height, quality) {
  const canvas = Object.assign(document.createElement('canvas'), { width, height })
  const context = canvas.getContext('2d')
  context.fillStyle = '#fff' // JPEG has no transparency; without this it would turn black
  context.fillRect(0, 0, width, height)
  context.imageSmoothingQuality = 'high'
  context.drawImage(bitmap, 0, 0, width, height)
  return new Promise((resolve) => { canvas.toBlob(resolve, 'image/jpeg', quality / 100) })
}
