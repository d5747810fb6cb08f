/** Which models, versions and labels the server has, and how long it keeps feedback, for the settings page. */
const request = require('./request')

const TIMEOUT_MS = 10 * 1000

/**
 * @typedef {{version: number, state: string, classes?: number | null}} Version  classes: how many breeds it names, if the
 *   server knows
 * @typedef {{name: string, versions: Version[], labels: Record<string, number>, default_version: number}} Model
 */

/**
 * @returns {Promise<{models: Model[], feedbackDays: number}>}  feedbackDays: how long the server keeps feedback, 0 if it
 *   takes none; rejects with a Failure
 */
async function all() {
  const answer = await request.send('/api/models', { timeoutMs: TIMEOUT_MS }).answer
  if (!answer || !Array.isArray(answer.models)) throw new request.Failure('unreadable')
  return { models: answer.models, feedbackDays: answer.feedback_days || 0 }
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
    const usable = Object.keys(labels || {}).filter((label) => numbers.includes(labels[label]))
    return [...usable.map((label) => ({ model: name, label })), ...numbers.map((version) => ({ model: name, version }))]
  })
}

module.exports = { all, choices }
