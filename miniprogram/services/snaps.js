/**
 * Snaps: photos on their way to an answer. Each has an id of its own, so that an answer can only ever reach the page
 * that shows its photo. A photo is kept from the moment it is chosen (in history.js, without an answer), and sent once,
 * whoever asks: its page, the background (waiting.js), or another window.
 */
const breeds = require('./breeds')
const classifier = require('./classifier')
const history = require('./history')
const offline = require('./offline')
const photo = require('./photo')
const request = require('./request')
const storage = require('./storage')

/**
 * What is known of a snap in this session.
 * @typedef {object} Snap
 * @property {'chosen' | 'first' | 'again' | 'resting' | 'cancelled'} state  chosen: its page is to come; first, again: its page asks
 *   about it, for the first time or later; resting: none does; cancelled: the user does not want it
 * @property {string} photo  as large as there is one; '' where only the history has it
 * @property {Promise<boolean>} kept  whether the phone keeps it: its storage may be full, or its owner forbids it
 * @property {string[]} others  ids of the snaps that were chosen with it, and are asked about together
 * @property {() => void} abort  the request under way
 */

/** @type {Map<string, Snap>}  by id */
const snaps = new Map()

/** @returns {Snap}  not to be changed by others */
function of(id) {
  if (!snaps.has(id)) snaps.set(id, { state: 'resting', photo: '', kept: Promise.resolve(true), others: [], abort() {} })
  return snaps.get(id)
}

/**
 * A copy of a snap's photo.
 * @typedef {object} Small
 * @property {string} id
 * @property {string} path
 * @property {string} base64
 * @property {boolean} [unshown]  neither phone nor server can show it
 * @property {string} original  what it was made of in this session
 * @property {string} [kept]  the history's file of it, which has another name once it was turned
 */
/** @typedef {{stage?: 'asking' | 'starting' | 'unreached', shown?: string, outcome?: classifier.Outcome, failure?: any}} News */

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
  Object.assign(of(id), { state: 'chosen', photo: path, others: ids, kept: history.add(id, null, path, true) })
  return id
}

/** Whether its page has not asked about it before: until then it can be cancelled. */
function isNew(id) {
  return ['chosen', 'first'].includes(of(id).state)
}

/** A cancelled one stays so. @param {Snap['state']} state */
function become(id, state) {
  if (of(id).state !== 'cancelled') of(id).state = state
}

/** What the phone itself says of a photo, kept beside it. @returns {Promise<News>}  {} where it can say nothing */
async function guess(id, kind, path) {
  const outcome = await offline.guess(kind, path)
  if (!outcome || history.outcome(id)) return {}
  history.change(id, { onPhone: outcome })
  return { outcome }
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
  if (before && !before.isRaw) return { id, path, base64: await photo.readBase64(path), original: snap.photo, kept: path }
  let small = await photo.prepare(path)
  const shown = small.unshown ? await classifier.shown(small.base64) : ''
  if (shown) {
    snap.photo = shown
    small = await photo.prepare(shown)
  }
  if (small.tooSmall) throw new request.Failure('tooSmall')
  if (before && !history.find(id)) throw new request.Failure('photoGone') // deleted meanwhile
  if (!small.unshown && snap.state !== 'cancelled') snap.kept = history.add(id, null, small.path)
  await snap.kept
  const { photo: kept } = history.find(id) || {}
  return Object.assign({ id, original: snap.photo, kept }, small)
}

/** Throws where an answer to this copy is none to the photo any more: it was turned, here or in another window, or cancelled. @param {Small} small */
function check({ id, original, kept }) {
  const { photo: now = kept } = history.find(id) || {}
  const isCurrent = of(id).state !== 'cancelled' && of(id).photo === original && now === kept
  if (!isCurrent) throw new request.Failure('cancelled')
}

/** Keeps an answer, and once more tries to keep the small copy where the phone had no room for it. @param {Small} small */
async function keep(small, outcome) {
  check(small)
  const snap = of(small.id)
  const { isRaw = false } = history.find(small.id) || {}
  if (isRaw && !small.unshown) snap.kept = history.add(small.id, null, small.path)
  await snap.kept
  history.answer(small.id, outcome)
}

/**
 * Sends a photo and keeps its answer, once, whoever else asks meanwhile.
 * @param {Small} small
 * @returns {Promise<classifier.Outcome>}  rejects with a Failure
 */
function ask(small) {
  const { id, kept } = small
  return storage.alone(`snap-${id}`, async () => {
    if (kept && !history.find(id)) throw new request.Failure('photoGone') // deleted meanwhile
    return history.outcome(id) || askTogether(small)
  })
}

/**
 * Asks about a photo together with those that were chosen with it; about this one where a server takes no several photos, or
 * not one of these.
 * @param {Small} small
 * @returns {Promise<classifier.Outcome>}
 */
