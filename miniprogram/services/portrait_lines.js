/** Lines of a drawing: smooth ones through a few points, and the same with the locks of a coat along them. Points are [x, y]. */

/** @typedef {number[][]} Points */

/** The middle of the drawing, from left to right. */
const MIDDLE = 100

/** Points along a curve between two points of a line. */
const STEPS = 8

/** The length of a lock by which its tip hangs lower. */
const HANGS = 0.35

/** How the edge of a coat looks: the kind of its locks, their distance and their length. @type {Record<string, {kind: string, distance: number, length: number}>} */
const COATS = {
  short: { kind: 'none', distance: 0, length: 0 },
  hairless: { kind: 'none', distance: 0, length: 0 },
  wire: { kind: 'spikes', distance: 8, length: 5 },
  shaggy: { kind: 'spikes', distance: 13, length: 10 },
  fluffy: { kind: 'tufts', distance: 15, length: 9 },
  silky: { kind: 'tufts', distance: 20, length: 6 },
  curly: { kind: 'curls', distance: 11, length: 0 },
  corded: { kind: 'cords', distance: 11, length: 8 },
}

const isSmooth = (coat) => COATS[coat].kind === 'none'
const rounded = (value) => String(Math.round(value * 10) / 10)
const written = (point) => point.map(rounded).join(' ')
const between = (one, other, part = 0.5) => [0, 1].map((axis) => one[axis] + (other[axis] - one[axis]) * part)

/** Both halves of what is given from the top to the bottom. @param {Points} half  [distance from the middle, y] */
function whole(half) {
  const right = half.map(([x, y]) => [MIDDLE + x, y])
  const left = half.filter(([x]) => x > 0).map(([x, y]) => [MIDDLE - x, y])
  return right.concat(left.reverse())
}

/**
 * A closed line, as the `d` of an SVG path.
 * @param {Points} points  clockwise
 * @param {string} coat  a key of COATS
 * @param {number} corner  the place of the point that is one; -1: none
 */
function line(points, coat = 'short', corner = -1) {
  const pieces = curves(points, corner)
  if (isSmooth(coat)) return `M${written(points[0])}${pieces.map(smoothly).join('')}Z`
  const dots = spaced([].concat(...pieces.map(along)), COATS[coat].distance)
  const centre = [0, 1].map((axis) => dots.reduce((sum, dot) => sum + dot[axis], 0) / dots.length)
  const locks = dots.map((dot, index) => lock(dot, dots[(index + 1) % dots.length], centre, index, COATS[coat]))
  return `M${written(dots[0])}${locks.join('')}Z`
}

/** Cubic Bézier curves of a Catmull-Rom spline, four points each. */
function curves(points, corner) {
  const count = points.length
  const handle = (from, to, isCorner) => [0, 1].map((axis) => (isCorner ? 0 : (to[axis] - from[axis]) / 6))
  return points.map((start, index) => {
    const [before, end, beyond] = [-1, 1, 2].map((step) => points[(index + step + count) % count])
    const out = handle(before, end, index === corner)
    const back = handle(start, beyond, (index + 1) % count === corner)
    return [start, [start[0] + out[0], start[1] + out[1]], [end[0] - back[0], end[1] - back[1]], end]
  })
}

const smoothly = ([, ...rest]) => `C${rest.map(written).join(' ')}`

/** Points of one curve. */
function along([start, out, back, end]) {
  return Array.from({ length: STEPS }, (_, step) => {
    const part = step / STEPS
    const [a, b, c] = [between(start, out, part), between(out, back, part), between(back, end, part)]
    return between(between(a, b, part), between(b, c, part), part)
  })
}

/** Points at equal distances along a closed line. */
function spaced(points, distance) {
  const found = []
  let left = 0
  points.forEach((point, index) => {
    const next = points[(index + 1) % points.length]
    const length = Math.hypot(next[0] - point[0], next[1] - point[1])
    for (; left < length; left += distance) found.push(between(point, next, left / length))
    left -= length
  })
  return found
}

/** From one point of an edge to the next; no two locks are of one length. */
function lock(dot, next, centre, index, { kind, distance, length }) {
  const radius = distance * 0.56
  if (kind === 'curls') return `A${radius} ${radius} 0 0 1 ${written(next)}`
  const middle = between(dot, next)
  const far = Math.hypot(middle[0] - centre[0], middle[1] - centre[1]) || 1
  const long = length * (0.75 + 0.5 * Math.abs(Math.sin(index * 2.4)))
  const [x, y] = between(centre, middle, 1 + long / far)
  if (kind === 'cords') return `Q${written([x - 2, y])} ${written(next)}`
  const tip = [x, y + long * HANGS]
  if (kind === 'spikes') return `L${written(tip)}L${written(next)}`
  return `Q${written(between(dot, tip))} ${written(tip)}Q${written(between(tip, next))} ${written(next)}`
}

module.exports = { COATS, isSmooth, whole, line, rounded }
