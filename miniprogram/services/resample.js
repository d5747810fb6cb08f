/** Brings the pixels of a picture to the size that a network takes, as the server does: squashed, through a triangle filter. */

/**
 * @param {import('./offline').Picture} picture
 * @param {number} side
 * @param {number} part  of its width and height, in the middle
 * @returns {Float32Array}  (side, side, 3), 0 to 1
 */
function resample({ data, width, height }, side, part) {
  const columns = shrinkRows(data, height, width, 4, side, part)
  return shrinkRows(columns, side, height, 3, side, part).map((value) => value / 255)
}

/** (rows, length, channels) -> (side, rows, 3): what was a row is a column then. */
function shrinkRows(data, rows, length, channels, side, part) {
  const shrunk = new Float32Array(side * rows * 3)
  let to = 0
  for (const { start, weights } of taps(length, side, part)) {
    for (let row = 0; row < rows; row++) {
      const from = (row * length + start) * channels
      for (let colour = 0; colour < 3; colour++, to++) {
        for (let tap = 0; tap < weights.length; tap++) shrunk[to] += weights[tap] * data[from + tap * channels + colour]
      }
    }
  }
  return shrunk
}

/** Which pixels of a row make each of the new ones: all that it covers, and at least two. */
function taps(length, side, part) {
  const scale = (length * part) / side
  const border = (length - length * part) / 2
  const radius = Math.max(1, scale)
  return Array.from({ length: side }, (_, place) => {
    const centre = border + (place + 0.5) * scale - 0.5
    const start = Math.max(0, Math.ceil(centre - radius))
    const end = Math.min(length - 1, Math.floor(centre + radius))
    const weights = []
    for (let pixel = start; pixel <= end; pixel++) weights.push(1 - Math.abs(pixel - centre) / radius)
    const sum = weights.reduce((before, weight) => before + weight, 0)
    return { start, weights: weights.map((weight) => weight / sum) }
  })
}

module.exports = { resample }