async function askTogether(small) {
  const snap = of(small.id)
  const others = await prepareOthers(snap.others)
  const images = [small, ...others].map(({ base64 }) => base64)
  const classify = (some) => {
    check(small)
    const { outcomes, cancel } = classifier.classify(some)
    snap.abort = cancel
    return outcomes
  }
  try {
    const [outcome, ...further] = await classify(images).catch((failure) => {
      if (images.length < 2 || ![...REFUSALS, 'wrongModel'].includes(failure.kind)) throw failure
      return classify(images.slice(0, 1))
    })
    further.forEach((each, place) => keep(others[place], each).catch(() => {})) // which may be turned by now
    await keep(small, outcome)
    return outcome
  } catch (failure) {
    check(small)
    return note(small.id, failure)
  }
}

/** What cannot be prepared or shown, or has its answer, is not asked about. @param {string[]} ids @returns {Promise<Small[]>} */
async function prepareOthers(ids) {
  const open = ids.filter((id) => !history.outcome(id))
  const prepared = await Promise.all(open.map((id) => prepare(id).catch(() => null)))
  return prepared.filter((small) => small && !small.unshown)
}

/** What a failure means for a photo that is kept and still without an answer: it is not sent any more, or later. @returns {never} */
function note(id, failure) {
  const { kind, retryAfter } = failure
  if (history.outcome(id)) throw failure
  if (REFUSALS.includes(kind)) history.change(id, { outcome: { state: 'refused', kind, breeds: [], feedbackId: '' } })
  else history.change(id, { why: kind, until: retryAfter ? Date.now() + retryAfter * 1000 : 0 })
  throw failure
}

/** Prepares and sends the photo of a kept snap. @returns {Promise<classifier.Outcome>}  rejects with a Failure */
async function send(id) {
  become(id, 'resting')
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
  const snap = of(id)
  try {
    const path = await photo.turn(original(id), degrees)
    const small = await photo.prepare(path)
    await snap.kept
    if (!(await history.turn(id, small.path, outcome))) return ''
    snap.photo = path
    if (!outcome) snap.abort()
    return small.path
  } catch (failure) {
    return ''
  }
}

/**
 * Shrinks, sends, and tells of each step: {stage}, {shown}, the small copy, then {outcome} or {failure}. After stop() it
 * says nothing and begins no further attempt.
 * @param {string} id
 * @param {(news: News) => void} tell
 * @returns {() => void}  stop
 */
function run(id, tell) {
  const together = [id, ...of(id).others]
  const facts = breeds.soon()
  let isStopped = false
  const say = async (news) => {
    if (news.outcome) await facts
    if (!isStopped) tell(news)
  }
  const stop = () => {
    if (!isStopped) together.forEach((each) => become(each, 'resting')) // else another run may watch by now
    isStopped = true
  }

  /** @returns {Promise<News>}  the last */
  async function attempt() {
    offline.warm()
    const small = await prepare(id).catch((failure) => note(id, failure))
    say({ shown: small.path })
    for (const pause of [...PAUSES_MS, 0]) {
      if (isStopped) break
      say({ stage: 'asking' })
      const slow = setTimeout(() => guess(id, 'slow', small.path).then(say), SLOW_MS)
      /** @type {News} */
      const news = await ask(small).then(
        (outcome) => ({ outcome }),
        (failure) => ({ failure }),
      )
      clearTimeout(slow)
      if (news.outcome) return news
      const guessed = await guess(id, news.failure.kind, small.path)
      if (guessed.outcome) return guessed
      const stage = pause && !isStopped && (await stageOf(news.failure))
      if (!stage) return news
      say({ stage })
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
    return {}
  }

  together.forEach((each) => become(each, isNew(each) ? 'first' : 'again'))
  attempt()
    .catch((failure) => ({ failure }))
    .then(say)
    .then(stop)
  return stop
}

/** The user does not want what was just chosen: it is neither kept nor sent later. What came to anything since stays. */
function cancel(id) {
  const snap = of(id)
  snap.others.forEach(cancel)
  if (!isNew(id) || history.outcome(id)) return
  Object.assign(snap, { state: 'cancelled', photo: '' })
  snap.abort()
  snap.kept.then(() => history.remove(id))
}

/** What a failed attempt waits for; '' where another one would hardly help. @returns {Promise<News['stage'] | ''>} */
async function stageOf({ kind, retryAfter }) {
  if (kind === 'unreached') return kind
  if (kind !== 'busy' || retryAfter > LONG_WAIT) return ''
  const { answer } = request.send('/readyz', { timeoutMs: READY_TIMEOUT_MS })
  return answer.then(
    () => '',
    () => 'starting',
  )
}

module.exports = { open, of, isNew, best, original, prepare, send, run, turn, cancel }
