/**
 * Photos on the phone: choosing one, and making of it the small upright JPEG that is sent and kept. It sends nothing.
 */
const answered = require('./answered')
const pageCanvas = require('./canvas')
const promised = require('./promised')
const { Failure } = require('./request')

/** Longest side in pixels: the network's input is 299 x 299, so more would only cost the user's data. */
const LONGEST_SIDE = 640

/** Pixels of the longest side: in less there is hardly a dog to see. */
const SMALLEST_SIDE = 64

/** JPEG qualities tried in turn until the photo is small enough. */
const QUALITIES = [0.78, 0.64, 0.5]
const ENOUGH_BYTES = 60 * 1000

/** A framed part keeps the photo's own pixels up to here; larger canvases fail on some phones. */
const LONGEST_PART = 2048
const PART_QUALITY = 0.92

/** Of the pictures that are compared: their longest side in pixels, and how far their colours may lie apart, 0 to 255. */
const SAMPLE_SIDE = 16
const ALIKE = 24
const NEARLY_WHITE = 250

/** A slow phone takes seconds for a large file. */
const FILE_SILENCE_MS = 20 * 1000

/** base64 writes three bytes as four characters. */
const BYTES_PER_CHARACTER = 3 / 4

/**
 * What undoes each EXIF orientation, as a canvas transform of a picture drawn `w` wide and `h` high; the numbers are
 * EXIF's own.
 * @type {Record<string, (w: number, h: number) => number[]>}
 */
const UPRIGHT = {
  up: () => [1, 0, 0, 1, 0, 0], // 1
  'up-mirrored': (w) => [-1, 0, 0, 1, w, 0], // 2
  down: (w, h) => [-1, 0, 0, -1, w, h], // 3
  'down-mirrored': (w, h) => [1, 0, 0, -1, 0, h], // 4
  'left-mirrored': () => [0, 1, 1, 0, 0, 0], // 5
  right: (w, h) => [0, 1, -1, 0, h, 0], // 6
  'right-mirrored': (w, h) => [0, -1, -1, 0, h, w], // 7
  left: (w) => [0, -1, 1, 0, 0, w], // 8
}
const WHOLE = { left: 0, top: 0, right: 1, bottom: 1 }
const ON_ITS_SIDE = ['left-mirrored', 'right', 'right-mirrored', 'left']

/** The server looks at as many photos of one dog. */
const MOST_AT_ONCE = 5

/**
 * Asks the user for photos of one dog.
 * @param {('camera' | 'album')[]} sources
 * @returns {Promise<string[]>}  temporary files, none when the user cancelled; rejects with an errMsg where camera or album
 *   may not be used
 */
async function choose(sources) {
  try {
    const { tempFiles } = await wx.chooseMedia({
      count: sources.includes('album') ? MOST_AT_ONCE : 1,
      mediaType: ['image'],
      sourceType: sources,
      sizeType: ['compressed'],
    })
    return tempFiles.map(({ tempFilePath }) => tempFilePath)
  } catch (error) {
    if (/cancel/.test(error.errMsg)) return []
    throw error
  }
}

/**
 * @param {string} path
 * @returns {Promise<{path: string, base64: string, tooSmall?: boolean, unshown?: boolean}>}  an upright JPEG without EXIF, longest side at most 640; base64 in
 *   the standard alphabet. A photo that this phone cannot show (HEIC in some browsers) stays as it is: the server knows
 *   more formats. So does one that this phone cannot draw: its canvas may be silent, or give white or noise.
 */
function prepare(path) {
  return pageCanvas.use(async (canvas) => {
    const image = canvas && (await pageCanvas.load(canvas, path, 2 * LONGEST_SIDE))
    if (!image) return { path, base64: await readBase64(path), unshown: true }
    const tooSmall = Math.max(image.width, image.height) < SMALLEST_SIDE
    const small = await shrink(canvas, image, path).catch(() => null)
    return Object.assign(small || { path, base64: await readBase64(path) }, { tooSmall })
  })
}

/** @returns {Promise<{path: string, base64: string} | null>}  null where it does not show what the photo shows */
async function shrink(canvas, image, path) {
  const orientation = await orientationOf(canvas, path)
  drawUpright(canvas, image, orientation, WHOLE, LONGEST_SIDE)
  const small = await encode(canvas)
  const copy = await pageCanvas.load(canvas, small.path)
  if (!copy || !pageCanvas.isReadable(canvas)) return null
  drawUpright(canvas, image, orientation, WHOLE, SAMPLE_SIDE)
  const colours = pageCanvas.read(canvas)
  drawUpright(canvas, copy, 'up', WHOLE, SAMPLE_SIDE)
  const copied = pageCanvas.read(canvas)
  const distance = colours.reduce((sum, colour, index) => sum + Math.abs(colour - copied[index]), 0)
  if (distance > ALIKE * colours.length) return null
  return colours.every((colour) => colour > NEARLY_WHITE) && !(await mayBeWhite(image, path)) ? null : small
}

