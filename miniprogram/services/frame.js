/**
 * A frame around a part of a photo, in fractions of its width and height: {left, top, right, bottom}, 0 to 1, counted
 * from the upper left corner. It draws nothing and knows no page.
 *
 * @typedef {{left: number, top: number, right: number, bottom: number}} Frame
 * @typedef {{x: number, y: number}} Point
 */

/** Of the photo's width or height: a smaller part holds too few pixels to name a dog. */
const SMALLEST = 0.1

/** The first frame when the server sent no box. */
const USUAL = 0.5

/** How far a press on an arrow moves, and how much a press on + or - widens each side. */
const STEP = 0.05

/** @type {Record<string, [number, number, number]>}  to the right, down, wider on each side */
const MOVES = {
  left: [-STEP, 0, 0],
  right: [STEP, 0, 0],
  up: [0, -STEP, 0],
  down: [0, STEP, 0],
  smaller: [0, 0, -STEP / 2],
  larger: [0, 0, STEP / 2],
}

/** @param {number[]} box  [left, top, right, bottom] as the server answers it @returns {Frame} */
function fromBox([left, top, right, bottom]) {
  return { left, top, right, bottom }
}

/** Where framing starts: around the dog that the server saw, else the middle. @param {number[] | null} box */
function start(box) {
  return box ? allowed(fromBox(box)) : around({ x: 0.5, y: 0.5 }, USUAL, USUAL)
}

/** The frame between two opposite corners, wherever the finger went. @param {Point} a @param {Point} b */
function between(a, b) {
  const [left, right] = [Math.min(a.x, b.x), Math.max(a.x, b.x)]
  const [top, bottom] = [Math.min(a.y, b.y), Math.max(a.y, b.y)]
  return allowed({ left, top, right, bottom })
}

/**
 * The corner that stays where the one near a point is moved.
 * @param {Frame} frame
 * @param {Point} point
 * @param {Point} reach  how far from a corner the point may be
 * @returns {Point | null}  null where no corner is near
 */
function opposite({ left, top, right, bottom }, { x, y }, reach) {
  const isNear = (a, b, most) => Math.abs(a - b) <= most
  const [isLeft, isTop] = [isNear(x, left, reach.x), isNear(y, top, reach.y)]
  if (!(isLeft || isNear(x, right, reach.x)) || !(isTop || isNear(y, bottom, reach.y))) return null
  return { x: isLeft ? right : left, y: isTop ? bottom : top }
}

/** The same frame with its middle there, as far as the photo reaches. @param {Frame} frame @param {Point} point */
function centred(frame, point) {
  return around(point, frame.right - frame.left, frame.bottom - frame.top)
}

/** @param {Frame} frame @param {string} move  one of MOVES */
function moved(frame, move) {
  const [x, y, wider] = MOVES[move]
  const middle = { x: (frame.left + frame.right) / 2 + x, y: (frame.top + frame.bottom) / 2 + y }
  return around(middle, frame.right - frame.left + 2 * wider, frame.bottom - frame.top + 2 * wider)
}

/** The same frame, large enough and within the photo. @param {Frame} frame */
function allowed(frame) {
  const middle = { x: (frame.left + frame.right) / 2, y: (frame.top + frame.bottom) / 2 }
  return around(middle, frame.right - frame.left, frame.bottom - frame.top)
}

/** A frame of this size, never smaller than SMALLEST, pushed into the photo. @returns {Frame} */
function around({ x, y }, width, height) {
  const [left, right] = side(x, width)
  const [top, bottom] = side(y, height)
  return { left, top, right, bottom }
}

function side(middle, wanted) {
  const size = Math.min(1, Math.max(SMALLEST, wanted))
  const start = Math.min(1 - size, Math.max(0, middle - size / 2))
  return [start, start + size]
}

/** Where it lies, as CSS. */
function css({ left, top, right, bottom }) {
  const [x, y, width, height] = [left, top, right - left, bottom - top].map((part) => `${(part * 100).toFixed(2)}%`)
  return `left: ${x}; top: ${y}; width: ${width}; height: ${height}`
}

/** The box around all boxes. @param {number[][]} boxes  at least one */
function hull(boxes) {
  const [lefts, tops, rights, bottoms] = [0, 1, 2, 3].map((side) => boxes.map((box) => box[side]))
  return [Math.min(...lefts), Math.min(...tops), Math.max(...rights), Math.max(...bottoms)]
}

/**
 * What of a photo is to be seen, as CSS: the middle and the size of all boxes together; of a photo without any, all of
 * it.
 * @param {number[][]} boxes
 */
function focus(boxes) {
  const [left, top, right, bottom] = boxes.length ? hull(boxes) : [0, 0, 1, 1]
  return `--x: ${(left + right) / 2}; --y: ${(top + bottom) / 2}; --wide: ${right - left}; --high: ${bottom - top}`
}

module.exports = { focus, hull, fromBox, start, between, opposite, centred, moved, css }
