/**
 * One request to the backend. wx.request calls `success` for every status code, so statuses become failures here; which
 * sentence a failure is told with is the pages' business.
 */
const { baseUrl } = require('../config')
const answered = require('./answered')
const settings = require('./settings')

/** The header of the API key. */
const KEY_HEADER = 'X-Api-Key'

/**
 * @typedef {'offline' | 'unreached' | 'timeout' | 'cancelled' | 'refused' | 'locked' | 'noModel' | 'noneReady' | 'taken' | 'wrongModel' | 'tooLarge'
 *   | 'notPhoto' | 'notAllowed' | 'busy' | 'slow' | 'server' | 'unreadable' | 'unread' | 'photoGone' | 'tooSmall' | 'empty'} FailureKind
 */

/** Kinds of failure that may be over after a while. */
const LATER = ['offline', 'unreached', 'timeout', 'noneReady', 'busy', 'slow', 'server', 'unreadable', 'unread', 'unexpected']

/** Why there is no answer: `kind` for the texts, the rest to be shown beside them. */
class Failure extends Error {
  /**
   * @param {FailureKind} kind
   * @param {{retryAfter?: number, requestId?: string}} [details]  retryAfter in seconds
   */
  constructor(kind, details = {}) {
    super(kind)
    this.kind = kind
    this.retryAfter = details.retryAfter || 0
    this.requestId = details.requestId || ''
  }
}

/** @type {Record<number, FailureKind>} */
const KIND_BY_STATUS = {
  400: 'refused',
  401: 'locked',
  403: 'locked',
  404: 'noModel',
  409: 'taken',
  413: 'tooLarge',
  415: 'notPhoto',
  422: 'notAllowed',
  429: 'busy',
  503: 'busy',
  504: 'slow',
}

/**
 * A key that the server does not know (an old link, one that was removed) must not keep the app out of an open server: it is
 * asked once more without, and if that gets in the key goes.
 * @param {string} path
 * @param {{method?: 'GET' | 'POST', data?: object, header?: Record<string, string>, timeoutMs: number}} options
 * @returns {{answer: Promise<any>, cancel: () => void}}  answer rejects with a Failure
 */
function send(path, { timeoutMs: timeout, header: own, ...options }) {
  /** @type {WechatMiniprogram.RequestTask} */
  let task
  const ask = (key) =>
    new Promise((success, reject) => {
      const header = key ? Object.assign({ [KEY_HEADER]: key }, own) : own
      const fail = ({ errMsg }) => lostConnection(errMsg).then((kind) => reject(new Failure(kind)))
      task = wx.request({ ...options, url: baseUrl + path, header, timeout, success, fail })
    })
  const { key } = settings.get()
  const answer = ask(key).then(async (response) => {
    if (response.statusCode !== 401 || !key) return bodyOf(response)
    const withoutKey = await ask('')
    if (withoutKey.statusCode === 200 && settings.get().key === key) settings.change({ key: '' })
    return bodyOf(withoutKey)
  })
  return { answer, cancel: () => task.abort() }
}

/** The body of an answer. Throws a Failure. */
function bodyOf(response) {
  if (response.statusCode !== 200) throw refusal(response)
  return response.data
}

/** @param {{statusCode: number, data: any, header: any}} response */
function refusal({ statusCode, data, header }) {
  const { error = '', request_id: requestId } = data || {}
  const kind = KIND_BY_STATUS[statusCode] || 'server'
  const isOthers = !error && ['refused', 'notPhoto', 'notAllowed'].includes(kind) // of a gateway in between
  return new Failure(isOthers ? 'unreadable' : kind, { retryAfter: retryAfter(header), requestId })
}

/** In seconds, at most a day. The header is a number, or a date by the server's clock: the phone's may be wrong. */
function retryAfter(header) {
  const value = headerValue(header, 'retry-after') || ''
  const now = Date.parse(headerValue(header, 'date')) || Date.now()
  const seconds = Number(value) || Math.round((Date.parse(value) - now) / 1000) || 0
  return Math.min(24 * 3600, Math.max(0, seconds))
}

/** Phones write header names each in their own way. */
function headerValue(header, name) {
  const key = Object.keys(header || {}).find((candidate) => candidate.toLowerCase() === name)
  return key ? header[key] : undefined
}

/**
 * @param {string} errMsg  "request:fail abort", "request:fail timeout", or one of many words for "no connection"
 * @returns {Promise<FailureKind>}
 */
async function lostConnection(errMsg) {
  if (/abort/.test(errMsg)) return 'cancelled'
  if (/timeout|timed out/i.test(errMsg)) return 'timeout'
  return (await isConnected()) ? 'unreached' : 'offline'
}

/** As far as the phone knows. @returns {Promise<boolean>} */
async function isConnected() {
  return (await networkType()) !== 'none'
}

/** Whether it costs the user something, as far as the phone knows. @returns {Promise<boolean>} */
async function isMetered() {
  return /^\dg$/.test(await networkType())
}

/** @returns {Promise<string>}  'wifi', '4g', 'none' and so on; '' where the phone does not say */
async function networkType() {
  const known = await answered(wx.getNetworkType()).catch(() => null)
  return known ? known.networkType : ''
}

module.exports = { send, isConnected, isMetered, Failure, KEY_HEADER, LATER }
