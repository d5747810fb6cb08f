/** The share card: photo, breed and percentage in one picture. It shares and saves nothing. */
const pageCanvas = require('./canvas')
const frame = require('./frame')

/** Pixels; 5 to 4 is the shape of WeChat's share cards. */
const WIDTH = 1000
const HEIGHT = 800
const MARGIN = 56
const QUALITY = 0.9

/** Above the words. */
const UNCOVERED = 560

/** Beyond how the photo fills the card, its pixels would be seen. */
const MOST_ENLARGED = 2
const FONT = '-apple-system, "PingFang SC", "Noto Sans CJK SC", sans-serif'

/**
 * @typedef {object} Card
 * @property {string} photo  file
 * @property {string} title
 * @property {string} subtitle
 * @property {string} percent
 * @property {string} app
 * @property {number[][]} boxes  where its dogs are, in fractions of the photo
 */

/**
 * @param {Card} card
 * @returns {Promise<string>}  temporary JPEG file; without the photo when the phone cannot show it
 */
function draw(card) {
  return pageCanvas.use(async (canvas) => {
    const photo = await pageCanvas.load(canvas, card.photo)
    const context = pageCanvas.resize(canvas, WIDTH, HEIGHT)
    drawPhoto(context, photo, card.boxes)
    drawShade(context)
    drawWords(context, card)
    return pageCanvas.save(canvas, QUALITY)
  })
}

/**
 * Fills the card, with the dogs in the part that no words cover, as large as they fit there. Of a dog that does not fit the
 * head is seen, which is in the upper part of its box; without a box, more of the upper half of the photo is.
 */
function drawPhoto(context, image, boxes) {
  context.fillStyle = '#2c4a3e'
  context.fillRect(0, 0, WIDTH, HEIGHT)
  if (!image) return
  const cover = Math.max(WIDTH / image.width, HEIGHT / image.height)
  const [left, top, right, bottom] = boxes.length ? frame.hull(boxes) : [0.45, 0.3, 0.55, 0.4]
  const fit = Math.min(WIDTH / (image.width * (right - left)), UNCOVERED / (image.height * (bottom - top)))
  const scale = boxes.length ? Math.min(MOST_ENLARGED * cover, Math.max(cover, fit)) : cover
  const [width, height] = [image.width * scale, image.height * scale]
  const x = within(WIDTH - width, WIDTH / 2 - (width * (left + right)) / 2)
  const middle = UNCOVERED / 2 - (height * (top + bottom)) / 2
  const y = within(HEIGHT - height, Math.max(middle, MARGIN - height * top))
  context.drawImage(image, x, y, width, height)
}

/** An offset of the photo at which it still fills the card. */
function within(least, wanted) {
  return Math.min(0, Math.max(least, wanted))
}

/** Dark towards the bottom, so that white words can be read on any photo. */
function drawShade(context) {
  const shade = context.createLinearGradient(0, HEIGHT * 0.4, 0, HEIGHT)
  shade.addColorStop(0, 'rgba(8, 20, 16, 0)')
  shade.addColorStop(0.55, 'rgba(8, 20, 16, 0.72)')
  shade.addColorStop(1, 'rgba(8, 20, 16, 0.92)')
  context.fillStyle = shade
  context.fillRect(0, 0, WIDTH, HEIGHT)
}

function drawWords(context, { title, subtitle, percent, app }) {
  context.textBaseline = 'alphabetic'
  context.fillStyle = '#ffffff'
  context.font = `bold 92px ${FONT}`
  const percentWidth = context.measureText(percent).width
  context.fillText(percent, WIDTH - MARGIN - percentWidth, HEIGHT - 128)
  fitText(context, title, { y: HEIGHT - 128, size: 84, weight: 'bold', room: WIDTH - 3 * MARGIN - percentWidth })
  context.fillStyle = '#d7e5dd'
  fitText(context, subtitle, { y: HEIGHT - 60, size: 40, weight: 'normal', room: WIDTH * 0.6 })
  context.font = `normal 34px ${FONT}`
  context.fillText(app, WIDTH - MARGIN - context.measureText(app).width, HEIGHT - 60)
}

/** Writes a line at the left margin, smaller where it would not fit. */
function fitText(context, text, { y, size, weight, room }) {
  context.font = `${weight} ${size}px ${FONT}`
  const wide = context.measureText(text).width
  if (wide > room) context.font = `${weight} ${Math.floor((size * room) / wide)}px ${FONT}`
  context.fillText(text, MARGIN, y)
}

module.exports = { draw }
