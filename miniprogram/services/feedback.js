/**
 * Tells the server what the user says about an answer, and has it forget that. The ids of what was said stay on this
 * phone, so that nothing is asked twice and all of it can be taken back.
 */
const inTurn = require('./in_turn')
const request = require('./request')
const storage = require('./storage')

/** By id of an answer, the oldest first: what the server has of it. */
const STATES = 'feedbackStates'
/** The server has what the user said. */
const GIVEN = 'given'
/** The server may have something that it has to forget: a word that was taken back, or one that is on its way. */
const TO_FORGET = 'toForget'
/** As many as the phone can remember (of 100 characters each, in 1 MB); what the server has beyond them is forgotten. */
const MOST_KEPT = 8000
/** The server forgets as many at once. */
const MOST_AT_ONCE = 500
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
 * Whether the user can still say something about the answer to a snap, or has done so.
 * @param {import('./history').Entry} [entry]  without one the phone does not keep the snap
 * @returns {'open' | 'given' | ''}
 */
function stateOf(entry) {
  const { feedbackId = '' } = (entry && entry.outcome) || {}
  if (!feedbackId) return ''
  if (states()[feedbackId] === GIVEN) return 'given'
  return Date.now() - entry.time < TAKEN_MS ? 'open' : ''
}

/**
 * Tells the server what the user said last about an answer.
 * @param {string} feedbackId
 * @param {Said} said
 * @returns {Promise<void>}  rejects with a Failure
 */
function give(feedbackId, said) {
  return inTurn('feedback', async () => {
    if (states()[feedbackId]) await sendForgetting([feedbackId])
    mark(feedbackId, TO_FORGET) // the server's answer may be lost on its way
    try {
      await send(feedbackId, said)
    } catch (failure) {
      if (failure.kind !== 'taken') throw failure
      await sendForgetting([feedbackId]) // something that this phone does not know of any more
      mark(feedbackId, TO_FORGET)
      await send(feedbackId, said)
    }
    mark(feedbackId, GIVEN)
  })
}

function send(feedbackId, { verdict, breed, name }) {
  const data = Object.assign({ request_id: feedbackId }, breed ? { breed } : name ? { verdict, text: name } : { verdict })
  return request.send('/api/feedback', { method: 'POST', data, timeoutMs: TIMEOUT_MS }).answer
}

/**
 * Has the server forget what was said about some answers. What cannot be sent now is sent when the app starts again.
 * @param {string[]} [feedbackIds]  those of which nothing was said are passed over; without any, all of this phone
 * @returns {Promise<void>}
 */
function forget(feedbackIds) {
  markToForget(feedbackIds) // the page shows it at once
  return inTurn('feedback', () => {
    markToForget(feedbackIds) // and what was under way until now
    return sendRest()
  })
}

/** What could not be sent until now. @returns {Promise<void>} */
function forgetRest() {
  return inTurn('feedback', sendRest)
}

async function sendRest() {
  const kept = states()
  const ids = Object.keys(kept).filter((id) => kept[id] === TO_FORGET)
  try {
    for (let start = 0; start < ids.length; start += MOST_AT_ONCE) await sendForgetting(ids.slice(start, start + MOST_AT_ONCE))
  } catch (failure) {
    console.warn('feedback is forgotten later:', failure.kind)
  }
}

/** @param {string[]} ids @returns {Promise<void>}  rejects with a Failure */
async function sendForgetting(ids) {
  await request.send('/api/feedback/forget', { method: 'POST', data: { request_ids: ids }, timeoutMs: TIMEOUT_MS }).answer
  const kept = states()
  ids.forEach((id) => delete kept[id])
  storage.write(STATES, kept)
}

/** @returns {Record<string, 'given' | 'toForget'>} */
function states() {
  return Object.assign({}, storage.read(STATES, {}))
}

function mark(id, state) {
  const kept = states()
  delete kept[id]
  kept[id] = state // the last one
  const given = Object.keys(kept).filter((each) => kept[each] === GIVEN)
  given.slice(0, -MOST_KEPT).forEach((oldest) => (kept[oldest] = TO_FORGET))
  storage.write(STATES, kept)
}

/** @param {string[]} [ids]  all without any */
function markToForget(ids) {
  const kept = states()
  const known = (ids || Object.keys(kept)).filter((id) => kept[id])
  known.forEach((id) => (kept[id] = TO_FORGET))
  storage.write(STATES, kept)
}

module.exports = { stateOf, give, forget, forgetRest }
