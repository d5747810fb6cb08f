/**
 * The hidden canvas of the page in view, `<canvas id="drawing" type="2d">`: pictures are loaded for it, and what was
 * drawn becomes a JPEG file. What is drawn is for others to say. Who draws has the canvas alone.
 */
const answered = require('./answered')

const SELECTOR = '#drawing'

/** A JPEG of 16 x 8 pixels, left half white and right half black, that EXIF says to turn: then white is on top. */
const SIDEWAYS =
  'data:image/jpeg;base64,' +
  '/9j/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkz' +
  'ODdASFxOQERXRTc4UG1RV19iZ2hnPk1xeXBkeFxlZ2P/wAALCAAIABABAREA/8QAFQABAQAAAAAAAAAAAAAAAAAABwj/xAAUEAEA' +
  'AAAAAAAAAAAAAAAAAAAA/9oACAEBAAA/AEBP7//Z'

/** @type {Promise<any>}  the last use of the canvas */
let last = Promise.resolve()

/** @type {Promise<boolean> | null}  this phone's answer, once asked for */
let turning = null

/** @returns {Promise<any>}  the canvas; null before the page is ready */
function find() {
  const asked = new Promise((resolve) => {
    wx.createSelectorQuery()
      .select(SELECTOR)
      .fields({ node: true, size: true })
      .exec(([found]) => resolve(found && found.node))
  })
  return answered(asked).catch(() => null)
}

/**
 * @template T
 * @param {(canvas: any) => Promise<T>} draw  gets the canvas of the page in view, or null
 * @returns {Promise<T>}
 */
function use(draw) {
  const turn = last.then(async () => draw(await find()))
  last = turn.catch(() => {}).then(letGo)
  return turn
}

/** Pictures that were loaded for what is being drawn. @type {any[]} */
let loaded = []

/** A large photo takes 50 MB until somebody cleans up: at once, then. */
function letGo() {
  const silent = () => {}
  for (const image of loaded) Object.assign(image, { onload: silent, onerror: silent, src: '' })
  loaded = []
}

/**
 * @param {number} [longest]  pixels of its longest side that are enough: a browser then draws no more of them
 * @returns {Promise<any>}  the picture, or null when the phone cannot show it
 */
function load(canvas, src, longest) {
  const loading = new Promise((resolve, reject) => {
    const image = Object.assign(canvas.createImage(), { longest })
    loaded.push(image)
    image.onload = () => resolve(image)
    image.onerror = reject
    image.src = src
  })
  return answered(loading).catch(() => null)
}

/**
 * Whether this phone draws a photo upright by itself: some look at EXIF when they load a picture, some do not, and no
 * function tells. So a picture is drawn whose lower left corner is black only if it was turned.
 * @returns {Promise<boolean>}
 */
function turnsByItself(canvas) {
  if (!turning) turning = tryTurning(canvas)
  return turning
}

async function tryTurning(canvas) {
  const image = await load(canvas, SIDEWAYS)
  if (!image) return false
  const context = resize(canvas, 8, 8)
  context.drawImage(image, 0, 0, 8, 8)
  const [red] = context.getImageData(1, 6, 1, 1).data
  return red < 128
}

/**
 * Makes the canvas this large, in pixels, and white.
 * @returns {any}  its 2d context
 */
function resize(canvas, width, height) {
  canvas.width = width
  canvas.height = height
  const context = canvas.getContext('2d', { willReadFrequently: true })
  context.imageSmoothingQuality = 'high' // a photo that is six times as large leaves out five pixels of six otherwise
  context.fillStyle = '#ffffff'
  context.fillRect(0, 0, width, height)
  return context
}

/**
 * @param {any} canvas
 * @param {number} quality  0 to 1
 * @returns {Promise<string>}  temporary JPEG file, without EXIF
 */
async function save(canvas, quality) {
  const { width, height } = canvas
  const saving = wx.canvasToTempFilePath({
    canvas,
    width,
    height,
    destWidth: width, // else a phone multiplies by the density of its screen
    destHeight: height,
    fileType: 'jpg',
    quality,
  })
  const { tempFilePath } = await answered(saving)
  return tempFilePath
}

/**
 * Whether this canvas can be read: where a browser hides what is drawn, reading gives white or noise.
 * @param {any} canvas
 */
function isReadable(canvas) {
  const context = resize(canvas, 2, 1)
  context.fillStyle = '#000000'
  context.fillRect(0, 0, 1, 1)
  const pixels = context.getImageData(0, 0, 2, 1).data
  return pixels.length < 8 || (pixels[0] < 64 && pixels[4] > 192)
}

/** @returns {number[]}  red, green and blue of all its pixels, 0 to 255 */
function read(canvas) {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  return Array.from(data).filter((_, index) => index % 4 < 3)
}

module.exports = { find, use, load, turnsByItself, resize, save, isReadable, read }
