/** Touch events with WeChat's fields, and a mouse that touches like a finger. Taps are the engine's own work. */
import * as glassEasel from 'glass-easel'

const KIND_BY_POINTER_EVENT = {
  pointerdown: 'touchstart',
  pointermove: 'touchmove',
  pointerup: 'touchend',
  pointercancel: 'touchcancel',
}

/** What a mini program finds on a touch event beside `detail`; nothing for other events. */
export function touchFields({ touches, changedTouches }) {
  return touches && { touches: Array.from(touches, plain), changedTouches: Array.from(changedTouches, plain) }
}

/** Whether a tap was made since a first finger has touched the screen. */
let hasTapped = false

/** Fingers that land beside each other make one tap, as that of a thumb and a knuckle. @param {TouchEvent | MouseEvent} event  that ends the tap */
export function isFurtherTap({ type, touches }) {
  if (type !== 'touchend') return false
  const isFurther = hasTapped
  hasTapped = touches.length > 0
  return isFurther
}

export function listenToFirstFinger() {
  const begin = ({ touches }) => {
    if (touches.length === 1) hasTapped = false
  }
  document.addEventListener('touchstart', begin, { capture: true, passive: true })
}

/** Moves outside of the element belong to it, as a finger's do, until the button is let go. */
export function listenToMouse() {
  let target = null
  const touch = (event) => {
    if (event.pointerType !== 'mouse') return
    if (event.type === 'pointerdown') target = elementAt(event.target)
    if (!target) return
    const kind = KIND_BY_POINTER_EVENT[event.type]
    const isDown = kind === 'touchstart' || kind === 'touchmove'
    const finger = plain({ identifier: 0, clientX: event.clientX, clientY: event.clientY })
    const extraFields = { touches: isDown ? [finger] : [], changedTouches: [finger] }
    glassEasel.triggerEvent(target, kind, {}, { bubbles: true, composed: true, originalEvent: event, extraFields })
    if (!isDown) target = null
  }
  for (const type of Object.keys(KIND_BY_POINTER_EVENT)) document.addEventListener(type, touch)
}

/** A finger's click comes after its tap, and would press what the tap has put in that place: the button of a dialog. */
export function dropLateClicks() {
  let touched = null
  const hear = (event) => {
    const { type, pointerType, target, detail } = event
    if (type === 'click' && touched && target !== touched && detail) event.stopImmediatePropagation()
    touched = type === 'pointerdown' && pointerType !== 'mouse' ? target : null
  }
  for (const type of ['pointerdown', 'pointercancel', 'click']) document.addEventListener(type, hear, true)
}

/** Pixels and milliseconds between the two taps of a double tap. */
const SAME_PLACE = 30
const DOUBLE_TAP_MS = 400

/** What a tap may press. */
const PRESSABLE = '[role=button], [role=radio], button'

/** The second tap of a double tap is no tap on the page, dialog or button that the first one brought into view, or uncovered. */
export function dropSecondTaps() {
  let first = { surface: null, pressed: null, x: 0, y: 0, time: 0 }
  let dropping = false
  let isMouse = false
  const begin = ({ target, clientX: x, clientY: y, timeStamp: time }, isSecond) => {
    const surface = document.querySelector('dialog[open]') ?? document.querySelector('.wx-frame:not([hidden])')
    const pressed = target.closest(PRESSABLE)
    dropping = isSecond && (surface !== first.surface || pressed !== first.pressed)
    if (!dropping) first = { surface, pressed, x, y, time }
  }
  const hear = (event) => {
    const { type, pointerType, detail, clientX: x, clientY: y, timeStamp: time } = event
    if (type === 'pointerdown') {
      isMouse = pointerType === 'mouse'
      dropping = false
      const isNear = Math.hypot(x - first.x, y - first.y) < SAME_PLACE && time - first.time < DOUBLE_TAP_MS
      if (!isMouse) begin(event, isNear)
    }
    if (type === 'mousedown' && isMouse) begin(event, detail > 1)
    if (dropping) event.stopImmediatePropagation()
  }
  const types = ['pointerdown', 'touchstart', 'mousedown', 'pointerup', 'touchend', 'mouseup', 'click']
  for (const type of types) window.addEventListener(type, hear, { capture: true, passive: true })
}

function elementAt(node) {
  while (node && !node.__wxElement) node = node.parentNode
  return node?.__wxElement
}

function plain({ identifier, clientX, clientY }) {
  return { identifier, clientX, clientY, pageX: clientX, pageY: clientY }
}
