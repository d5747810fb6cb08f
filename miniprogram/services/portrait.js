/**
 * Draws the head of a dog from the front, of what is known of its looks, as an SVG of 200 by 200 without a ground. All
 * breeds are drawn alike: mane, body, ears, head, marks, muzzle, eyes, hair. What is not known is plain.
 */
const { COATS, isSmooth, whole, line, rounded } = require('./portrait_lines')
const shapes = require('./portrait_shapes')

/**
 * Words that are keys of portrait_shapes.js; behind the first one there may be more: "low feathered", "blaze white".
 * @typedef {object} Looks
 * @property {string} [head]
 * @property {string} [ears]  kind, and small, large, feathered, curly, shaggy, corded, tassel
 * @property {string} [muzzle]
 * @property {string} [coat]
 * @property {string} [colour]  of the coat, where a part has no colour of its own
 * @property {{ears?: string, muzzle?: string, chest?: string, body?: string, tassel?: string}} [colours]
 * @property {string[]} [marks]  kind and colour
 * @property {string} [body_marks]  the same, on the body
 * @property {string[]} [hair]  kind and colour
 * @property {string} [mane]  colour, coat, and small or large
 * @property {string} [eyes]  colour, and large, small, almond or sad
 * @property {string} [nose]  colour
 * @property {'pink' | 'blue'} [tongue]
 * @property {boolean} [wrinkles]
 * @property {boolean} [collar]  false for wild animals
 */

/** So much of the sheet fills a dog of each size. */
const SCALES = { toy: 0.76, small: 0.82, medium: 0.88, large: 0.92, giant: 0.98 }
const BOTTOM = 196

const EYES_Y = 92
const EYE_SIZES = { large: 10, small: 5.4 }
const LINE = '#2a211e'
const RED = '#c2453b'
const TONGUES = { pink: '#e2747c', blue: '#5d6190' }

/** How far a part of no own colour is from the coat's. */
const APART = { ears: 0.1, muzzle: 0.07, body: 0.1, hair: 0.13, mane: 0.06 }

/** Of something strewn: columns and rows of a board, one in each field, so that no place is empty. */
const STREWN = {
  spots: { columns: 7, rows: 6 },
  ticks: { columns: 13, rows: 13 },
  blotches: { columns: 4, rows: 4 },
}

const path = (d, fill, more = '') => `<path d='${d}' fill='${fill}'${more}/>`
const oval = (x, y, rx, ry, fill, more = '') => `<ellipse cx='${rounded(x)}' cy='${rounded(y)}' rx='${rounded(rx)}' ry='${rounded(ry)}' fill='${fill}'${more}/>`
const both = (right) => `${right}<g transform='matrix(-1 0 0 1 200 0)'>${right}</g>`
const stroke = (d, colour, width, more = '') =>
  `<path d='${d}' fill='none' stroke='${colour}' stroke-width='${width}' stroke-linecap='round' stroke-linejoin='round'${more}/>`
const clipped = (id, outline, inside) => `<clipPath id='${id}'><path d='${outline}'/></clipPath><g clip-path='url(#${id})'>${inside}</g>`

/** A colour by its name, lighter by a part (above 0) or darker. */
function shade(colour, by = 0) {
  const hex = shapes.COLOURS[colour]
  const target = by > 0 ? 255 : 0
  const parts = [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16))
  const shaded = parts.map((part) => Math.round(part + (target - part) * Math.abs(by)))
  return `#${shaded.map((part) => (part < 16 ? '0' : '') + part.toString(16)).join('')}`
}

/** The same colour a little apart: lighter where it is dark, and on white less is enough. */
function tone(colour, by) {
  if (shapes.DARK.includes(colour)) return shade(colour, by * 1.1)
  return shade(colour, colour === 'white' ? -by * 0.6 : -by)
}

/** A part's own colour; where that is the coat's, a little apart from it. */
const apart = (own, coat, by) => (own && own !== coat ? shade(own) : tone(coat, by))

/** Around each part a thin line, so that white on white and black on black are seen. */
const edge = (colour) => ` stroke='${tone(colour, 0.2)}' stroke-width='1.5' stroke-linejoin='round'`

/** What is strewn lies always alike. @returns {number}  from 0 to 1 */
const chance = (seed) => Math.abs(Math.sin(seed * 12.9898 + 4.1) * 43758.5453) % 1

function strewn({ columns, rows }, draw) {
  const fields = Array.from({ length: columns * rows }, (_, index) => index)
  return fields
    .map((index) => {
      const x = 38 + (124 / columns) * ((index % columns) + 0.15 + 0.7 * chance(index + 1))
      const y = 38 + (132 / rows) * (Math.floor(index / columns) + 0.15 + 0.7 * chance(index + 71))
      return draw(x, y, chance(index + 31))
    })
    .join('')
}

