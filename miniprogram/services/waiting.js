/**
 * Photos without an answer: they wait on the phone, among the snaps of history.js, and are asked about in the background
 * while the app is open, at every page that is shown and after pauses that grow: neither browsers nor phones always tell
 * that a connection has come back.
 */
const canvas = require('./canvas')
const history = require('./history')
const request = require('./request')
const snaps = require('./snaps')

const MOST = 10
const FIRST_PAUSE_MS = 5000
const LONGEST_PAUSE_MS = 5 * 60 * 1000
const LONGEST_WAIT_MS = 24 * 3600 * 1000

/** The page of a new photo asks about it by then, unless it was left before it was drawn. */
const OPENING_MS = 10 * 1000

let isSending = false
let pause = FIRST_PAUSE_MS
/** @type {any} */
let timer = null
/** Told of each photo that was answered or refused. */
let tell = () => {}

/** @param {() => void} listener */
function follow(listener) {
  tell = listener
}

/** The snaps that wait, newest first. */
function list() {
  return history.list().filter(({ outcome }) => !outcome)
}

/** A snap goes on waiting while no more than ten are kept; else it is gone. */
function accept(id) {
  if (list().length > MOST) history.remove(id)
  else if (!timer) tryLater()
}

/** Asks about the snaps that wait, the oldest first, and again later if some are left. */
async function send() {
  pause = FIRST_PAUSE_MS
  await attempt()
}

async function attempt() {
  clearTimeout(timer)
  timer = null
  if (isSending || !list().length) return
  isSending = true
  try {
    if (await request.isConnected()) await sendAll()
  } finally {
    isSending = false
    tryLater()
  }
}

function tryLater() {
  timer = setTimeout(attempt, pause)
  pause = Math.min(LONGEST_PAUSE_MS, 2 * pause)
}

/** A time that lies far ahead is of a clock that was wrong. */
function isTooEarly(until) {
  return until > Date.now() && until - Date.now() <= LONGEST_WAIT_MS
}

/** Whether its page asks about it, or is about to. */
function isForPage({ id, time }) {
  const { state } = snaps.of(id)
  return ['first', 'again'].includes(state) || (state === 'chosen' && Math.abs(Date.now() - time) < OPENING_MS)
}

async function sendAll() {
  for (const entry of list().reverse()) {
    const { id, until = 0, isRaw } = entry
    if (isTooEarly(until) || (isRaw && !(await canvas.find()))) continue
    if (!history.find(id) || isForPage(entry)) continue
    try {
      await snaps.send(id)
    } catch (failure) {
      if (['offline', 'unreached'].includes(failure.kind)) return
      if (list().some((other) => other.id === id)) continue
    }
    tell()
  }
}

module.exports = { accept, follow, send }
