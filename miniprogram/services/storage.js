/**
 * What the app keeps on the phone under a name. A phone that refuses (it is full, or its owner forbids it) costs the
 * user only that nothing outlives the session. It knows no names.
 */

/** @type {Map<string, any>}  what the phone refused to write or remove, for this session */
const unwritten = new Map()

/** @returns {any}  what was written last, or else `otherwise` */
function read(name, otherwise) {
  const kept = unwritten.has(name) ? unwritten.get(name) : readPhone(name)
  return kept === '' ? otherwise : kept
}

/** WeChat returns '' for a missing value. */
function readPhone(name) {
  try {
    return wx.getStorageSync(name)
  } catch (refused) {
    return ''
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
  try {
    act()
    unwritten.delete(name)
    return true
  } catch (refused) {
    unwritten.set(name, value)
    return false
  }
}

module.exports = { read, write, remove }
