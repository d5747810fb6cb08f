/**
 * What the phone's own network claims of a photo, by the rules of the server (backend/dogsnap/serving/answers/levels.py)
 * and with thresholds of its own.
 */

/** The server's: breeds that are named, breeds of a set, and when a group says more than its first breed. */
const NAMED = 5
const LARGEST_SET = 5
const SUREST_OF_GROUP = 0.93
const WORTH_A_ROW = 0.01
const LEAST_PROBABILITY = 1e-12

/**
 * @param {number[][]} views  logits of the breeds for each part of the photo, which count alike
 * @param {any} description  of the network: labels, temperature, lapse, log_prior, dog_bias, decision, groups
 * @returns {{state: import('./classifier').State, breeds: import('./classifier').Guess[],
 *   group: import('./classifier').Group | null, set: string[] | null}}
 */
function claim(views, { labels, groups, decision, dog_bias: bias, ...calibration }) {
  const logits = views[0].map((_, place) => average(views.map((view) => view[place])))
  const probabilities = calibrated(logits, calibration)
  const guesses = labels.map((label, place) => Object.assign({}, label, { probability: probabilities[place] }))
  guesses.sort((one, other) => other.probability - one.probability)
  const breeds = guesses.slice(0, NAMED)
  const dog = 1 / (1 + Math.exp(-Math.max(...logits) - bias))
  if (dog < decision.dog_threshold) return { state: 'no_dog', breeds, group: null, set: null }
  const set = guesses.filter(({ probability }, place) => !place || probability >= decision.set_threshold).map(({ id }) => id)
  const ofFirst = groups.find(({ members }) => members.includes(set[0]))
  const members = ofFirst ? guesses.filter(({ id }) => ofFirst.members.includes(id)) : []
  const group = ofFirst ? Object.assign({}, ofFirst, { probability: members.reduce((sum, { probability }) => sum + probability, 0) }) : null
  const state = level(probabilities, group, members, set, decision)
  const others = state === 'group' ? members.filter((member) => !breeds.includes(member)) : []
  return { state, breeds: [...breeds, ...others], group, set }
}

/** @returns {import('./classifier').State} */
function level(probabilities, group, members, set, decision) {
  if (zScore(probabilities) < decision.unknown_threshold) return 'unknown'
  if (Math.max(...probabilities) >= decision.confident_threshold) return 'breed'
  const [first, second] = members
  const saysMore = second && first.probability < SUREST_OF_GROUP && second.probability >= WORTH_A_ROW
  if (saysMore && group.probability >= decision.group_threshold) return 'group'
  return set.length <= LARGEST_SET ? 'set' : 'unsure'
}

/** @returns {number[]} */
function calibrated(logits, { temperature, lapse, log_prior: prior }) {
  const scaled = logits.map((logit, place) => logit / temperature + prior[place])
  const largest = Math.max(...scaled)
  const shares = scaled.map((each) => Math.exp(each - largest))
  const mean = average(shares)
  return shares.map((share) => ((1 - lapse) * share / mean + lapse) / logits.length)
}

/** How many standard deviations the largest log probability lies above the mean of all. */
function zScore(probabilities) {
  const logarithms = probabilities.map((each) => Math.log(Math.max(each, LEAST_PROBABILITY)))
  const mean = average(logarithms)
  const deviation = Math.sqrt(average(logarithms.map((each) => (each - mean) ** 2)))
  return (Math.max(...logarithms) - mean) / Math.max(deviation, LEAST_PROBABILITY)
}

function average(numbers) {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length
}

module.exports = { claim }