/** @type {Record<string, (colour: string) => string>} */
const PATTERNS = {
  spots: (colour) => strewn(STREWN.spots, (x, y, size) => oval(x, y, 3 + 4 * size, 3 + 3.4 * size, colour)),
  ticks: (colour) => stroke(strewn(STREWN.ticks, (x, y) => `M${Math.round(x)} ${Math.round(y)}h0`), colour, 3.4),
  blotches: (colour) => path(strewn(STREWN.blotches, blotch), colour),
  brindle: (colour) => both(stroke(Array.from({ length: 15 }, stripe).join(''), colour, 2.4)),
}

const blotch = (x, y, size) => line([[x - 9, y - 4], [x, y - 9 - 6 * size], [x + 10, y - 2], [x + 5, y + 10], [x - 7, y + 7 * size]])
const stripe = (_, index) => `M${102 + 4 * (index % 3)} ${44 + index * 8}q${14 + 4 * (index % 2)} -5 ${34 + 6 * (index % 3)} 6`

function mark(words) {
  const [kind, colour] = words.split(' ')
  if (PATTERNS[kind]) return PATTERNS[kind](shade(colour))
  const { path: d, both: isBoth = false } = shapes.MARKS[kind]
  const drawn = path(d, shade(colour))
  return isBoth ? both(drawn) : drawn
}

/**
 * @param {Looks} [looks]  without any: a plain head
 * @param {string} [size]
 * @returns {string}  SVG
 */
function draw(looks = {}, size = 'medium') {
  const { head = 'medium', muzzle = 'medium', coat = 'short', colour = 'gold', colours = {}, marks = [], hair = [] } = looks
  const outline = line(whole(shapes.HEADS[head].half), coat)
  const hides = hair.some((words) => shapes.HAIR[words.split(' ')[0]].hides)
  const ears = drawEars(looks.ears || 'drop', coat, colours.ears || colour, apart(colours.ears, colour, APART.ears), colours.tassel)
  const hairAfter = (layer) => drawHair(hair, layer, colour, coat)
  const parts = [
    looks.mane ? drawMane(looks.mane) : '',
    drawBody(looks, coat, colour, colours),
    ears.behind,
    hairAfter('ears'),
    path(outline, shade(colour), edge(colour)),
    clipped('head', outline, marks.map(mark).join('')),
    hairAfter('head'),
    drawMuzzle(shapes.MUZZLES[muzzle], coat, apart(colours.muzzle, colour, APART.muzzle)),
    hairAfter('muzzle'),
    hides ? '' : drawEyes(looks.eyes || 'dark', shapes.HEADS[head].eyes, colour),
    looks.wrinkles ? stroke(shapes.WRINKLES, shade(colour, -0.3), 2.5) : '',
    hairAfter('eyes'),
    looks.tongue ? drawTongue(shapes.MUZZLES[muzzle], TONGUES[looks.tongue]) : '',
    drawNose(shapes.MUZZLES[muzzle], shade(looks.nose || 'dark')),
    ears.before,
    hairAfter('all'),
  ]
  const scale = SCALES[size] || SCALES.medium
  const place = `translate(${rounded(100 - 100 * scale)} ${rounded(BOTTOM - BOTTOM * scale)}) scale(${scale})`
  return `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 200 200'><g transform='${place}'>${parts.join('')}</g></svg>`
}

function drawMane(words) {
  const [colour, coat, size = 'medium'] = words.split(' ')
  const { wide, top } = shapes.MANES[size]
  const half = [[0, top], [40, top + 6], [68, top + 40], [78, 130], [70, 172], [58, 214], [0, 220]]
  const wider = half.map(([x, y]) => [x * wide, y])
  return path(line(whole(wider), coat), tone(colour, APART.mane), edge(colour))
}

/**
 * Under a mane there is only the chest.
 * @param {Looks} looks
 * @param {string} coat
 * @param {string} colour
 * @param {NonNullable<Looks['colours']>} colours
 */
function drawBody({ mane, body_marks: marks, collar = true }, coat, colour, { body, chest }) {
  const outline = line(whole(shapes.NECK), coat)
  const hasCollar = collar && !mane && isSmooth(coat)
  return [
    mane ? '' : path(outline, apart(body, colour, APART.body), edge(body || colour)),
    chest ? path(line(whole(shapes.CHEST), coat), shade(chest), edge(chest)) : '',
    marks ? clipped('body', outline, `<g transform='translate(0 70)'>${mark(marks)}</g>`) : '',
    hasCollar ? path(shapes.COLLAR, RED) : '',
  ].join('')
}

