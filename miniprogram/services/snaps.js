/**
 * Snaps: photos on their way to an answer. Each has an id of its own, so that an answer can only ever reach the page
 * that shows its photo. A photo is kept from the moment it is chosen (in history.js, without an answer), and sent once,
 * whoever asks: its page, the background (waiting.js), or another window.
 */
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
 * @property {boolean} isNew  whether its page asks about it for the first time, or has yet to: until then it can be cancelled
 * @property {string} photo  as large as there is one; '' where only the history has it
 * @property {Promise<boolean>} kept  whether the phone keeps it: its storage may be full, or its owner forbids it
 * @property {string[]} others  ids of the snaps that were chosen with it, and are asked about together
 * @property {Promise<classifier.Outcome> | null} asked  the answer under way
 * @property {() => void} abort  the request for it
 */

/** @type {Map<string, Snap>}  by id */
const snaps = new Map()

/** @returns {Snap}  not to be changed by others */
function of(id) {
  if (!snaps.has(id)) snaps.set(id, { state: 'resting', isNew: false, photo: '', kept: Promise.resolve(true), others: [], asked: null, abort() {} })
  return snaps.get(id)
}

/**
 * A copy of a snap's photo.
 * @typedef {object} Small
 * @property {string} id
 * @property {string} path
 * @property {string} base64
 * @property {boolean} [unshown]  neither phone nor server can show it
 * @property {string} [kept]  the history's file of it, which has another name once it was turned
 */
/** @typedef {'shrinking' | 'asking' | 'starting' | 'unreached'} Stage */
/** @typedef {{stage?: Stage, shown?: string, outcome?: classifier.Outcome, failure?: any}} News */

/** Before each further attempt while a server starts: together as long as loading models may take. */
const PAUSES_MS = [1000, 2000, 4000, 8000, 15000]
const READY_TIMEOUT_MS = 5000

/** After so long without an answer the phone says itself what it can. */
const SLOW_MS = 8000

/** Seconds: a server that asks for more than this does not just start. */
const LONG_WAIT = 60

/** What an attempt with the same photo would fail of again. */
const REFUSALS = ['refused', 'tooLarge', 'notPhoto', 'notAllowed', 'tooSmall', 'empty', 'photoGone']

/**
 * Each photo is a snap of its own, kept and with an answer, whatever becomes of the others.
 * @param {string[]} paths  at least one, of one dog
 * @returns {string}  id of the snap of the first
 */
function open(...[path, ...others]) {
  const ids = others.map((other) => open(other))
  const id = Date.now().toString(36) + '-' + snaps.size + Math.random().toString(36).slice(2, 6)
  Object.assign(of(id), { isNew: true, photo: path, others: ids, kept: history.add(id, null, path, true) })
  return id
}

/** What the phone itself says of a photo, kept beside it. @returns {Promise<News>}  {} where it can say nothing */
async function guess(id, kind, path) {
  const outcome = await offline.guess(kind, path)
  if (!outcome || isAnswered(id)) return {}
  history.change(id, { onPhone: outcome })
  return { outcome }
}

/** Whether the history has what a server said of it. */
function isAnswered(id) {
  const { outcome = null } = history.find(id) || {}
  return Boolean(outcome)
}

/** The photo of a snap as it is shown and sent: small and upright once that was made. @returns {string}  '' where there is none */
function best(id) {
  const kept = history.find(id)
  return kept && !kept.isRaw ? kept.photo : original(id)
}

/** The same as large as there is one: as it was chosen in this session, else as the history has it. @returns {string} */
function original(id) {
  const { photo: kept = '' } = history.find(id) || {}
  return of(id).photo || kept
}

