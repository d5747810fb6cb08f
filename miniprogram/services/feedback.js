/**
 * Tells the server what the user says about an answer, and has it forget that. The ids of what was said stay on this
 * phone, so that nothing is asked twice and all of it can be taken back.
 */
const request = require('./request')
const storage = require('./storage')

const GIVEN = 'feedback'
const TO_FORGET = 'feedbackToForget'
const MOST = 500
const TIMEOUT_MS = 15 * 1000

/** The server takes it for a day; a phone's clock may be a little wrong. */
const TAKEN_MS = 23.5 * 3600 * 1000

/**
 * @typedef {object} Said
 * @property {'right' | 'mix' | 'other' | 'no_dog' | ''} verdict  '' where it is a breed that the server knows
 * @property {string} breed  its id, else ''
 * @property {string} name  of the breed, in English or as the user typed it; else ''
 * @property {string} name_zh
 */

/**
 * Whether the user can still say something about an answer, or has done so.
 * @param {import('./classifier').Outcome} outcome
 * @param {number} time  of the answer, in milliseconds since 1970
 * @returns {'open' | 'given' | ''}
 */
function stateOf({ feedbackId }, time) {
  if (!feedbackId) return ''
  if (given().includes(feedbackId)) return 'given'
  return Date.now() - time < TAKEN_MS ? 'open' : ''
}

/**
 * @param {string} feedbackId
 * @param {Said} said
 * @returns {Promise<void>}  rejects with a Failure
 */
async function give(feedbackId, { verdict, breed, name }) {
  const data = Object.assign({ request_id: feedbackId }, breed ? { breed } : name ? { verdict, text: name } : { verdict })
  if (toForget().includes(feedbackId)) await forgetRest() // else that would take back what is said now
  try {
    await request.send('/api/feedback', { method: 'POST', data, timeoutMs: TIMEOUT_MS }).answer
  } catch (failure) {
    if (failure.kind !== 'taken') throw failure // said already: an answer was lost on its way
  }
  storage.write(GIVEN, [feedbackId, ...given()].slice(0, MOST))
}

/**
 * What "right" means: of an answer that was asked about, that the first breed is right, or that there is no dog.
 * @param {import('./classifier').Outcome} outcome
 * @returns {Said}
 */
function confirmation({ asked, state, breeds }) {
  const nothing = { verdict: '', breed: '', name: '', name_zh: '' }
  if (!asked) return { ...nothing, verdict: 'right' }
  if (state === 'noDog') return { ...nothing, verdict: 'no_dog' }
  const [{ id, name, name_zh }] = breeds
  return { verdict: '', breed: id, name, name_zh }
}

/**
 * Has the server forget what was said about some answers. What cannot be sent now is sent when the app starts again.
 * @param {string[]} feedbackIds  those of which nothing was said are passed over
 */
function forget(feedbackIds) {
  const known = given()
  const gone = feedbackIds.filter((id) => known.includes(id))
  storage.write(
    GIVEN,
    known.filter((id) => !gone.includes(id)),
  )
  storage.write(TO_FORGET, [...toForget(), ...gone])
  return forgetRest()
}

/** Everything that was said on this phone. */
function forgetAll() {
  return forget(given())
}

async function forgetRest() {
  const ids = toForget().slice(0, MOST)
  if (!ids.length) return
  try {
    await request.send('/api/feedback/forget', { method: 'POST', data: { request_ids: ids }, timeoutMs: TIMEOUT_MS })
      .answer
    storage.write(
      TO_FORGET,
      toForget().filter((id) => !ids.includes(id)),
    )
  } catch (failure) {
    console.warn('feedback is forgotten later:', failure.kind)
  }
}

/** @returns {string[]} */
function given() {
  return storage.read(GIVEN, [])
}

/** @returns {string[]} */
function toForget() {
  return storage.read(TO_FORGET, [])
}

module.exports = { stateOf, confirmation, give, forget, forgetAll, forgetRest }
