/**
 * The built-in components this runtime knows, by tag. A template that uses another one does not build.
 * Each is data: a template, properties, and the methods its template calls; engine.js registers them.
 */
import { button } from './button.js'
import { canvas } from './canvas.js'
import { image } from './image.js'
import { input } from './input.js'
import { pageMeta } from './page_meta.js'
import { text } from './text.js'
import { view } from './view.js'

export const BUILTINS = { view, text, image, button, canvas, input, 'page-meta': pageMeta }
