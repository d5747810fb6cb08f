/** The share card: photo, breed and percentage in one picture. It shares and saves nothing. */
const pageCanvas = require('./canvas')

/** Pixels; 5 to 4 is the shape of WeChat's share cards. */
const WIDTH = 1000
const HEIGHT = 800
const MARGIN = 56
const QUALITY = 0.9
const FONT = '-apple-system, "PingFang SC", "Noto Sans CJK SC", sans-serif'

/**
 * @typedef {object} Card
 * @property {string} photo  file
 * @property {string} title
 * @property {string} subtitle
 * @property {string} percent
 * @property {string} app
 */

/**
 * @param {Card} card
 * @returns {Promise<string>}  temporary JPEG file; without the photo when the phone cannot show it
 */
async function draw(card) {
  const canvas = await pageCanvas.find()
  const photo = await pageCanvas.load(canvas, card.photo)
  const context = pageCanvas.resize(canvas, WIDTH, HEIGHT)
  drawPhoto(context, photo)
  drawShade(context)
  drawWords(context, card)
  return pageCanvas.save(canvas, QUALITY)
}

/** Fills the card. Of a tall photo, more of the upper half is seen: heads are there, and words cover the lower end. */
function drawPhoto(context, image) {
  context.fillStyle = '#2c4a3e'
  context.fillRect(0, 0, WIDTH, HEIGHT)
  if (!image) return
  const scale = Math.max(WIDTH / image.width, HEIGHT / image.height)
  const [width, height] = [image.width * scale, image.height * scale]
  context.drawImage(image, (WIDTH - width) / 2, (HEIGHT - height) / 5, width, height)
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
