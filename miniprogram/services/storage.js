/**
 * What the app keeps on the phone under a name. A phone that refuses (it is full, or its owner forbids it) costs the
 * user only that nothing outlives the session. It knows no names. Each value is read from the phone once, since the app
 * waits for that: who reads a value gets the one copy, and must not change it.
 */
const { inBrowser } = require('../config')
const inTurn = require('./in_turn')

/** @type {Map<string, any>}  what was read or written */
const memory = new Map()

/** Names whose value the phone refused to write or remove: their only copy is this session's. */
const refused = new Set()

/** @returns {any}  what was written last, or else `otherwise`; not to be changed */
function read(name, otherwise) {
  const kept = memory.has(name) ? memory.get(name) : readPhone(name)
  return kept === '' ? otherwise : kept
}

/** WeChat returns '' for a missing value. */
function readPhone(name) {
  try {
    const kept = wx.getStorageSync(name)
    memory.set(name, kept)
    return kept
  } catch (error) {
    return '' // it may be read the next time
  }
}

/** @returns {boolean}  whether the phone keeps it beyond this session */
function write(name, value) {
  return attempt(name, value, () => wx.setStorageSync(name, value))
}

/** @returns {boolean}  whether it is gone beyond this session */
function remove(name) {
  return attempt(name, '', () => wx.removeStorageSync(name))
}

function attempt(name, value, act) {
  memory.set(name, value)
  try {
    act()
    refused.delete(name)
    return true
  } catch (error) {
    refused.add(name)
    return false
  }
}

/** Another window may have written: what the phone has is read anew. */
function forget() {
  for (const name of memory.keys()) if (!refused.has(name)) memory.delete(name)
}

/** Acts once all that began before under the same name has ended, also in other windows of this browser. @template T @param {() => Promise<T>} act @returns {Promise<T>} */
function alone(name, act) {
  const actAnew = () => {
    forget()
    return act()
  }
  return inTurn(name, inBrowser ? () => /** @type {any} */ (wx).withLock(name, actAnew) : act)
}

module.exports = { read, write, remove, forget, alone }
