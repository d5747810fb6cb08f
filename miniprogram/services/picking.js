/**
 * Lets the user pick photos of one dog, and says what to do where the phone does not allow it. What becomes of them is the
 * pages' business.
 */
const dialogs = require('./dialogs')
const { texts } = require('./language')
const photo = require('./photo')
const refusals = require('./refusals')
const routes = require('./routes')

/** Milliseconds: two taps on one button mean one dialog; later ones may follow a dialog whose end nothing tells. */
const DOUBLE_TAP_MS = 1000

/** A photo that came from outside the app, until it is taken. */
let forwarded = ''

/** The dialog that was opened last, if it has not ended. */
let open = { sources: '', time: 0 }

/**
 * @param {('camera' | 'album')[]} sources
 * @returns {Promise<string[]>}  temporary files; none where the user cancelled or was told why
 */
async function pick(sources) {
  if (open.sources === sources.join() && Math.abs(Date.now() - open.time) < DOUBLE_TAP_MS) return []
  const opened = (open = { sources: sources.join(), time: Date.now() })
  if (routes.isSinglePage()) {
    dialogs.say(texts().singlePage)
    return []
  }
  try {
    return await photo.choose(sources)
  } catch (refused) {
    console.warn('no photo chosen:', refused.errno, refused.errMsg)
    const { camera, ...sentences } = texts().refused.photo
    const other = isOfCamera(refused, sources) ? camera : sentences.other
    await refusals.explain(refused, Object.assign(sentences, { other, denied: other }))
    return []
  } finally {
    if (open === opened) open = { sources: '', time: 0 }
  }
}

/** @param {{errMsg?: string}} refused @param {('camera' | 'album')[]} sources */
function isOfCamera({ errMsg = '' }, sources) {
  return (sources.length === 1 && sources[0] === 'camera') || /camera/i.test(errMsg)
}

/** @param {string} path  of a photo that came from a chat, or was dropped or pasted */
function forward(path) {
  forwarded = path
}

/** @returns {string}  once for each photo; '' where there is none */
function takeForwarded() {
  const path = forwarded
  forwarded = ''
  return path
}

module.exports = { pick, forward, takeForwarded }
