/** The breeds that an answer leaves open: which ones are shown, and what tells them apart. It knows no facts itself. */
const breeds = require('./breeds')
const wording = require('./wording')

/** What is shown as "<1%" says nothing beside a sure breed. */
const WORTH_A_ROW = 0.01

/** From here on the first breed of a group is named, and the others are its look-alikes. */
const WORTH_A_NAME = 0.9

/**
 * The rows of an answer, most likely first: of a group its members, of a set its breeds, all labels, else the first few.
 * @param {import('./classifier').Outcome} outcome
 * @param {number} most  where the answer does not say itself how many
 * @returns {import('./classifier').Guess[]}
 */
function rows({ state, breeds: guesses, group, set, labels }, most) {
  if (state === 'labels') return labels
  if (state === 'group') return guesses.filter(({ id }) => group.members.includes(id))
  if (state === 'set') return guesses.filter(({ id }) => set.includes(id))
  const first = guesses.slice(0, most)
  return state === 'breed' ? first.filter(({ probability }, index) => !index || probability >= WORTH_A_ROW) : first
}

/** The one breed that an answer names; null where it names none, or a whole group. @returns {import('./classifier').Guess | null} */
function named(outcome) {
  const { state, breeds: guesses, labels } = outcome
  if (state === 'labels') return labels.length === 1 ? labels[0] : null
  const isFirst = isOne(outcome) && (state !== 'group' || rows(outcome, 0).length < 2 || guesses[0].probability >= WORTH_A_NAME)
  return isFirst ? guesses[0] : null
}

/** Whether the answer is sure enough to be shared, saved and confirmed as one thing. @param {import('./classifier').Outcome} outcome */
function isOne({ state, set, labels }) {
  return (state === 'labels' && labels.length > 0) || state === 'breed' || state === 'group' || (state === 'set' && set.length === 1)
}

/** The breeds that the model confuses with the one that is named, the most likely first. @returns {import('./classifier').Guess[]} */
function lookAlikes({ state, breeds: guesses, group }) {
  if (state !== 'breed' || !group) return []
  return guesses.slice(1).filter(({ id }) => group.members.includes(id))
}

/**
 * How to tell the candidates apart: what the model's group says, where it holds just them, else their height and coat.
 * @param {import('./classifier').Outcome} outcome
 * @param {string} sentence  about the looks of one candidate, with places for name, height and coat
 * @param {import('./language').Language} language
 * @returns {string[]}  a sentence or more each; none for a single breed, and where facts are not kept
 */
function differences(outcome, sentence, language) {
  const { state, group } = outcome
  const open = rows(outcome, 0).map(({ id }) => id)
  if (!['group', 'set'].includes(state) || open.length < 2) return []
  const said = group && wording.choose({ en: group.difference, zh: group.difference_zh }, language)
  const isWhole = group && open.length === group.members.length && open.every((id) => group.members.includes(id))
  if (said && isWhole) return [said]
  const all = breeds.kept()
  const known = open.map((id) => all.find((breed) => breed.id === id))
  return known.filter((breed) => breed && breed.height_cm).map((breed) => looks(breed, sentence, language))
}

function looks(breed, sentence, language) {
  const { main: name } = wording.names(breed, language)
  return wording.fill(sentence, { name, height: wording.range(breed.height_cm), coat: wording.choose(breed.coat, language) })
}

/** Whether the candidates are so unlike that the dog may be a mix of them. @param {import('./classifier').Outcome} outcome */
function mayBeMix({ state, group, set }) {
  return state === 'set' && set.length > 1 && !(group && set.every((id) => group.members.includes(id)))
}

module.exports = { rows, named, isOne, lookAlikes, differences, mayBeMix }
