/**
 * Snaps: photos on their way to an answer. Each has an id of its own, so that an answer can only ever reach the page
 * that shows its photo. A photo is kept from the moment it is chosen (in history.js, without an answer), and sent once,
 * whoever asks: its page, the background (waiting.js), or another window.
 */
const { inBrowser } = require('../config')
const classifier = require('./classifier')
const history = require('./history')
const offline = require('./offline')
const photo = require('./photo')
const request = require('./request')
const storage = require('./storage')

const { Failure } = request

/**
 * What is known of a snap in this session.
 * @typedef {object} Snap
 * @property {'resting' | 'watched' | 'cancelled'} state  watched: its page asks about it; cancelled: the user does not want it
 * @property {string} photo  as large as there is one; '' where only the history has it
 * @property {Promise<boolean>} kept  whether the phone keeps it: its storage may be full, or its owner forbids it
 * @property {string[]} others  ids of the snaps that were chosen with it, and are asked about together
 * @property {{outcome: Promise<classifier.Outcome>, cancel: () => void} | null} request  under way
 */

/** @type {Map<string, Snap>}  by id */
const snaps = new Map()

/** @returns {Snap}  not to be changed by others */
function of(id) {
  if (!snaps.has(id)) snaps.set(id, { state: 'resting', photo: '', kept: Promise.resolve(true), others: [], request: null })
  return snaps.get(id)
}

/** @typedef {'shrinking' | 'asking' | 'starting' | 'unreached'} Stage */
/** @typedef {{stage?: Stage, shown?: string, outcome?: classifier.Outcome, photo?: string, failure?: any}} News */

/** Before each further attempt while a server starts: together as long as loading models may take. */
const PAUSES_MS = [1000, 2000, 4000, 8000, 15000]
const READY_TIMEOUT_MS = 5000

/** After so long without an answer the phone says itself what it can. */
const SLOW_MS = 8000

/** Seconds: a server that asks for more than this does not just start. */
const LONG_WAIT = 60

/** Another attempt with the same photo would fail, too. */
const REFUSALS = ['refused', 'tooLarge', 'notPhoto', 'notAllowed', 'tooSmall', 'empty', 'photoGone']

/**
 * @param {string} path
 * @returns {string}  id of a new snap
 */
function open(path) {
  const id = Date.now().toString(36) + '-' + snaps.size + Math.random().toString(36).slice(2, 6)
  of(id).photo = path
  keep(id, path, null, true)
  return id
}

/**
 * Each photo is a snap of its own, kept and with an answer, whatever becomes of the others.
 * @param {string[]} paths  at least one, of one dog
 * @returns {string}  id of the snap of the first
 */
function openAll(paths) {
  const others = paths.slice(1).map(open)
  const id = open(paths[0])
  of(id).others = others
  return id
}

/** @param {classifier.Outcome | null} outcome @param {boolean} isRaw  whether the photo has yet to be made small */
function keep(id, path, outcome, isRaw) {
  const snap = of(id)
  if (snap.state === 'cancelled') return
  snap.kept = history.add(id, outcome, path, isRaw).then(
    () => true,
    () => false,
  )
}

/** What the phone itself says of a photo, kept beside it until the server answers. @returns {Promise<classifier.Outcome | null>} */
async function guess(id, failure, path) {
  const outcome = await offline.guess(failure, path)
  if (outcome) history.change(id, { onPhone: outcome })
  return outcome
}

/** The photo of a snap as it is shown and sent: small and upright once that was made. @returns {string}  '' where there is none */
function best(id) {
  const kept = history.find(id)
  return (kept && !kept.isRaw && kept.photo) || of(id).photo || (kept ? kept.photo : '')
}

/**
 * The photo of a snap as large as there is one: as it was chosen in this session, else the small copy in the history.
 * @returns {{path: string, box: number[] | null}}  path: '' when there is none; box: where the server saw the dog
 */
function original(id) {
  const kept = history.find(id)
  return { path: of(id).photo || (kept ? kept.photo : ''), box: (kept && kept.outcome && kept.outcome.box) || null }
}

