/** Drawing: finding a page's canvas, or where an element is, and making a file of what was drawn. */
import { api } from './api.js'
import { addTemporary, urlOf } from './file_store.js'

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

/** Like `new Image()`, but its src may also be one of the mini program's files. */
function createImage() {
  const image = new Image()
  const native = Object.getOwnPropertyDescriptor(HTMLImageElement.prototype, 'src')
  Object.defineProperty(image, 'src', {
    get: () => native.get.call(image),
    set: (path) => {
      urlOf(path).then(
        (url) => native.set.call(image, url),
        (error) => image.onerror?.(error),
      )
    },
  })
  return image
}
