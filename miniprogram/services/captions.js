/** What an answer says, in one line: the headline of the result page, and the caption of a small picture. */
const candidates = require('./candidates')
const { currentLanguage, texts } = require('./language')
const wording = require('./wording')

/** Sets of more breeds than these are counted, not named. */
const MOST_NAMED = 2

/**
 * @param {import('./classifier').Outcome} outcome
 * @returns {string}
 */
function headline(outcome) {
  const { state, breeds, group, set, labels } = outcome
  const { captions: text } = texts()
  if (state === 'labels') return labels.length ? wording.list(labels.map(nameOf), currentLanguage()) : text.no_labels
  if (['no_dog', 'unknown', 'refused'].includes(state)) return text[state]
  if (state === 'unsure') return wording.fill(text.unsure, { name: nameOf(breeds[0]) })
  const named = candidates.named(outcome)
  if (named) return nameOf(named)
  return state === 'set' ? anyOf(set, breeds, text) : nameOf(group).replace('或', '或\u200b') // where a line may end
}

/** The same where no lead stands above it. @param {import('./history').Entry['outcome']} outcome */
function caption(outcome) {
  const { captions: text } = texts()
  if (!outcome) return text.waits
  if (outcome.dogs) {
    const names = outcome.dogs.map((dog) => short({ outcome: dog }))
    return Array.from(new Set(names)).join(' · ')
  }
  if (outcome.state !== 'set') return headline(outcome)
  if (outcome.set.length > MOST_NAMED) return wording.fill(text.probablyOneOf, { count: outcome.set.length })
  return wording.fill(text.probably, { name: headline(outcome) })
}

/** How many dogs there are, in words; '' for one. @param {import('./classifier').Outcome} outcome */
function count({ dogs = [], moreDogs }) {
  const { dogs: counts, moreDogs: more } = texts().captions
  return moreDogs ? more : counts[dogs.length - 2] || ''
}

/** What the user said that it is. @param {import('./feedback').Said} said */
function said({ verdict, name, name_zh: chinese }) {
  const { result, correct } = texts().pages
  const words = name ? nameOf({ name, name_zh: chinese }) : verdict === 'right' ? result.right : correct.verdicts[verdict]
  return wording.fill(texts().captions.said, { words })
}

/** The breeds that an answer leaves open. @param {import('./classifier').Outcome} outcome */
function names(outcome) {
  return wording.list(candidates.rows(outcome, 0).map(nameOf), currentLanguage())
}

/** A line with the look-alikes of the breed that is named; '' without any. @param {import('./classifier').Outcome} outcome */
function alike(outcome) {
  const named = candidates.lookAlikes(outcome).map(nameOf)
  const { captions: text } = texts()
  return named.length ? wording.fill(text.alike, { names: wording.list(named, currentLanguage()) }) : ''
}

/** A few words for under a small picture. @param {{outcome: import('./history').Entry['outcome'], said?: import('./history').Entry['said']}} entry */
function short({ outcome, said: correction }) {
  if (correction && correction.name) return nameOf(correction)
  const { captions: text } = texts()
  if (!outcome) return text.waits
  const { state, breeds, dogs } = outcome
  if (dogs) return count(outcome)
  if (state === 'unsure' || state === 'set') return wording.fill(text.perhaps, { name: nameOf(breeds[0]) })
  return state === 'unknown' ? text.unknownShort : headline(outcome)
}

/** "A", "A or B", "One of 3 breeds". */
function anyOf(set, breeds, text) {
  if (set.length > MOST_NAMED) return wording.fill(text.oneOf, { count: set.length })
  const [first, second] = breeds.filter(({ id }) => set.includes(id)).map(nameOf)
  return second ? wording.fill(text.either, { first, second }) : first
}

/** @param {{name: string, name_zh: string}} named  a breed or a group */
function nameOf(named) {
  return wording.names(named, currentLanguage()).main
}

/** The one thing that the user said, or else that an answer names, for a card: with its look-alikes not each by name. @param {import('./classifier').Outcome} outcome */
function shared(outcome, correction) {
  const { captions: text } = texts()
  if (correction && correction.name) return { title: nameOf(correction), percent: '' }
  if (outcome.dogs || (outcome.state === 'labels' && !candidates.named(outcome))) return { title: caption(outcome), percent: '' }
  const { state, group } = outcome
  const breeds = outcome.labels || outcome.breeds
  const isGroup = state === 'group' && !candidates.named(outcome)
  const title = isGroup ? wording.fill(text.orAlike, { name: nameOf(breeds[0]) }) : nameOf(breeds[0])
  return { title, percent: wording.percent((isGroup ? group : breeds[0]).probability) }
}

module.exports = { headline, caption, count, names, alike, said, short, shared }
