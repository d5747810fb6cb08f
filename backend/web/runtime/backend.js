/**
 * Where glass-easel puts its elements: the DOM of this window, with WeChat's element names (wx-view, wx-button, ...).
 * Pages and components are in engine.js.
 */
import * as glassEasel from 'glass-easel'
import { isFurtherTap, touchFields } from './touches.js'

/** In the templates of built-in components, <html-img> is the browser's own <img>. */
const NATIVE_PREFIX = 'html-'

/** @param {string[]} builtinTags */
export function createBackend(builtinTags) {
  const backend = new glassEasel.CurrentWindowBackendContext()
  backend.document = {
    createElement: (tag) => createElement(tag, builtinTags),
    createTextNode,
    createDocumentFragment: () => document.createDocumentFragment(),
  }
  backend.onEvent((target, type, detail, options) => {
    if (type === 'tap' && isFurtherTap(options.originalEvent)) return
    glassEasel.triggerEvent(target, type, detail, { ...options, extraFields: touchFields(options.originalEvent) })
  })
  return backend
}

/** An element of its own: a browser that translates a page replaces text nodes, and what the engine then wrote would be seen by nobody. */
function createTextNode(text) {
  return Object.assign(document.createElement('wx-run'), { textContent: text })
}

function createElement(tag, builtinTags) {
  const element = document.createElement(elementName(tag, builtinTags))
  // A content security policy without 'unsafe-inline' forbids style attributes but allows the same text by script.
  element.setAttribute = (name, value) => {
    if (name === 'style') element.style.cssText = String(value)
    else Element.prototype.setAttribute.call(element, name, value)
  }
  return element
}

function elementName(tag, builtinTags) {
  if (tag.startsWith(NATIVE_PREFIX)) return tag.slice(NATIVE_PREFIX.length)
  return builtinTags.includes(tag) ? 'wx-' + tag : tag
}
