/**
 * Snaps: photos on their way to an answer. Each has an id of its own, so that an answer can only ever reach the page
 * that shows its photo. A photo is kept from the moment it is chosen (in history.js, without an answer), and sent once,
 * whoever asks: its page, the background (waiting.js), or another window.
 */
const classifier = require('./classifier')
const history = require('./history')
const photo = require('./photo')
const request = require('./request')

const { Failure } = request

/** @type {Map<string, string>} snap id -> photo, for photos of this session */
const photos = new Map()

/** @type {Map<string, Promise<boolean>>} snap id -> whether the phone keeps it */
const keeping = new Map()

/** @type {Map<string, {outcome: Promise<classifier.Outcome>, cancel: () => void}>} snap id -> its request under way */
const requests = new Map()

/** Snaps whose pages ask about them. */
const running = new Set()

/** Snaps that the user does not want any more. */
const cancelled = new Set()

/** @typedef {'shrinking' | 'asking' | 'starting' | 'unreached'} Stage */
/** @typedef {{stage?: Stage, shown?: string, outcome?: classifier.Outcome, photo?: string, failure?: any}} News */

/** Before each further attempt while a server starts: together as long as loading models may take. */
const PAUSES_MS = [1000, 2000, 4000, 8000, 15000]
const READY_TIMEOUT_MS = 5000

/** Seconds: a server that asks for more than this does not just start. */
const LONG_WAIT = 60

/** Another attempt with the same photo would fail, too. */
const REFUSALS = ['refused', 'tooLarge', 'notPhoto', 'notAllowed', 'tooSmall', 'empty', 'photoGone']

/** A photo opened with the app from outside, until the home page takes it. */
let forwarded = ''

/**
 * @param {string} path
 * @returns {string}  id of a new snap
 */
function open(path) {
  const id = Date.now().toString(36) + '-' + photos.size + Math.random().toString(36).slice(2, 6)
  photos.set(id, path)
  keep(id, path, null, true)
  return id
}

/** @param {classifier.Outcome | null} outcome @param {boolean} isRaw  whether the photo has yet to be made small */
function keep(id, path, outcome, isRaw) {
  if (cancelled.has(id)) return
  const kept = history.add(id, outcome, path, isRaw).then(
    () => true,
    () => false,
  )
  keeping.set(id, kept)
}