/** Makes a photo small and upright, by the server's help where this phone cannot show it, and keeps that instead. @returns {Promise<Small>}  rejects with a Failure */
async function prepare(id) {
  const snap = of(id)
  await snap.kept // the copy of what was chosen, which the small one replaces
  const before = history.find(id)
  const path = best(id)
  if (before && !before.isRaw) return { id, path, base64: await photo.readBase64(path), kept: path }
  let small = await photo.prepare(path)
  const shown = small.unshown ? await classifier.shown(small.base64) : ''
  if (shown) {
    snap.photo = shown
    small = await photo.prepare(shown)
  }
  if (small.tooSmall) throw new Failure('tooSmall')
  const after = history.find(id)
  if (before && !after) throw new Failure('photoGone') // deleted meanwhile
  if (!isAnswered(id) && !small.unshown && snap.state !== 'cancelled') snap.kept = history.add(id, null, small.path)
  await snap.kept
  const { photo: kept } = history.find(id) || {}
  return Object.assign({ id, kept }, small)
}

/** Whether the photo is another one by now. @param {Small} small */
function isTurned({ id, kept }) {
  const { photo: now = kept } = history.find(id) || {}
  return now !== kept
}

/** Keeps an answer, and once more tries to keep the small copy where the phone had no room for it. @param {Small} small */
async function keep({ id, path, unshown }, answer) {
  const { isRaw = false } = history.find(id) || {}
  if (isRaw && !unshown) of(id).kept = history.add(id, answer, path)
  if (!isRaw || unshown || !(await of(id).kept)) history.answer(id, answer)
}

/**
 * Sends a photo and keeps its answer, once: who asks meanwhile gets the same answer. Of a photo that was turned meanwhile
 * nothing is kept.
 * @param {Small} small
 * @returns {Promise<classifier.Outcome>}  rejects with a Failure
 */
function ask(small) {
  const { id } = small
  const snap = of(id)
  if (snap.asked) return snap.asked
  const wasKept = Boolean(history.find(id))
  const asked = storage.alone(`snap-${id}`, send)
  const forget = () => {
    if (snap.asked === asked) snap.asked = null
  }
  snap.asked = asked
  asked.then(forget, forget)
  return asked

  function check() {
    if (snap.asked !== asked || snap.state === 'cancelled' || isTurned(small)) throw new Failure('cancelled')
  }

  async function send() {
    if (snap.state === 'cancelled') throw new Failure('cancelled')
    const before = history.find(id)
    if (wasKept && !before) throw new Failure('photoGone') // deleted while another window was asked
    if (before && before.outcome) return before.outcome
    const answer = await askTogether().catch((failure) => {
      check()
      return note(id, failure)
    })
    await keep(small, answer)
    return answer
  }

  /** Together with those that were chosen with it; about this one where a server takes no several photos, or not one of these. */
  async function askTogether() {
    const others = await prepareOthers(snap.others)
    const classify = (images) => {
      check()
      const { outcome, cancel } = classifier.classify(images)
      snap.abort = cancel
      return outcome
    }
    const images = [small, ...others].map(({ base64 }) => base64)
    const answer = await classify(images).catch((failure) => {
      if (images.length < 2 || ![...REFUSALS, 'wrongModel'].includes(failure.kind)) throw failure
      return classify(images.slice(0, 1))
    })
    check()
    const { together } = answer
    if (!together) return answer
    others.forEach((other, place) => isTurned(other) || keep(other, together.others[place]))
    return Object.assign({}, answer, { together: Object.assign({}, together, { others: [] }) })
  }
}

/** What cannot be prepared or shown, or has its answer, is not asked about. @param {string[]} ids @returns {Promise<Small[]>} */
async function prepareOthers(ids) {
  const open = ids.filter((id) => !isAnswered(id))
  const prepared = await Promise.all(open.map((id) => prepare(id).catch(() => null)))
  return prepared.filter((small) => small && !small.unshown)
}

/** What a failure means for a photo that is kept and still without an answer: it is not sent any more, or later. @returns {never} */
function note(id, failure) {
  const { kind, retryAfter } = failure
  if (isAnswered(id)) throw failure
  if (REFUSALS.includes(kind)) history.change(id, { outcome: { state: 'refused', kind, breeds: [], feedbackId: '' } })
  else if (kind !== 'cancelled') history.change(id, { why: kind, until: retryAfter ? Date.now() + retryAfter * 1000 : 0 })
  throw failure
}