/**
 * Makes a photo small and upright, by the server's help where this phone cannot show it, and keeps that instead.
 * @param {string} id
 * @param {string} path
 * @param {(news: News) => void} [tell]  of {shown}, the small copy, which the phone can show
 * @returns {Promise<{path: string, base64: string}>}  rejects with a Failure
 */
async function prepare(id, path, tell = () => {}) {
  await of(id).kept // the copy of what was chosen, which the small one replaces
  const before = history.find(id)
  if (before && before.photo === path && !before.isRaw) return { path, base64: await photo.readBase64(path) }
  let small = await photo.prepare(path)
  const shown = small.unshown ? await classifier.shown(small.base64) : ''
  if (shown) {
    of(id).photo = shown
    small = await photo.prepare(shown)
  }
  if (small.tooSmall) throw new Failure('tooSmall')
  const after = history.find(id)
  if (before && !after) throw new Failure('photoGone') // deleted meanwhile
  if (!(after && after.outcome) && !small.unshown) keep(id, small.path, null, false)
  await of(id).kept
  tell({ shown: small.path })
  return small
}

/**
 * Sends a photo and keeps its answer, once: who asks meanwhile gets the same answer.
 * @param {string} id
 * @param {{path: string, base64: string}} small
 * @returns {Promise<classifier.Outcome>}  rejects with a Failure
 */
function ask(id, small) {
  const snap = of(id)
  if (snap.request) return snap.request.outcome
  let cancelRequest = () => {}
  const wasKept = Boolean(history.find(id))
  const outcome = alone(`snap-${id}`, send)
  snap.request = { outcome, cancel: () => cancelRequest() }
  const forget = () => {
    snap.request = null
  }
  outcome.then(forget, forget)
  return outcome

  async function send() {
    if (snap.state === 'cancelled') throw new Failure('cancelled')
    const before = history.find(id)
    if (wasKept && !before) throw new Failure('photoGone') // deleted while another window was asked
    if (before && before.outcome) return before.outcome
    const answer = await askTogether().catch((failure) => note(id, failure))
    if (!wasKept || history.find(id)) keep(id, small.path, answer, false)
    await of(id).kept
    return answer
  }

  /** Together with those that were chosen with it; a server that takes no several photos is asked about this one. */
  async function askTogether() {
    const others = await prepareOthers(snap.others)
    const classify = (images) => {
      const asked = classifier.classify(images)
      cancelRequest = asked.cancel
      return asked.outcome
    }
    const images = [small, ...others].map(({ base64 }) => base64)
    const answer = await classify(images).catch((failure) => {
      if (images.length < 2 || failure.kind !== 'refused') throw failure
      return classify(images.slice(0, 1))
    })
    const { together } = answer
    if (!together) return answer
    others.forEach((other, place) => history.find(other.id) && keep(other.id, other.path, together.others[place], false))
    return Object.assign({}, answer, { together: Object.assign({}, together, { others: [] }) })
  }
}

/** What cannot be prepared, or has its answer, is not asked about. @param {string[]} ids @returns {Promise<{id: string, path: string, base64: string}[]>} */
async function prepareOthers(ids) {
  const ready = []
  for (const id of ids) {
    const { outcome = null } = history.find(id) || {}
    const small = outcome ? null : await prepare(id, best(id)).catch(() => null)
    if (small) ready.push({ id, path: small.path, base64: small.base64 })
  }
  return ready
}

/** What a failure means for a photo that is kept: it is not sent any more, or later. @returns {never} */
function note(id, failure) {
  const { kind, retryAfter } = failure
  if (isRefusal(failure)) history.change(id, { outcome: { state: 'refused', kind, breeds: [], feedbackId: '' } })
  else if (kind !== 'cancelled') history.change(id, { why: kind, until: retryAfter ? Date.now() + retryAfter * 1000 : 0 })
  throw failure
}

/** Prepares and sends the photo of a kept snap. @param {import('./history').Entry} entry @returns {Promise<classifier.Outcome>}  rejects with a Failure */
async function send({ id, photo: path }) {
  return ask(id, await prepare(id, path).catch((failure) => note(id, failure)))
}