/** @returns {{behind: string, before: string}}  behind the head and before it */
function drawEars(said, coat, name, colour, tassel) {
  const [kind, ...words] = said.split(' ')
  const { points, corner = -1, behind = false, inner = null, flap = null } = shapes.EARS[kind]
  const own = words.map((word) => shapes.EAR_COATS[word]).find(Boolean) || 'short'
  const scale = words.map((word) => shapes.EAR_SIZES[word]).find(Boolean) || 1
  const [first, last] = [points[0], points[points.length - 1]]
  const root = [0, 1].map((axis) => (first[axis] + last[axis]) / 2)
  const sized = (some) => some.map((point) => [0, 1].map((axis) => root[axis] + (point[axis] - root[axis]) * scale))
  const drawn = both(
    [
      path(line(sized(points), own, isSmooth(own) ? corner : -1), colour, edge(name)),
      inner ? path(line(sized(inner), 'short', corner), '#d9a39a', " opacity='.75'") : '',
      flap ? path(line(sized(flap)), tone(name, 0.16)) : '',
      tassel ? path(line(shapes.TASSEL, 'curly'), shade(tassel)) : '',
    ].join(''),
  )
  return behind ? { behind: drawn, before: '' } : { behind: '', before: drawn }
}

function drawHair(hair, layer, coatColour, coat) {
  const drawn = hair.map((words) => {
    const [kind, colour] = words.split(' ')
    const { half = null, both: right = null, coat: own, layer: belongs, ribbon = false } = shapes.HAIR[kind]
    if (belongs !== layer) return ''
    const locks = own === 'shaggy' && ['curly', 'corded'].includes(coat) ? coat : own
    const fill = apart(colour, coatColour, APART.hair)
    const shape = half ? path(line(whole(half), locks), fill) : both(path(line(right, locks), fill))
    const cords = locks === 'corded' ? stroke(shapes.CORDS, shade('white'), 5) : ''
    return shape + cords + (ribbon ? oval(100, 42, 9, 5, RED) : '')
  })
  return drawn.join('')
}

function drawMuzzle({ top, bottom, above, below, hangs = false }, coat, colour) {
  const lips = bottom - 16
  const half = [[0, top], [above * 0.7, top + 4], [above, (top + lips) / 2], [below, lips], [below * 0.66, bottom], [0, bottom - (hangs ? 6 : 0)]]
  return path(line(whole(half), ['wire', 'shaggy'].includes(coat) ? 'wire' : 'short'), colour)
}

function drawTongue({ bottom }, colour) {
  return path(`M92 ${bottom - 11}H108V${bottom + 4}C108 ${bottom + 14} 92 ${bottom + 14} 92 ${bottom + 4}Z`, colour)
}

function drawNose({ bottom, below, nose, width, hangs = false }, colour) {
  const mouth = Math.min(bottom - 10, nose + 22)
  const smile = rounded(below * (hangs ? 0.8 : 0.62))
  const deep = hangs ? 14 : 5
  const side = (sign) => `M100 ${mouth}q${rounded((sign * below * (hangs ? 0.8 : 0.62)) / 2)} ${deep} ${sign < 0 ? '-' : ''}${smile} ${deep - 3}`
  const [left, right] = [100 - width, 100 + width]
  const half = `C${right} ${nose + 5} 104 ${nose + 11} 100 ${nose + 11}C96 ${nose + 11} ${left} ${nose + 5} ${left} ${nose - 2}Z`
  return [
    stroke(`M100 ${nose + 8}V${mouth}${side(-1)}${side(1)}`, LINE, 2.6),
    path(`M${left} ${nose - 2}C${left} ${nose - 9} ${right} ${nose - 9} ${right} ${nose - 2}${half}`, colour),
    oval(96, nose - 3, 3, 1.6, '#ffffff', " opacity='.35'"),
  ].join('')
}

function drawEyes(said, fromMiddle, coatColour) {
  const [name, form = ''] = said.split(' ')
  const iris = name === 'dark' && shapes.DARK.includes(coatColour) ? 'liver' : name
  const x = 100 + fromMiddle
  const size = EYE_SIZES[form] || 7
  const narrow = (radius) => (form === 'almond' ? 0.66 * radius : radius)
  const isSad = form === 'sad'
  return both(
    [
      isSad ? path(`M${x - 9} ${EYES_Y}q9 16 18 -1z`, '#c98a80') : '',
      oval(x, EYES_Y, size + 1.2, narrow(size + 1.2), LINE),
      iris === 'dark' ? '' : oval(x, EYES_Y, size - 0.6, narrow(size - 0.6), shade(iris)) + oval(x, EYES_Y, size * 0.42, size * 0.42, LINE),
      oval(x + 2.4, EYES_Y - 2.6, size * 0.3, size * 0.3, '#ffffff'),
      isSad ? stroke(`M${x - 10} ${EYES_Y - 6}q10 -6 20 6`, LINE, 2, " opacity='.6'") : '',
    ].join(''),
  )
}

/** What the words of `looks` may be, by field. */
const WORDS = {
  head: Object.keys(shapes.HEADS),
  ears: Object.keys(shapes.EARS),
  muzzle: Object.keys(shapes.MUZZLES),
  coat: Object.keys(COATS),
  colour: Object.keys(shapes.COLOURS),
  marks: [...Object.keys(shapes.MARKS), ...Object.keys(PATTERNS)],
  hair: Object.keys(shapes.HAIR),
}

module.exports = { draw, WORDS }
