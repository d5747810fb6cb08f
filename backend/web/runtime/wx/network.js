/**
 * wx.request on fetch. As in WeChat, every status code is a success, and the answer's text is parsed when it is JSON;
 * only a lost connection, a time-out and abort() fail.
 */
import { callBack, failure } from './api.js'
import { checkRequests, TIMED_OUT } from './limits.js'

const DEFAULT_TIMEOUT_MS = 60_000

export const network = {
  request(options) {
    const controller = new AbortController()
    const outcome = send(options, controller).catch((error) => {
      throw failure('request', error)
    })
    callBack(
      outcome.then((result) => ({ ...result, errMsg: 'request:ok' })),
      options,
    )
    return { abort: () => controller.abort(new Error('abort')) }
  },
}

let underWay = 0

async function send({ url, data, method = 'GET', header = {}, timeout = DEFAULT_TIMEOUT_MS }, controller) {
  checkRequests(underWay)
  const late = Object.assign(new Error('timeout'), { errno: TIMED_OUT })
  const timer = setTimeout(() => controller.abort(late), timeout)
  underWay += 1
  try {
    const response = await fetch(url, {
      method,
      headers: { 'content-type': 'application/json', ...header },
      body: data === undefined ? undefined : JSON.stringify(data),
      signal: controller.signal,
    })
    return {
      statusCode: response.status,
      header: Object.fromEntries(response.headers),
      data: parse(await response.text()),
    }
  } finally {
    clearTimeout(timer)
    underWay -= 1
  }
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