/** A see-through drawing may be drawn as white; a large one or a JPEG had no room on the canvas. */
async function mayBeWhite({ width, height }, path) {
  const { type } = await answered(wx.getImageInfo({ src: path })).catch(() => ({ type: '' }))
  return !type || (type !== 'jpeg' && Math.max(width, height) <= LONGEST_SIDE)
}

/**
 * Cuts a part out of a photo, in the photo's own resolution.
 * @param {string} path
 * @param {import('./frame').Frame} part
 * @returns {Promise<string>}  temporary file: an upright JPEG without EXIF; rejects where this phone cannot show the photo
 */
function crop(path, part) {
  return pageCanvas.use(async (canvas) => {
    const image = await pageCanvas.load(canvas, path)
    if (!image) throw new Failure('photoGone')
    drawUpright(canvas, image, await orientationOf(canvas, path), part, LONGEST_PART)
    return pageCanvas.save(canvas, PART_QUALITY)
  })
}

/** How a picture lies that is turned clockwise by so many degrees to be upright. @type {Record<number, string>} */
const LIES = { 90: 'right', 180: 'down', 270: 'left' }

/**
 * Turns a photo, which is upright as its EXIF says, clockwise.
 * @param {string} path
 * @param {number} degrees  90, 180 or 270
 * @returns {Promise<string>}  temporary file, a JPEG; rejects where this phone cannot draw the photo
 */
async function turn(path, degrees) {
  const upright = await crop(path, WHOLE)
  return pageCanvas.use(async (canvas) => {
    const image = await pageCanvas.load(canvas, upright)
    drawUpright(canvas, image, LIES[degrees], WHOLE, LONGEST_PART)
    return pageCanvas.save(canvas, PART_QUALITY)
  })
}

/** How the picture lies when this phone draws it; upright where nothing tells. */
async function orientationOf(canvas, path) {
  if (await pageCanvas.turnsByItself(canvas)) return 'up'
  const info = await answered(wx.getImageInfo({ src: path })).catch(() => null)
  return info && info.orientation in UPRIGHT ? info.orientation : 'up'
}

/** Draws a part of the upright picture, with the part's longest side at most `longest` pixels, and never enlarged. */
function drawUpright(canvas, image, orientation, part, longest) {
  const turned = ON_ITS_SIDE.includes(orientation)
  const [wide, high] = turned ? [image.height, image.width] : [image.width, image.height]
  const [across, down] = [part.right - part.left, part.bottom - part.top]
  const scale = Math.min(1, longest / Math.max(wide * across, high * down))
  const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)))
  const whole = turned ? [height, width] : [width, height]
  const size = [whole[0] * across, whole[1] * down].map((side) => Math.max(1, Math.round(side)))
  const context = pageCanvas.resize(canvas, size[0], size[1])
  context.save()
  context.transform(1, 0, 0, 1, -Math.round(whole[0] * part.left), -Math.round(whole[1] * part.top))
  context.transform(...UPRIGHT[orientation](width, height))
  context.drawImage(image, 0, 0, width, height)
  context.restore()
}

/** @param {string} path  of a small copy, which is upright @returns {Promise<import('./offline').Picture | null>}  null where this phone cannot draw it */
function pixels(path) {
  return pageCanvas.use(async (canvas) => {
    const image = canvas && (await pageCanvas.load(canvas, path))
    if (!image || !pageCanvas.isReadable(canvas)) return null
    drawUpright(canvas, image, 'up', WHOLE, LONGEST_SIDE)
    return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  })
}

/** The first of the qualities that makes the file small enough, or the last. */
async function encode(canvas) {
  let small
  for (const quality of QUALITIES) {
    const path = await pageCanvas.save(canvas, quality)
    small = { path, base64: await readBase64(path) }
    if (small.base64.length * BYTES_PER_CHARACTER <= ENOUGH_BYTES) break
  }
  return small
}

/** Whether a file is not there, as phones say it; else it may be read the next time. */
function isMissing(errMsg) {
  return /no such file|not (exist|found)/i.test(errMsg)
}

/** @param {string} filePath  or a data: address @returns {Promise<string>} */
async function readBase64(filePath) {
  if (filePath.startsWith('data:')) return filePath.split(',')[1]
  const reading = promised((told) => wx.getFileSystemManager().readFile({ filePath, encoding: 'base64', ...told }))
  const { data } = await answered(reading, FILE_SILENCE_MS).catch(({ errMsg }) => {
    throw new Failure(isMissing(errMsg) ? 'photoGone' : 'unread')
  })
  if (!data) throw new Failure('empty')
  return String(data)
}

module.exports = { choose, prepare, pixels, crop, turn, readBase64 }
