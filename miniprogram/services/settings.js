/** The user's choices, kept on the phone. What they mean is decided by the services that ask for them. */

const storage = require('./storage')

const KEY = 'settings'

/**
 * @typedef {{model: string, version?: number, label?: string}} ModelChoice
 * @typedef {object} Settings
 * @property {'phone' | 'zh' | 'zh-Hant' | 'en'} language
 * @property {'phone' | 'light' | 'dark'} theme
 * @property {ModelChoice | null} model  null: whatever the server answers with by default
 * @property {boolean} offline  whether the phone is to answer by itself where there is no connection
 * @property {string} key  what a server with keys lets this app in by; '' for none
 */

/** @type {Settings} */
const DEFAULTS = { language: 'phone', theme: 'phone', model: null, offline: false, key: '' }

/** @returns {Settings} */
function get() {
  return Object.assign({}, DEFAULTS, storage.read(KEY, {}))
}

/** @param {Partial<Settings>} changes */
function change(changes) {
  storage.write(KEY, Object.assign(get(), changes))
}

module.exports = { get, change }
