/** Photos without a connection: at most ten wait on the phone, among the snaps of history.js, and are asked about once there is one. */
const classifier = require('./classifier')
const history = require('./history')
const photo = require('./photo')

const MOST = 10

let sending = false

/** The snaps that wait, newest first. */
function list() {
  return history.list().filter(({ outcome }) => !outcome)
}

/** Lets a snap wait, with its small photo. @returns {Promise<boolean>}  whether it does: no more than ten wait */
async function add(id, small) {
  if (!history.find(id) && list().length >= MOST) return false
  return history.add(id, null, small).then(
    () => true,
    () => false,
  )
}

/** Asks about the snaps that wait, the oldest first. @returns {Promise<boolean>}  whether one was answered */
async function send() {
  if (sending) return false
  sending = true
  let answered = false
  for (const { id, photo: path } of list().reverse()) {
    try {
      const outcome = await classifier.classify(await photo.readBase64(path)).outcome
      if (!list().some((entry) => entry.id === id)) continue // deleted, or answered on its page
      await history.add(id, outcome, path)
      answered = true
    } catch ({ kind }) {
      if (kind === 'offline') break // else its page says why
    }
  }
  sending = false
  return answered
}

module.exports = { add, send }
