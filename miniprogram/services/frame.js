/**
 * A frame around a part of a photo, in fractions of its width and height: {left, top, right, bottom}, 0 to 1, counted
 * from the upper left corner. It draws nothing and knows no page.
 *
 * @typedef {{left: number, top: number, right: number, bottom: number}} Frame
 * @typedef {{x: number, y: number}} Point
 * @typedef {{left: number, top: number, width: number, height: number}} Area  in pixels
 */

/** Of the photo's width or height: a smaller part holds too few pixels to name a dog. */
const SMALLEST = 0.1

/** The first frame when the server sent no box. */
const USUAL = 0.5

/** How much larger than the stage two fingers make the photo. */
const MOST_ENLARGED = 6

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

/** @param {Frame} frame @param {Point} point */
function contains({ left, top, right, bottom }, { x, y }) {
  return x >= left && x <= right && y >= top && y <= bottom
}

/** The same frame, as far from where it was as one point is from another. @param {Frame} frame @param {Point} from @param {Point} to */
function shifted(frame, from, to) {
  const middle = { x: (frame.left + frame.right) / 2, y: (frame.top + frame.bottom) / 2 }
  return centred(frame, { x: middle.x + to.x - from.x, y: middle.y + to.y - from.y })
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

/** Where the whole photo lies on a stage, as large as there is room. @param {{width: number, height: number}} stage @param {number} ratio @returns {Area} */
function fitted(stage, ratio) {
  const width = Math.min(stage.width, stage.height * ratio)
  return held({ left: 0, top: 0, width, height: width / ratio }, stage)
}

/**
 * Where the photo lies after two fingers have moved: what was under the middle between them still is.
 * @param {Area} area  where it lay
 * @param {{middle: Point, distance: number}} from  in pixels, from the corner of the stage
 * @param {{middle: Point, distance: number}} to
 * @param {{width: number, height: number}} stage
 * @param {number} ratio
 * @returns {Area}  at least as large as there is room, at most MOST_ENLARGED times that
 */
function pinched(area, from, to, stage, ratio) {
  const smallest = fitted(stage, ratio).width
  const width = Math.min(MOST_ENLARGED * smallest, Math.max(smallest, (area.width * to.distance) / Math.max(1, from.distance)))
  const scale = width / area.width
  const left = to.middle.x - (from.middle.x - area.left) * scale
  const top = to.middle.y - (from.middle.y - area.top) * scale
  return held({ left, top, width, height: width / ratio }, stage)
}

/** In the middle where there is room for it, else without a gap beside it. @param {Area} area @returns {Area} */
function held({ left, top, width, height }, stage) {
  const hold = (start, size, room) => (size <= room ? (room - size) / 2 : Math.min(0, Math.max(room - size, start)))
  return { left: hold(left, width, stage.width), top: hold(top, height, stage.height), width, height }
}

/** The frame that is where it was on the screen, after the photo under it has moved. @param {Frame} frame @param {Area} before @param {Area} after */
function kept({ left, top, right, bottom }, before, after) {
  const x = (part) => (before.left + part * before.width - after.left) / after.width
  const y = (part) => (before.top + part * before.height - after.top) / after.height
  return allowed({ left: x(left), top: y(top), right: x(right), bottom: y(bottom) })
}

/** Where an area lies, as CSS. @param {Area} area */
function place({ left, top, width, height }) {
  return `left: ${left}px; top: ${top}px; width: ${width}px; height: ${height}px`
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

module.exports = { focus, hull, fromBox, start, between, opposite, contains, shifted, centred, moved, css, fitted, pinched, kept, place }
