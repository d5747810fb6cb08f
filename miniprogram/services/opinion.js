/** What the user says about the shown dog of a snap: the server is told, and the history keeps it. */
const feedback = require('./feedback')
const history = require('./history')

/** @typedef {import('./feedback').Said} Said */

/**
 * What "right" means: of an answer that was asked about, that the first breed is right, that it is
 * another breed than those that are known, or that there is no dog.
 * @param {import('./classifier').Outcome} outcome
 * @returns {Said}
 */
function confirmation({ asked, state, breeds }) {
  const nothing = { verdict: '', breed: '', name: '', name_zh: '' }
  if (!asked) return { ...nothing, verdict: 'right' }
  if (state === 'no_dog') return { ...nothing, verdict: 'no_dog' }
  if (state === 'unknown') return { ...nothing, verdict: 'other' }
  const [{ id, name, name_zh }] = breeds
  return { verdict: '', breed: id, name, name_zh }
}

/**
 * @param {string} snapId
 * @param {import('./classifier').Outcome} outcome  another dog may be shown before it is sent
 * @param {Said} said
 * @returns {Promise<void>}  rejects with a Failure
 */
async function give(snapId, { feedbackId, chosen }, said) {
  await feedback.give(feedbackId, said)
  history.say(snapId, said, chosen)
}

/** @param {string} snapId @param {import('./classifier').Outcome} outcome */
async function takeBack(snapId, { feedbackId, chosen }) {
  const forgotten = feedback.forget([feedbackId])
  history.say(snapId, null, chosen)
  await forgotten
  history.say(snapId, null, chosen) // it may have been on its way until now
}

module.exports = { confirmation, give, takeBack }
