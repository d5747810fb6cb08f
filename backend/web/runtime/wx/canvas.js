/** Drawing: finding a page's canvas, or where an element is, and making a file of what was drawn. */
import { api } from './api.js'
import { addressOf, addTemporary, read } from './file_store.js'

/** @param {() => import('../router.js').Router} router */
export function canvas(router) {
  return {
    createSelectorQuery: () => selectorQuery(router().top.root.getComponent().getShadowRoot()),
    canvasToTempFilePath: api('canvasToTempFilePath', toFile),
  }
}

/** As a JPEG, the one type that is asked for. */
async function toFile({ canvas, quality, destWidth, destHeight }) {
  const own = `${canvas.width} x ${canvas.height}`
  const wanted = `${destWidth ?? canvas.width} x ${destHeight ?? canvas.height}`
  if (wanted !== own) throw new Error(`a canvas of ${own} is only saved in that size here, not ${wanted}`)
  const blob = await new Promise((resolve) => {
    canvas.toBlob(resolve, 'image/jpeg', quality)
  })
  if (!blob) throw new Error('the canvas gives no picture')
  return { tempFilePath: addTemporary(blob) }
}

/**
 * @param {{querySelector: (selector: string) => {$$: HTMLElement} | null}} page  glass-easel's tree, because a page's ids
 *   are not in the DOM
 */
function selectorQuery(page) {
  const results = []
  const query = {
    select: (selector) => ({
      fields() {
        results.push(nodeOf(page.querySelector(selector)?.$$))
        return query
      },
    }),
    exec: (callback) => {
      queueMicrotask(() => callback(results))
    },
  }
  return query
}

function nodeOf(element) {
  if (!element) return null
  const { left, top, right, bottom, width, height } = element.getBoundingClientRect()
  const node = element.querySelector('canvas')
  if (node) node.createImage ??= createImage
  return { node, left, top, right, bottom, width, height }
}

/**
 * Like `new Image()`, but its src may also be one of the mini program's files, and '' lets go of the picture at once: what
 * an <img> was decoded to a browser keeps, 50 MB of a large photo. So a file is decoded to a canvas, but for the kinds that
 * only an <img> shows.
 */
function createImage() {
  const image = document.createElement('canvas')
  let wanted = ''
  Object.defineProperty(image, 'src', {
    get: () => wanted,
    async set(path) {
      wanted = path
      Object.assign(image, { width: 0, height: 0 })
      if (!path) return
      try {
        draw(await decode(path))
      } catch (error) {
        if (wanted === path) image.onerror?.(error)
        return
      }
      if (wanted === path) image.onload?.()
    },
  })
  return image

  function draw(picture) {
    const scale = Math.min(1, (image.longest ?? Infinity) / Math.max(picture.width, picture.height))
    const [width, height] = [picture.width, picture.height].map((side) => Math.max(1, Math.round(side * scale)))
    Object.assign(image, { width, height })
    const context = image.getContext('2d')
    context.imageSmoothingQuality = 'high'
    context.drawImage(picture, 0, 0, width, height)
    picture.close?.()
  }
}

/** @returns {Promise<ImageBitmap | HTMLImageElement>}  upright */
async function decode(path) {
  const { url, release } = await addressOf(path)
  try {
    const bitmap = await createImageBitmap(await blobOf(path)).catch(() => null)
    return bitmap ?? (await loaded(url))
  } finally {
    release()
  }
}

/** @returns {Promise<Blob>} */
async function blobOf(path) {
  if (!path.startsWith('data:')) return read(path)
  const [head, text] = path.split(',')
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  return new Blob([bytes], { type: head.slice('data:'.length).split(';')[0] })
}

function loaded(url) {
  const image = new Image()
  image.src = url
  return image.decode().then(() => image)
}
