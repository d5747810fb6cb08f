/**
 * Photos with several dogs: the answer is that of one of them, the chosen one, and has the others with it.
 *
 * @typedef {import('./classifier').Outcome} Outcome
 */
const candidates = require('./candidates')
const captions = require('./captions')
const frame = require('./frame')
const wording = require('./wording')

/** The answer to another of its dogs. @param {Outcome} outcome @param {number} place @returns {Outcome} */
function choose(outcome, place) {
  const { dogs, moreDogs } = outcome
  return Object.assign({}, dogs[place], { dogs, moreDogs, chosen: place })
}

/** The ids by which the server takes feedback on each of its dogs. @param {Outcome} outcome @returns {string[]} */
function feedbackIds(outcome) {
  const { dogs = [outcome] } = outcome
  return dogs.map(({ feedbackId }) => feedbackId)
}

/**
 * What lies on the photo for each dog, if there are several.
 * @param {Outcome} outcome
 * @param {string} label  with places for number and name
 * @returns {{style: string, name: string, label: string, isChosen: boolean}[]}
 */
function boxes({ dogs = [], chosen = 0 }, label) {
  return dogs.map((dog, place) => ({
    style: frame.css(frame.fromBox(dog.box)),
    name: captions.short({ outcome: dog }),
    label: wording.fill(label, { number: place + 1, name: captions.headline(dog) }),
    isChosen: place === chosen,
  }))
}

/** The boxes of all its dogs. @param {Outcome} outcome @returns {number[][]} */
function places({ dogs, box }) {
  return dogs ? dogs.map((dog) => dog.box) : box ? [box] : []
}

/** What a small picture of a snap shows. @param {import('./history').Entry} entry @param {number[][]} [boxes]  what has to be seen of it */
function thumb({ id, photo, outcome }, boxes = outcome ? places(outcome) : []) {
  return { id, photo, focus: boxes.length ? frame.focus(boxes) : '', waits: !outcome }
}

/**
 * The breeds of the dogs of a snap: each is what the user said, or else what a sure answer names.
 * @param {import('./history').Entry} entry
 * @returns {{breed: string, box: number[] | null}[]}
 */
function breedsOf({ outcome, said = null, saidOfOthers = {} }) {
  const { dogs = outcome ? [outcome] : [], chosen = 0 } = outcome || {}
  const found = dogs.map((dog, place) => {
    const word = place === chosen ? said : saidOfOthers[place]
    return { breed: word && word.verdict !== 'right' ? word.breed : sureBreed(dog), box: dog.box }
  })
  return found.filter(({ breed }) => breed)
}

/**
 * Small pictures of the dogs of each breed, by its id, in the order of the snaps.
 * @param {import('./history').Entry[]} entries
 * @returns {Map<string, ReturnType<typeof thumb>[]>}
 */
function thumbsByBreed(entries) {
  const thumbs = new Map()
  for (const entry of entries) {
    for (const { breed, box } of breedsOf(entry)) {
      const others = thumbs.get(breed) || []
      const isShown = others.some(({ id }) => id === entry.id)
      if (!isShown) thumbs.set(breed, [...others, thumb(entry, box ? [box] : [])])
    }
  }
  return thumbs
}

/** @param {Outcome | null} outcome */
function sureBreed(outcome) {
  return outcome && outcome.state !== 'group' && candidates.isOne(outcome) ? (outcome.labels || outcome.breeds)[0].id : ''
}

/** The same answer for the photo turned clockwise. @param {Outcome} outcome @param {number} degrees  90, 180 or 270 @returns {Outcome} */
function turned(outcome, degrees) {
  const turn = (dog) => Object.assign({}, dog, { turned: 0, box: dog.box && turnedBox(dog.box, degrees) })
  const { dogs } = outcome
  return Object.assign(turn(outcome), dogs ? { dogs: dogs.map(turn) } : {})
}

function turnedBox(box, degrees) {
  let [left, top, right, bottom] = box
  for (let turns = degrees / 90; turns > 0; turns--) [left, top, right, bottom] = [1 - bottom, left, 1 - top, right]
  return [left, top, right, bottom]
}

module.exports = { choose, feedbackIds, boxes, places, thumb, breedsOf, thumbsByBreed, turned }
