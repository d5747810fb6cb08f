/**
 * The built-in components this runtime knows, by tag. A template that uses another one does not build.
 * Each is data: a template, properties, and the methods its template calls; engine.js registers them.
 */
import { button } from './button.js'
import { image } from './image.js'
import { input } from './input.js'
import { pageMeta } from './page_meta.js'

const view = { template: '<slot />' }
const text = { template: '<slot />', properties: { userSelect: Boolean } }

/** <canvas type="2d">: a browser's canvas inside; wx.createSelectorQuery hands it out as the node to draw on. */
const canvas = { template: '<html-canvas></html-canvas>', properties: { type: String } }

export const BUILTINS = { view, text, image, button, canvas, input, 'page-meta': pageMeta }