/**
 * Turns the photo of a snap clockwise, and keeps it so.
 * @param {string} id
 * @param {number} degrees  90, 180 or 270
 * @param {classifier.Outcome | null} outcome  null: it is to be asked about again
 * @returns {Promise<string>}  the small copy; '' where this phone cannot draw the photo
 */
async function turn(id, degrees, outcome) {
  const path = await photo.turn(original(id).path, degrees).catch(() => '')
  return path && replace(id, path, outcome)
}

/** Asks once more for a copy of a kept photo that this phone can show. @returns {Promise<string>}  '' where there is none; rejects with a Failure where the photo is gone */
async function show(id) {
  const kept = history.find(id)
  const path = kept ? await classifier.shown(await photo.readBase64(kept.photo)) : ''
  return path && replace(id, path, kept.outcome)
}

/** Another picture of a snap, kept if the phone does. @returns {Promise<string>}  the small copy */
async function replace(id, path, outcome) {
  of(id).photo = path
  const small = await photo.prepare(path)
  await of(id).kept
  await history.turn(id, small.path, outcome).catch(() => {})
  return small.path
}

/** Whether a photo has failed for good. @param {{kind: string}} failure */
function isRefusal({ kind }) {
  return REFUSALS.includes(kind)
}

/** Windows of one browser share what is kept, and another one may have written meanwhile; a phone has one. */
function alone(name, act) {
  if (!inBrowser) return act()
  return /** @type {any} */ (wx).withLock(name, () => {
    storage.forget()
    return act()
  })
}

/**
 * Shrinks, sends, and tells of each step: {stage}, {shown} where the photo needs a copy that the phone can show, then
 * {outcome, photo} or {failure, photo}. After stop() it says nothing and begins no further attempt.
 * @param {string} id
 * @param {(news: News) => void} tell
 * @returns {() => void}  stop
 */
function run(id, tell) {
  let stopped = false
  let isAnswered = false
  const snap = of(id)
  const together = [snap, ...snap.others.map(of)]
  for (const each of together) each.state = 'watched'
  let small = { path: '', base64: '' }
  const say = (news) => {
    if (!stopped) tell(news)
  }

  async function go() {
    say({ stage: 'shrinking' })
    small = await prepare(id, best(id), say).catch((failure) => note(id, failure))
    for (const pause of [...PAUSES_MS, 0]) {
      if (stopped) return
      say({ stage: 'asking' })
      const slow = setTimeout(guessMeanwhile, SLOW_MS)
      try {
        const outcome = await ask(id, small)
        isAnswered = true
        return say({ outcome, photo: small.path })
      } catch (failure) {
        const outcome = await guess(id, failure, small.path)
        if (outcome) return say({ outcome, photo: small.path })
        const stage = pause && !stopped && (await stageOf(failure))
        if (!stage) throw failure
        say({ stage })
        await new Promise((resolve) => setTimeout(resolve, pause))
      } finally {
        clearTimeout(slow)
      }
    }
  }

  async function guessMeanwhile() {
    const outcome = await guess(id, { kind: 'slow' }, small.path)
    if (outcome && !isAnswered) say({ outcome, photo: small.path })
  }

  const stop = () => {
    stopped = true
    for (const each of together) if (each.state === 'watched') each.state = 'resting'
  }
  go()
    .catch((failure) => say({ failure, photo: small.path }))
    .then(stop)
  return stop
}

/** The user does not want it: it is neither kept nor sent later. */
function cancel(id) {
  const snap = of(id)
  snap.others.forEach(cancel)
  snap.state = 'cancelled'
  if (snap.request) snap.request.cancel()
  snap.kept.then(() => history.remove(id))
}

/** What a failed attempt waits for; '' where another one would hardly help. @returns {Promise<Stage | ''>} */
async function stageOf({ kind, retryAfter }) {
  if (kind === 'unreached') return kind
  if (kind !== 'busy' || retryAfter > LONG_WAIT) return ''
  const { answer } = request.send('/readyz', { timeoutMs: READY_TIMEOUT_MS })
  return answer.then(
    () => '',
    () => 'starting',
  )
}

module.exports = { open, openAll, of, best, original, send, isRefusal, run, show, turn, cancel }
