/**
 * Frames a part of a snap's photo, by finger or by buttons, and asks about that part alone: as a snap of its own, cut
 * out of the photo in its own resolution. Its states: framing, and gone where there is no photo.
 */
const appearance = require('../../services/appearance')
const dialogs = require('../../services/dialogs')
const frame = require('../../services/frame')
const history = require('../../services/history')
const photo = require('../../services/photo')
const routes = require('../../services/routes')
const snaps = require('../../services/snaps')
const wording = require('../../services/wording')

/** Fractions of the photo: a finger that moved less has tapped. */
const TAP = 0.02

/** Pixels from a corner: a finger there moves the corner. */
const HANDLE = 22

/**
 * @typedef {object} Gesture
 * @property {'none' | 'pinch' | 'corner' | 'move' | 'draw'} kind
 * @property {import('../../services/frame').Point | null} from  the corner that stays, or where the finger went down
 * @property {import('../../services/frame').Frame} frame  of before
 * @property {import('../../services/frame').Area} area  of before
 * @property {{middle: import('../../services/frame').Point, distance: number} | null} fingers  of before
 */

Page({
  data: {
    ...appearance.DATA,
    /** @type {'framing' | 'gone'} */
    state: 'framing',
    photo: '',
    photoStyle: '',
    frameStyle: '',
    label: '',
    /** Whether the arrows are shown. */
    isFine: false,
    moves: ['left', 'right', 'up', 'down', 'smaller', 'larger'],
  },

  /** @type {import('../../services/frame').Frame} */
  frame: null,
  /** Width of the photo divided by its height; 0 until it is loaded. */
  ratio: 0,
  /** Where the stage is on the screen. @type {import('../../services/frame').Area} */
  stage: { left: 0, top: 0, width: 1, height: 1 },
  /** Where the photo is on the stage. @type {import('../../services/frame').Area} */
  area: { left: 0, top: 0, width: 1, height: 1 },
  /** What the fingers do. @type {Gesture | null} */
  gesture: null,
  /** While the part is being cut out. */
  isAsking: false,

  onLoad({ id }) {
    const path = snaps.original(id)
    const outcome = history.outcome(id)
    this.frame = frame.start(outcome && outcome.box)
    this.setData({ photo: path, state: path ? 'framing' : 'gone' })
    this.dress()
  },

  onShow() {
    this.dress()
  },

  dress() {
    if (appearance.dress(this, 'frame')) this.show()
  },

  show() {
    const { left, top, right, bottom } = this.frame
    const [x, y, width, height] = [left, top, right - left, bottom - top].map((part) => Math.round(part * 100))
    this.setData({
      frameStyle: frame.css(this.frame),
      label: wording.fill(this.data.text.photo, { left: x, top: y, width, height }),
    })
  },

  /** @param {import('../../services/frame').Frame} next */
  change(next) {
    this.frame = next
    this.show()
  },

  onPhotoLoad({ detail: { width, height } }) {
    this.ratio = width / height
    this.layOut()
  },

  /** The photo's own proportions, as large as there is room. */
  async layOut() {
    if (!this.ratio || !(await this.findStage())) return
    this.put(frame.fitted(this.stage, this.ratio))
  },

  onResize() {
    this.layOut()
  },

  /** @returns {Promise<boolean>}  whether the page has it */
  findStage() {
    return new Promise((resolve) => {
      wx.createSelectorQuery()
        .select('#stage')
        .fields({ rect: true, size: true })
        .exec(([stage]) => {
          if (stage) this.stage = stage
          resolve(Boolean(stage))
        })
    })
  },

  /** @param {import('../../services/frame').Area} area */
  put(area) {
    this.area = area
    this.setData({ photoStyle: frame.place(area) })
  },

  onPhotoError() {
    this.setData({ state: 'gone' })
  },

  /** One finger moves the frame, a corner of it, or draws a new one; two enlarge and move the photo. */
  async onTouchStart({ touches }) {
    const gesture = (this.gesture = { kind: 'none', from: null, frame: this.frame, area: this.area, fingers: null })
    if (!(await this.findStage()) || this.gesture !== gesture) return
    if (touches.length > 1) return Object.assign(gesture, { kind: 'pinch', fingers: this.fingersOf(touches) })
    const point = this.pointOf(touches[0])
    const reach = { x: HANDLE / this.area.width, y: HANDLE / this.area.height }
    const opposite = frame.opposite(this.frame, point, reach)
    const kind = opposite ? 'corner' : frame.contains(this.frame, point) ? 'move' : 'draw'
    Object.assign(gesture, { kind, from: opposite || point })
  },

  onTouchMove({ touches }) {
    const { kind, from, fingers, area, frame: before } = this.gesture || {}
    if (kind === 'pinch' && touches.length > 1) {
      this.put(frame.pinched(area, fingers, this.fingersOf(touches), this.stage, this.ratio))
      return this.change(frame.kept(before, area, this.area))
    }
    if (!from || touches.length > 1) return
    const to = this.pointOf(touches[0])
    if (!isFar(from, to)) return
    this.change(kind === 'move' ? frame.shifted(before, from, to) : frame.between(from, to))
  },

  /** A finger that stays after a pinch does nothing more. */
  onTouchEnd({ touches, changedTouches: [touch] }) {
    const { kind, from } = this.gesture || {}
    if (touches.length) return
    this.gesture = null
    const isTap = ['move', 'draw'].includes(kind) && !isFar(from, this.pointOf(touch))
    if (isTap) this.change(frame.centred(this.frame, this.pointOf(touch)))
  },

  /** @returns {import('../../services/frame').Point}  in fractions of the photo */
  pointOf({ clientX, clientY }) {
    const { left, top, width, height } = this.area
    return { x: within((clientX - this.stage.left - left) / width), y: within((clientY - this.stage.top - top) / height) }
  },

  /** The middle between two fingers, and how far they are from each other, in pixels of the stage. */
  fingersOf([one, other]) {
    const middle = { x: (one.clientX + other.clientX) / 2 - this.stage.left, y: (one.clientY + other.clientY) / 2 - this.stage.top }
    return { middle, distance: Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) }
  },

  onFine() {
    this.setData({ isFine: !this.data.isFine })
    this.layOut()
  },

  onMove({ currentTarget }) {
    this.change(frame.moved(this.frame, currentTarget.dataset.move))
  },

  async onAsk() {
    if (this.isAsking) return // a second tap asks about the same part
    this.isAsking = true
    try {
      const part = await photo.crop(this.data.photo, this.frame)
      if (appearance.isInView(this)) routes.replace(routes.result(snaps.open(part)))
    } catch (failure) {
      if (failure.kind === 'photoGone') this.setData({ state: 'gone' })
      else dialogs.say(this.data.text.failed)
    }
    this.isAsking = false
  },

  onCancel() {
    routes.back()
  },
})

function within(fraction) {
  return Math.min(1, Math.max(0, fraction))
}

function isFar(a, b) {
  return Math.abs(a.x - b.x) > TAP || Math.abs(a.y - b.y) > TAP
}
