/** By name: the last work that was begun, until it ends. @type {Map<string, Promise<any>>} */
const last = new Map()

/**
 * One after the other, in the order in which they were begun; the first at once.
 * @template T
 * @param {string} name  of what takes one work at a time
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
module.exports = function inTurn(name, work) {
  const before = last.get(name)
  const turn = before ? before.then(work, work) : work()
  const end = () => {
    if (last.get(name) === turn) last.delete(name)
  }
  last.set(name, turn)
  turn.then(end, end)
  return turn
}
