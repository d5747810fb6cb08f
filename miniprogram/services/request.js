/**
 * One request to the backend. wx.request calls `success` for every status code, so statuses become failures here; which
 * sentence a failure is told with is the pages' business.
 */
const { baseUrl } = require('../config')
const settings = require('./settings')

/** The header of the API key. */
const KEY_HEADER = 'X-Api-Key'

/**
 * @typedef {'offline' | 'timeout' | 'cancelled' | 'refused' | 'locked' | 'noModel' | 'taken' | 'wrongModel' | 'tooLarge'
 *   | 'notPhoto' | 'notAllowed' | 'busy' | 'slow' | 'server' | 'unreadable' | 'photoGone' | 'tooSmall' | 'empty'} FailureKind
 */

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
 * @param {string} path
 * @param {{method?: 'GET' | 'POST', data?: object, header?: Record<string, string>, timeoutMs: number}} options
 * @returns {{answer: Promise<any>, cancel: () => void}}  answer rejects with a Failure
 */
function send(path, { method = 'GET', data, header, timeoutMs }) {
  /** @type {WechatMiniprogram.RequestTask} */
  let task
  const answer = new Promise((resolve, reject) => {
    task = wx.request({
      url: baseUrl + path,
      method,
      data,
      header: withKey(header),
      timeout: timeoutMs,
      success: (response) => (response.statusCode === 200 ? resolve(response.data) : reject(refusal(response))),
      fail: ({ errMsg }) => reject(new Failure(lostConnection(errMsg))),
    })
  })
  return { answer, cancel: () => task.abort() }
}

/** @param {Record<string, string>} [header] */
function withKey(header) {
  const { key } = settings.get()
  return key ? Object.assign({ [KEY_HEADER]: key }, header) : header
}

/** @param {{statusCode: number, data: any, header: any}} response */
function refusal({ statusCode, data, header }) {
  const details = { retryAfter: Number(headerValue(header, 'retry-after')), requestId: data && data.request_id }
  return new Failure(KIND_BY_STATUS[statusCode] || 'server', details)
}

/** Phones write header names each in their own way. */
function headerValue(header, name) {
  const key = Object.keys(header || {}).find((candidate) => candidate.toLowerCase() === name)
  return key ? header[key] : undefined
}

/**
 * @param {string} errMsg  "request:fail abort", "request:fail timeout", or one of many words for "no connection"
 * @returns {FailureKind}
 */
function lostConnection(errMsg) {
  if (/abort/.test(errMsg)) return 'cancelled'
  return /timeout|timed out/i.test(errMsg) ? 'timeout' : 'offline'
}

module.exports = { send, Failure }
