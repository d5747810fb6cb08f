/** wx storage on localStorage: values are kept as JSON; a key that is not there reads as "". */

export const PREFIX = 'dogsnap:'

export const storage = {
  setStorageSync: (key, value) => localStorage.setItem(PREFIX + key, JSON.stringify(value)),
  getStorageSync(key) {
    const text = localStorage.getItem(PREFIX + key)
    return text === null ? '' : JSON.parse(text)
  },
  removeStorageSync: (key) => localStorage.removeItem(PREFIX + key),
}
