/** What the oldest engines that WeChat runs on cannot parse: JavaScript of after ES2017, in scripts that are not compiled any more. */
import { parse, tokenizer } from 'acorn'

const OLDEST = 2017
const NEWEST = 'latest'

/**
 * @param {string} file  for the message
 * @param {string} text  a script as a phone gets it
 * @returns {string[]}  what cannot be parsed
 */
export function unparsable(file, text) {
  try {
    parse(text, { ecmaVersion: OLDEST, sourceType: 'script', allowReturnOutsideFunction: true })
    return []
  } catch ({ message }) {
    return [`${file}: ${message}`]
  }
}

/** The regular expressions of a source that an old engine cannot parse: WeChat's compiler leaves them as they are. @returns {string[]} */
export function unparsableExpressions(file, text) {
  const expressions = [...tokenizer(text, { ecmaVersion: NEWEST })].filter(({ type }) => type.label === 'regexp')
  return expressions.flatMap(({ value: { pattern, flags } }) => unparsable(file, `/${pattern}/${flags}`))
}