/** Prepares and sends the photo of a kept snap. @returns {Promise<classifier.Outcome>}  rejects with a Failure */
async function send(id) {
  of(id).isNew = false
  return ask(await prepare(id).catch((failure) => note(id, failure)))
}

/**
 * Turns the photo of a snap clockwise, and keeps it so.
 * @param {string} id
 * @param {number} degrees  90, 180 or 270
 * @param {classifier.Outcome | null} outcome  null: it is to be asked about again
 * @returns {Promise<string>}  the small copy; '' where this phone cannot draw the photo, or has no room for it
 */
async function turn(id, degrees, outcome) {
  try {
    const path = await photo.turn(original(id), degrees)
    const small = await replace(id, path, outcome)
    if (small && !outcome) drop(of(id))
    return small
  } catch (failure) {
    return ''
  }
}

/** The answer under way is of no use any more. */
function drop(snap) {
  snap.asked = null
  snap.abort()
}

/** Asks once more for a copy of a kept photo that this phone can show. @returns {Promise<string>}  '' where there is none; rejects with a Failure where the photo is gone */
async function show(id) {
  const kept = history.find(id)
  const path = kept ? await classifier.shown(await photo.readBase64(kept.photo)) : ''
  return path && replace(id, path, kept.outcome)
}

/** Another picture of a snap. @returns {Promise<string>}  the small copy; '' where the phone keeps the snap and has no room for that */
async function replace(id, path, outcome) {
  const small = await photo.prepare(path)
  await of(id).kept
  if (!(await history.turn(id, small.path, outcome))) return ''
  of(id).photo = path
  return small.path
}

/**
 * Shrinks, sends, and tells of each step: {stage}, {shown}, the small copy, then {outcome} or {failure}. After stop() it
 * says nothing and begins no further attempt.
 * @param {string} id
 * @param {(news: News) => void} tell
 * @returns {() => void}  stop
 */
function run(id, tell) {
  let stopped = false
  const snap = of(id)
  const together = [snap, ...snap.others.map(of)]
  for (const each of together) if (each.state !== 'cancelled') each.state = 'watched'
  const say = (news) => {
    if (!stopped) tell(news)
  }
  const stop = () => {
    if (stopped) return // another run may watch by now
    stopped = true
    for (const each of together) {
      each.isNew = false
      if (each.state === 'watched') each.state = 'resting'
    }
  }

  /** @returns {Promise<News>}  the last */
  async function go() {
    offline.warm()
    const small = await prepare(id).catch((failure) => note(id, failure))
    say({ shown: small.path })
    for (const pause of [...PAUSES_MS, 0]) {
      if (stopped) break
      say({ stage: 'asking' })
      const slow = setTimeout(() => guess(id, 'slow', small.path).then(say), SLOW_MS)
      try {
        return { outcome: await ask(small) }
      } catch (failure) {
        clearTimeout(slow)
        const guessed = await guess(id, failure.kind, small.path)
        if (guessed.outcome) return guessed
        const stage = pause && !stopped && (await stageOf(failure))
        if (!stage) throw failure
        say({ stage })
        await new Promise((resolve) => setTimeout(resolve, pause))
      } finally {
        clearTimeout(slow)
      }
    }
    return {}
  }

  go()
    .catch((failure) => ({ failure }))
    .then((last) => {
      say(last)
      stop()
    })
  return stop
}

/** The user does not want what was just chosen: it is neither kept nor sent later. What came to anything since stays. */
function cancel(id) {
  const snap = of(id)
  snap.others.forEach(cancel)
  if (!snap.isNew || isAnswered(id)) return
  Object.assign(snap, { state: 'cancelled', photo: '' })
  drop(snap)
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

module.exports = { open, of, best, original, send, run, show, turn, cancel }
