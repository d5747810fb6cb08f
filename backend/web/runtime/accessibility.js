/**
 * WeChat's aria-* attributes and `hidden` on any built-in component, put on its element; and taps from the keyboard.
 * It invents no labels: those come from the templates.
 */
import * as glassEasel from 'glass-easel'

/** Property of every built-in component -> attribute of its element. */
const ATTRIBUTES = {
  hidden: 'hidden',
  ariaRole: 'role',
  ariaLabel: 'aria-label',
  ariaHidden: 'aria-hidden',
  ariaChecked: 'aria-checked',
  ariaExpanded: 'aria-expanded',
  ariaLive: 'aria-live',
  ariaLevel: 'aria-level',
  ariaBusy: 'aria-busy',
}

/** Roles that a keyboard can reach and press. */
const PRESSABLE = new Set(['button', 'link', 'radio', 'switch'])

export const commonProperties = Object.fromEntries(
  Object.keys(ATTRIBUTES).map((name) => [name, { type: null, value: null }]),
)

/** Observers that keep the attributes equal to the properties. */
export const attributeObservers = Object.entries(ATTRIBUTES).map(([property, attribute]) => ({
  fields: property,
  observer(value) {
    setAttribute(this.$$, attribute, value)
  },
}))

function setAttribute(element, attribute, value) {
  if (value === null || value === undefined || (value === false && !attribute.startsWith('aria-')))
    element.removeAttribute(attribute)
  else element.setAttribute(attribute, value === true && !attribute.startsWith('aria-') ? '' : String(value))
  if (attribute === 'role') makeReachable(element, value)
}

export function makeReachable(element, role) {
  if (PRESSABLE.has(role)) element.tabIndex = 0
}

/** Enter and the space bar tap whatever the focus is on. */
export function listenToKeyboard() {
  document.addEventListener('keydown', (event) => {
    const element = event.target
    if ((event.key !== 'Enter' && event.key !== ' ') || !element.__wxElement) return
    if (!PRESSABLE.has(element.getAttribute('role'))) return
    event.preventDefault()
    if (event.repeat) return // the key was held: the next page is not meant
    const { x, y } = element.getBoundingClientRect()
    glassEasel.triggerEvent(
      element.__wxElement,
      'tap',
      { x, y },
      { bubbles: true, composed: true, originalEvent: event },
    )
  })
}
