/**
 * A canvas for the phone of unit tests: pictures are grids of colours, and drawing moves colours from grid to grid,
 * through whatever transform is in force. No curves, no blending; words are taken and not drawn.
 */

/** Larger canvases are not painted: what counts of them is their size. */
const MOST_PAINTED_PIXELS = 256

/** @param {string[]} rows  one character a colour */
export function grid(rows) {
  return { width: rows[0].length, height: rows.length, at: (x, y) => rows[y][x] }
}

export function plain(width, height, colour = '.') {
  return { width, height, at: () => colour }
}

/** The picture with which the app finds out what a canvas does with EXIF. */
const SIDEWAYS = {
  ...plain(16, 8),
  at: (x) => (x < 8 ? 'white' : 'black'),
  orientation: 'right',
  upright: { ...plain(8, 16), at: (x, y) => (y < 8 ? 'white' : 'black') },
}

/** @param {import('./phone.mjs').Phone} phone  its `pictures` by path; whether it `turnsPictures` upright */
export function createCanvas(phone) {
  const canvas = { width: 300, height: 150, createImage: () => createImage(phone) }
  canvas.getContext = () => (canvas.context ??= createContext(canvas))
  return canvas
}

function createImage(phone) {
  const image = { onload() {}, onerror() {} }
  const show = (picture) => {
    image.picture = phone.turnsPictures && picture.upright ? picture.upright : picture
    Object.assign(image, { width: image.picture.width, height: image.picture.height })
    image.onload()
  }
  Object.defineProperty(image, 'src', {
    set(path) {
      phone.drawn.push(path)
      const picture = path.startsWith('data:') ? SIDEWAYS : phone.pictures[path]
      queueMicrotask(() => (picture ? show(picture) : image.onerror()))
    },
  })
  return image
}

const IDENTITY = [1, 0, 0, 1, 0, 0]

function createContext(canvas) {
  let matrix = IDENTITY
  const saved = []
  const pixels = []
  const paint = (colourAt) => {
    if (canvas.width * canvas.height > MOST_PAINTED_PIXELS) return
    for (let y = 0; y < canvas.height; y++) {
      pixels[y] ??= []
      for (let x = 0; x < canvas.width; x++) pixels[y][x] = colourAt(...back(matrix, x + 0.5, y + 0.5)) ?? pixels[y][x]
    }
  }
  const context = {
    save: () => saved.push(matrix),
    restore: () => (matrix = saved.pop()),
    transform: (...more) => (matrix = product(matrix, more)),
    fillRect: () => paint(() => (context.fillStyle === '#ffffff' ? 'white' : 'other')),
    drawImage: ({ picture }, left, top, width, height) =>
      paint((x, y) => {
        const [column, row] = [(x - left) / width, (y - top) / height]
        if (column < 0 || column >= 1 || row < 0 || row >= 1) return undefined
        return picture.at(Math.floor(column * picture.width), Math.floor(row * picture.height))
      }),
    getImageData: (x, y) => ({ data: [pixels[y][x] === 'black' ? 0 : 255] }),
    createLinearGradient: () => ({ addColorStop() {} }),
    measureText: (text) => ({ width: text.length }),
    fillText() {},
    rows: () => pixels.slice(0, canvas.height).map((row) => row.slice(0, canvas.width).join('')),
  }
  return context
}

/** First `inner`, then `outer`; numbers as in CanvasRenderingContext2D.transform(). */
function product([a, b, c, d, e, f], [g, h, i, j, k, l]) {
  return [a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * l + e, b * k + d * l + f]
}

/** The point that the transform takes to (x, y). */
function back([a, b, c, d, e, f], x, y) {
  const determinant = a * d - b * c
  return [(d * (x - e) - c * (y - f)) / determinant, (a * (y - f) - b * (x - e)) / determinant]
}