/** Whether the phone keeps a snap: its storage may be full, or its owner forbids it. */
async function isKept(id) {
  return (await keeping.get(id)) !== false
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
 * Makes a photo small and upright, by the server's help where this phone cannot show it, and keeps that instead.
 * @param {string} id
 * @param {string} path
 * @param {(news: News) => void} [tell]  of {shown}, the copy that the phone can show
 * @returns {Promise<{path: string, base64: string}>}  rejects with a Failure
 */
async function prepare(id, path, tell = () => {}) {
  await keeping.get(id) // the copy of what was chosen, which the small one replaces
  const before = history.find(id)
  if (before && before.photo === path && !before.isRaw) return { path, base64: await photo.readBase64(path) }
  let small = await photo.prepare(path)
  const shown = small.unshown ? await classifier.shown(small.base64) : ''
  if (shown) {
    photos.set(id, shown)
    tell({ shown })
    small = await photo.prepare(shown)
  }
  if (small.tooSmall) throw new Failure('tooSmall')
  const after = history.find(id)
  if (before && !after) throw new Failure('photoGone') // deleted meanwhile
  if (!(after && after.outcome) && !small.unshown) keep(id, small.path, null, false)
  await keeping.get(id)
  return small
}

/**
 * Sends a photo and keeps its answer, once: who asks meanwhile gets the same answer.
 * @param {string} id
 * @param {{path: string, base64: string}} small
 * @returns {Promise<classifier.Outcome>}  rejects with a Failure
 */
function ask(id, small) {
  const underWay = requests.get(id)
  if (underWay) return underWay.outcome
  let cancelRequest = () => {}
  const wasKept = Boolean(history.find(id))
  const outcome = alone(`snap-${id}`, send)
  requests.set(id, { outcome, cancel: () => cancelRequest() })
  const forget = () => requests.delete(id)
  outcome.then(forget, forget)
  return outcome

  async function send() {
    if (cancelled.has(id)) throw new Failure('cancelled')
    const before = history.find(id)
    if (wasKept && !before) throw new Failure('photoGone') // deleted while another window was asked
    if (before && before.outcome) return before.outcome
    const asked = classifier.classify(small.base64)
    cancelRequest = asked.cancel
    const answer = await asked.outcome.catch((failure) => note(id, failure))
    if (!wasKept || history.find(id)) keep(id, small.path, answer, false)
    await keeping.get(id)
    return answer
  }
}

/** What a failure means for a photo that is kept. @returns {never} */
function note(id, failure) {
  const { kind, retryAfter } = failure
  if (isRefusal(failure)) history.change(id, { outcome: { state: 'refused', kind, breeds: [], feedbackId: '' } })
  else if (retryAfter) history.change(id, { until: Date.now() + retryAfter * 1000 })
  throw failure
}

/**
 * Turns the photo of a snap clockwise, and keeps it so.
 * @param {string} id
 * @param {number} degrees  90, 180 or 270
 * @param {classifier.Outcome | null} outcome  null: it is to be asked about again
 * @returns {Promise<boolean>}  false where this phone cannot draw the photo
 */
async function turn(id, degrees, outcome) {
  const path = await photo.turn(original(id).path, degrees).catch(() => '')
  if (path) await replace(id, path, outcome)
  return Boolean(path)
}

/** Asks once more for a copy of a kept photo that this phone can show. @returns {Promise<string>}  '' where there is none */
async function show(id) {
  const kept = history.find(id)
  const path = kept ? await classifier.shown(await photo.readBase64(kept.photo)) : ''
  if (path) await replace(id, path, kept.outcome)
  return path
}

/** Shows another picture of a snap, and keeps it if the phone does. */
async function replace(id, path, outcome) {
  photos.set(id, path)
  const small = await photo.prepare(path)
  await keeping.get(id)
  await history.turn(id, small.path, outcome).catch(() => {})
}

/** Whether the page of a snap asks about it. */
function isRunning(id) {
  return running.has(id)
}

/** Whether a photo has failed for good. @param {{kind: string}} failure */
function isRefusal({ kind }) {
  return REFUSALS.includes(kind)
}

/** Windows of one browser share what is kept; a phone has one. */
function alone(name, act) {
  const { canIUse, withLock } = /** @type {any} */ (wx)
  return canIUse && canIUse('withLock') ? withLock(name, act) : act()
}

/**
 * Shrinks, sends, and tells of each step: {stage}, {shown} where the photo needs a copy that the phone can show, then
 * {outcome, photo} or {failure, photo}. After stop() it says nothing and begins no further attempt.
 * @param {string} id
 * @param {string} path
 * @param {(news: News) => void} tell
 * @returns {() => void}  stop
 */
function run(id, path, tell) {
  let stopped = false
  running.add(id)
  let small = { path: '', base64: '' }
  const say = (news) => {
    if (!stopped) tell(news)
  }

  async function go() {
    say({ stage: 'shrinking' })
    small = await prepare(id, path, say)
    for (const pause of [...PAUSES_MS, 0]) {
      if (stopped) return
      say({ stage: 'asking' })
      try {
        return say({ outcome: await ask(id, small), photo: small.path })
      } catch (failure) {
        const stage = pause && !stopped && (await stageOf(failure))
        if (!stage) throw failure
        say({ stage })
        await new Promise((resolve) => setTimeout(resolve, pause))
      }
    }
  }

  const stop = () => {
    stopped = true
    running.delete(id)
  }
  go()
    .catch((failure) => say({ failure, photo: small.path }))
    .then(stop)
  return stop
}

/** The user does not want it: it is neither kept nor sent later. */
function cancel(id) {
  cancelled.add(id)
  const underWay = requests.get(id)
  if (underWay) underWay.cancel()
  Promise.resolve(keeping.get(id)).then(() => history.remove(id))
}

/** What a failed attempt waits for; '' where another one would hardly help. @returns {Promise<Stage | ''>} */
async function stageOf({ kind, retryAfter }) {
  if (kind === 'offline') return (await wx.getNetworkType()).networkType === 'none' ? '' : 'unreached'
  if (kind !== 'busy' || retryAfter > LONG_WAIT) return ''
  const { answer } = request.send('/readyz', { timeoutMs: READY_TIMEOUT_MS })
  return answer.then(
    () => '',
    () => 'starting',
  )
}

module.exports = { open, isKept, photoOf, original, forward, takeForwarded, prepare, ask, isRefusal, isRunning, run, show, turn, cancel }
