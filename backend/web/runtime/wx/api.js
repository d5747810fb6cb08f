/** The calling convention of WeChat's asynchronous functions: callbacks if any are given, else a promise. */

/**
 * @param {string} name  as it appears in errMsg
 * @param {(options: any) => any} run  may return a promise; what it throws becomes "name:fail reason"
 */
export function api(name, run) {
  return (options = {}) => {
    const outcome = Promise.resolve(options)
      .then(run)
      .then(
        (result) => ({ ...result, errMsg: `${name}:ok` }),
        (error) => {
          throw failure(name, error)
        },
      )
    if (!options.success && !options.fail && !options.complete) return outcome
    callBack(outcome, options)
    return undefined
  }
}

/** Delivers an outcome to success, fail and complete. */
export function callBack(outcome, { success, fail, complete }) {
  outcome.then(
    (result) => {
      success?.(result)
      complete?.(result)
    },
    (error) => {
      const result = { errMsg: error.errMsg, errno: error.errno }
      fail?.(result)
      complete?.(result)
    },
  )
}

/** With WeChat's number of the error, where it has one. */
export function failure(name, { message, errno }) {
  return Object.assign(new Error(message), { errMsg: `${name}:fail ${message}`, errno })
}
