/**
 * Snaps: a photo on its way to an answer. Each has an id of its own, so that an answer can only ever reach the page
 * that shows its photo. Answers are kept by history.js, not here.
 */
const classifier = require('./classifier')
const history = require('./history')
const photo = require('./photo')
const request = require('./request')

/** @type {Map<string, string>} snap id -> photo, for photos of this session */
const photos = new Map()

/** @typedef {'shrinking' | 'asking' | 'starting' | 'unreached'} Stage */
/** @typedef {{stage?: Stage, shown?: string, outcome?: classifier.Outcome, photo?: string, failure?: any}} News */

/** Before each further attempt while a server starts: together as long as loading models may take. */
const PAUSES_MS = [1000, 2000, 4000, 8000, 15000]
const READY_TIMEOUT_MS = 5000

/** A photo opened with the app from outside, until the home page takes it. */
let forwarded = ''

/**
 * @param {string} path
 * @returns {string}  id of a new snap
 */
function open(path) {
  const id = Date.now().toString(36) + '-' + photos.size
  photos.set(id, path)
  return id
}

/** Another file of the same photo. */
function replace(id, path) {
  photos.set(id, path)
}

/** @returns {string | undefined} */
function photoOf(id) {
  return photos.get(id)
}

/**
 * The photo of a snap as large as there is one: as it was chosen in this session, else the small copy in the history.
 * @returns {{path: string, box: number[] | null}}  path: '' when there is none; box: where the server saw the dog
 */
function original(id) {
  const kept = history.find(id)
  return { path: photos.get(id) || (kept ? kept.photo : ''), box: (kept && kept.outcome && kept.outcome.box) || null }
}

function forward(path) {
  forwarded = path
}

/** The forwarded photo, once. */
function takeForwarded() {
  const path = forwarded
  forwarded = ''
  return path
}

/**
 * Shrinks, sends, and tells of each step: {stage}, {shown} where the photo needs a copy that the phone can show, then {outcome, photo} or {failure, photo}. After stop() it says nothing.
 * @param {string} path
 * @param {(news: News) => void} tell
 * @returns {() => void}  stop
 */
function run(path, tell) {
  let stopped = false
  let cancelRequest = () => {}
  let small = { path: '', base64: '' }
  const say = (news) => {
    if (!stopped) tell(news)
  }

  async function go() {
    say({ stage: 'shrinking' })
    const own = (small = await photo.prepare(path))
    const shown = own.unshown && !stopped ? await classifier.shown(small.base64) : ''
    if (shown) {
      say({ shown })
      small = await photo.prepare(shown)
    }
    if (small.tooSmall) throw new request.Failure('tooSmall')
    for (const pause of [...PAUSES_MS, 0]) {
      if (stopped) return
      say({ stage: 'asking' })
      const { outcome, cancel } = classifier.classify(small.base64)
      cancelRequest = cancel
      try {
        return say({ outcome: await outcome, photo: small.path })
      } catch (failure) {
        const stage = pause && !stopped && (await stageOf(failure))
        if (!stage) throw failure
        say({ stage })
        await new Promise((resolve) => setTimeout(resolve, pause))
      }
    }
  }

  go().catch((failure) => say({ failure, photo: small.path }))
  return () => {
    stopped = true
    cancelRequest()
  }
}

/** What a failed attempt waits for; '' where another one would hardly help. @returns {Promise<Stage | ''>} */
async function stageOf({ kind }) {
  if (kind === 'offline') return (await wx.getNetworkType()).networkType === 'none' ? '' : 'unreached'
  if (kind !== 'busy') return ''
  const { answer } = request.send('/readyz', { timeoutMs: READY_TIMEOUT_MS })
  return answer.then(
    () => '',
    () => 'starting',
  )
}

module.exports = { open, replace, photoOf, original, forward, takeForwarded, run }
