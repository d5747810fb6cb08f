/**
 * Frames a part of a snap's photo, by finger or by buttons, and asks about that part alone: as a snap of its own, cut
 * out of the photo in its own resolution. Its states: framing, and gone where there is no photo.
 */
const appearance = require('../../services/appearance')
const frame = require('../../services/frame')
const photo = require('../../services/photo')
const routes = require('../../services/routes')
const snaps = require('../../services/snaps')
const wording = require('../../services/wording')

/** Fractions of the photo: a finger that moved less has tapped. */
const TAP = 0.02

/** Pixels from a corner: a finger there moves the corner. */
const HANDLE = 22

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
  /** @type {import('../../services/frame').Point | null}  where the finger went down, in fractions of the photo */
  from: null,
  /** While the part is being cut out. */
  isAsking: false,
  /** Whether the finger is on a corner of the frame. */
  isResizing: false,
  /** Where the photo is on the screen, while a finger is on it. */
  area: { left: 0, top: 0, width: 1, height: 1 },

  onLoad({ id }) {
    const { path, box } = snaps.original(id || '')
    this.frame = frame.start(box)
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

  /** The photo's own proportions, as large as there is room. */
  onPhotoLoad({ detail: { width, height } }) {
    const ratio = width / height
    this.setData({ photoStyle: `width: min(100%, calc(var(--stage-height) * ${ratio})); aspect-ratio: ${ratio}` })
  },

  onPhotoError() {
    this.setData({ state: 'gone' })
  },

  onTouchStart({ touches: [touch] }) {
    this.from = null
    wx.createSelectorQuery()
      .select('#photo')
      .fields({ rect: true, size: true })
      .exec(([area]) => {
        this.area = area
        const reach = { x: HANDLE / area.width, y: HANDLE / area.height }
        const opposite = frame.opposite(this.frame, this.pointOf(touch), reach)
        this.isResizing = Boolean(opposite)
        this.from = opposite || this.pointOf(touch)
      })
  },

  onTouchMove({ touches: [touch] }) {
    if (!this.from) return
    const to = this.pointOf(touch)
    if (isFar(this.from, to)) this.change(frame.between(this.from, to))
  },

  onTouchEnd({ changedTouches: [touch] }) {
    if (!this.from) return
    const to = this.pointOf(touch)
    if (!this.isResizing && !isFar(this.from, to)) this.change(frame.centred(this.frame, to))
    this.from = null
  },

  /** @returns {import('../../services/frame').Point} */
  pointOf({ clientX, clientY }) {
    const { left, top, width, height } = this.area
    return { x: within((clientX - left) / width), y: within((clientY - top) / height) }
  },

  onFine() {
    this.setData({ isFine: !this.data.isFine })
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
      else wx.showToast({ title: this.data.text.failed, icon: 'none' })
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
