/**
 * What WeChat tells by callbacks, as a promise.
 * @template T
 * @param {(told: {success: (result: T) => void, fail: (error: any) => void}) => void} call  gives both to a function of wx
 * @returns {Promise<T>}  rejects with what WeChat says, an errMsg among it
 */
module.exports = function promised(call) {
  return new Promise((success, fail) => call({ success, fail }))
}
