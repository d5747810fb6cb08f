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

/** @typedef {{verdict: 'right' | 'mix' | 'other' | 'no_dog'} | {breed: string}} Said */

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
async function give(feedbackId, said) {
  const data = Object.assign({ request_id: feedbackId }, said)
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
  if (!asked) return { verdict: 'right' }
  return state === 'noDog' ? { verdict: 'no_dog' } : { breed: breeds[0].id }
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
