/** Which models, versions and labels the server has, for the settings page. It chooses none. */
const request = require('./request')

const TIMEOUT_MS = 10 * 1000

/**
 * @typedef {{version: number, state: string}} Version
 * @typedef {{name: string, versions: Version[], labels: Record<string, number>, default_version: number}} Model
 */

/** @returns {Promise<Model[]>}  rejects with a Failure */
async function all() {
  const answer = await request.send('/api/models', { timeoutMs: TIMEOUT_MS }).answer
  if (!answer || !Array.isArray(answer.models)) throw new request.Failure('unreadable')
  return answer.models
}

/**
 * Everything a user can pin, labels first.
 * @param {Model[]} models
 * @returns {import('./settings').ModelChoice[]}
 */
function choices(models) {
  return models.flatMap(({ name, versions, labels }) => {
    const byLabel = Object.keys(labels || {}).map((label) => ({ model: name, label }))
    const loaded = versions.filter(({ state }) => state === 'AVAILABLE')
    return [...byLabel, ...loaded.map(({ version }) => ({ model: name, version }))]
  })
}

module.exports = { all, choices }
