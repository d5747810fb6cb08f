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
      const result = { errMsg: error.errMsg }
      fail?.(result)
      complete?.(result)
    },
  )
}

export function failure(name, error) {
  return Object.assign(new Error(error.message), { errMsg: `${name}:fail ${error.message}` })
}
