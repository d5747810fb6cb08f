/** What a phone never answers counts as failed: else all that comes after it would wait, too. */
const SILENCE_MS = 5000

/**
 * @template T
 * @param {Promise<T>} promise  of something that some phones leave without an answer
 * @param {number} [silenceMs]
 * @param {import('./request').FailureKind} [kind]
 * @returns {Promise<T>}  rejects with an error of that kind after so long
 */
module.exports = function answered(promise, silenceMs = SILENCE_MS, kind = 'unread') {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(Object.assign(new Error(kind), { kind })), silenceMs)
    promise.then(resolve, reject).then(() => clearTimeout(timer))
  })
}
