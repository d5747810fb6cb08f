/** Pictures, by the browser's own codecs. Every decoded one is upright, whatever its EXIF says. */
import { read } from './file_store.js'

/** Decoding a phone's photo is the slowest step, and a photo is measured and then shrunk several times. */
const REMEMBER_MS = 5000

/** The picture decoded last: its path, and a promise of its bitmap. */
let last = { path: '', bitmap: Promise.resolve(null) }
let forgetting

/** @returns {Promise<ImageBitmap>}  rejects when the browser cannot read the file */
export function decode(path) {
  if (path !== last.path) {
    last = { path, bitmap: read(path).then((blob) => createImageBitmap(blob, { imageOrientation: 'from-image' })) }
  }
  clearTimeout(forgetting)
  forgetting = setTimeout(forget, REMEMBER_MS)
  return last.bitmap
}

/** A decoded picture takes 50 MB and more. It is let go, not closed: whoever asked for it may still be drawing it. */
function forget() {
  last = { path: '', bitmap: Promise.resolve(null) }
}

/** @returns {Promise<Blob>}  a JPEG of the given size in pixels; quality 0 to 100 */
export function encodeJpeg(bitmap, width, height, quality) {
  const canvas = Object.assign(document.createElement('canvas'), { width, height })
  const context = canvas.getContext('2d')
  context.fillStyle = '#fff' // JPEG has no transparency; without this it would turn black
  context.fillRect(0, 0, width, height)
  context.imageSmoothingQuality = 'high'
  context.drawImage(bitmap, 0, 0, width, height)
  return new Promise((resolve) => {
    canvas.toBlob(resolve, 'image/jpeg', quality / 100)
  })
}
