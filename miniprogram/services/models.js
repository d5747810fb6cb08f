/** Which models, versions and labels the server has, whether they tell dogs, and how long it keeps feedback. */
const request = require('./request')
const settings = require('./settings')
const storage = require('./storage')

const TIMEOUT_MS = 10 * 1000

/** Where it is kept whether the version that answers tells dogs, so that the app begins with the right words. */
const DOGS_KEY = 'areDogs'

/**
 * @typedef {{version: number, state: string, classes?: number | null, dogs?: boolean}} Version  classes: how many it names, if
 *   the server knows; dogs: whether these are breeds of dogs
 * @typedef {{name: string, versions: Version[], labels: Record<string, number>, default_version: number}} Model
 */

/**
 * @returns {Promise<{models: Model[], feedbackDays: number}>}  feedbackDays: how long the server keeps feedback, 0 if it
 *   takes none; rejects with a Failure
 */
async function all() {
  const answer = await request.send('/api/models', { timeoutMs: TIMEOUT_MS }).answer
  const isModel = (model) => model && Array.isArray(model.versions) && model.versions.every(Boolean)
  if (!answer || !Array.isArray(answer.models) || !answer.models.every(isModel)) throw new request.Failure('unreadable')
  learn(answer)
  const models = answer.models.map((model) => Object.assign({}, model, { labels: model.labels || {} }))
  return { models, feedbackDays: answer.feedback_days || 0 }
}

/** Called when the classes are of another kind than before. */
let onChange = () => {}

/** @param {() => void} callback  for when the app's words change; with this it begins to ask the server */
function follow(callback) {
  onChange = callback
  all().catch(() => {})
}

/** Whether the classes are breeds of dogs, as far as this phone knows. @returns {boolean} */
function areDogs() {
  return storage.read(DOGS_KEY, true)
}

/** A server of an earlier release says nothing, and tells dogs. */
function learn({ models, default_model: standard }) {
  const { model = standard, version, label } = settings.get().model || {}
  const { versions = [], labels = {}, default_version: usual } = models.find(({ name }) => name === model) || {}
  const number = version || labels[label] || usual
  const answering = versions.find((candidate) => candidate.version === number)
  const dogs = !answering || answering.dogs !== false
  if (dogs === areDogs()) return
  storage.write(DOGS_KEY, dogs)
  onChange()
}

/**
 * Everything a user can pin, labels first: versions that are loaded and name breeds. A server may have models for other
 * things beside, and would refuse a photo for them.
 * @param {Model[]} models
 * @returns {import('./settings').ModelChoice[]}
 */
function choices(models) {
  return models.flatMap(({ name, versions, labels }) => {
    const naming = versions.filter(({ state, classes }) => state === 'AVAILABLE' && classes !== 0)
    const numbers = naming.map(({ version }) => version)
    const usable = Object.keys(labels).filter((label) => numbers.includes(labels[label]))
    return [...usable.map((label) => ({ model: name, label })), ...numbers.map((version) => ({ model: name, version }))]
  })
}

module.exports = { all, choices, follow, areDogs }
