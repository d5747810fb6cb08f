/** Asks the backend which dog a photo shows. What the user gets to see of the answer is the result page's business. */
const install = require('./install')
const request = require('./request')
const settings = require('./settings')

/** Longer than the server's own deadline of 30 s, so that a slow server can say so itself. */
const TIMEOUT_MS = 40 * 1000

/** By this header the server knows a phone again that it has put on one of two versions. */
const KEY_HEADER = 'X-Request-Key'

/**
 * @typedef {{id: string, name: string, name_zh: string, probability: number}} Guess
 * @typedef {object} Outcome
 * @property {'shown' | 'unsure' | 'noDog'} state
 * @property {Guess[]} breeds  most likely first
 * @property {{name: string, version: number}} model  which one really answered
 */

/**
 * How many breeds come back is left to the server: a model may know fewer than any number asked for.
 * @param {string} image  base64
 * @returns {{outcome: Promise<Outcome>, cancel: () => void}}  outcome rejects with a Failure
 */
function classify(image) {
  const { model } = settings.get()
  const data = Object.assign({ image }, model)
  const header = { [KEY_HEADER]: install.key() }
  const { answer, cancel } = request.send('/api/classify', { method: 'POST', data, header, timeoutMs: TIMEOUT_MS })
  const outcome = answer.then(toOutcome)
  return { outcome: model ? outcome.catch(blameModel) : outcome, cancel }
}

/**
 * What the app sends is the same for every photo: a request that is refused is so because of the model the user chose.
 * @returns {never}
 */
function blameModel(failure) {
  throw failure.kind === 'refused' ? new request.Failure('wrongModel', failure) : failure
}

/** @returns {Outcome} */
function toOutcome(answer) {
  if (!answer || !Array.isArray(answer.breeds) || !answer.model) throw new request.Failure('unreadable')
  return { state: stateOf(answer), breeds: answer.breeds, model: answer.model }
}

function stateOf({ dog, confident }) {
  if (!dog) return 'noDog'
  return confident ? 'shown' : 'unsure'
}

module.exports = { classify }
