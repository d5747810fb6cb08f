/** wx storage on localStorage: values are kept as JSON; a key that is not there reads as "". */
import { failure } from './api.js'
import { checkStored } from './limits.js'

export const PREFIX = 'dogsnap:'

export const storage = {
  setStorageSync(key, value) {
    const text = JSON.stringify(value)
    try {
      checkStored(text, lengthOfOthers(PREFIX + key))
      localStorage.setItem(PREFIX + key, text)
    } catch (error) {
      throw failure('setStorageSync', error)
    }
  },
  getStorageSync(key) {
    const text = localStorage.getItem(PREFIX + key)
    return text === null ? '' : JSON.parse(text)
  },
  removeStorageSync: (key) => localStorage.removeItem(PREFIX + key),
}

/** Characters under all keys but one. */
function lengthOfOthers(key) {
  return Object.keys(localStorage).reduce((sum, other) => sum + (other === key ? 0 : localStorage.getItem(other).length), 0)
}
