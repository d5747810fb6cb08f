/** Sends a photo to the server and reads the answer. How it is shown is up to the result page. */
const install = require('./install')
const request = require('./request')
const settings = require('./settings')

/** Longer than the server's own deadline of 30 s, so that a slow server can say so itself. */
const TIMEOUT_MS = 40 * 1000

/** The sticky key: it keeps this installation on one side of a split between two versions. */
const STICKY_HEADER = 'X-Request-Key'

/**
 * @typedef {{id: string, name: string, name_zh: string, probability: number}} Guess
 * @typedef {'breed' | 'group' | 'set' | 'unsure' | 'unknown' | 'no_dog' | 'labels' | 'refused'} State  refused: the photo waited for nothing
 * @typedef {object} Group
 * @property {string} id
 * @property {string} name
 * @property {string} name_zh
 * @property {string[]} members  ids
 * @property {number} probability
 * @property {string} difference  how to tell the members apart; '' if unknown
 * @property {string} difference_zh
 *
 * @typedef {object} Outcome
 * @property {State} state
 * @property {Guess[]} breeds  most likely first
 * @property {Group | null} group  the look-alikes to which the first breed belongs
 * @property {string[] | null} set  ids of the breeds of which one is right in 95 of 100 photos
 * @property {Guess[]} [labels]  of independent classes those that the photo shows, the most likely first
 * @property {number[] | null} box  where the dog is: left, top, right, bottom, as fractions of the upright photo
 * @property {{name: string, version: number}} model  which one really answered
 * @property {string} feedbackId  by which the server takes feedback on this answer; '' where it takes none
 * @property {boolean} [asked]  whether to ask if the first breed is right, in the same words whatever the level
 * @property {Outcome[]} [dogs]  each dog where there are several, the largest first; this answer is that of the `chosen` one
 * @property {number} [chosen]  its place among them
 * @property {number} [turned]  degrees clockwise by which the photo has to be turned to be seen as the server saw it
 * @property {import('./request').FailureKind} [kind]  why it was refused
 * @property {boolean} [onPhone]  whether the phone gave it, by itself
 * @property {boolean} [moreDogs]  whether the photo shows more dogs than these
 * @property {{count: number, isSame: boolean}} [together]  of the first of several photos that were asked about: whether they show
 *   the same dog, of which this answer is then that of all
 */

/**
 * How many breeds come back is left to the server: a model may know fewer than any number asked for.
 * @param {string[]} images  base64, of one dog
 * @returns {{outcomes: Promise<Outcome[]>, cancel: () => void}}  of the first photo, or of each where they were asked about
 *   together; rejects with a Failure
 */
function classify(images) {
  const { model } = settings.get()
  const data = Object.assign(images.length > 1 ? { images } : { image: images[0] }, model)
  const header = { [STICKY_HEADER]: install.key() }
  const { answer, cancel } = request.send('/api/classify', { method: 'POST', data, header, timeoutMs: TIMEOUT_MS })
  /** What the app sends is the same for every photo: a request that is refused is so because of the model the user chose. @type {Record<string, request.FailureKind>} */
  const meanings = model ? { refused: 'wrongModel' } : { noModel: 'noneReady' }
  const outcomes = answer.then(toOutcomes).catch((failure) => {
    throw failure.kind in meanings ? new request.Failure(meanings[failure.kind], failure) : failure
  })
  return { outcomes, cancel }
}

/**
 * A photo that this phone cannot show, as one that it can.
 * @param {string} image  base64
 * @returns {Promise<string>}  a data: address of an upright JPEG; '' where the server cannot help
 */
async function shown(image) {
  const { answer } = request.send('/api/upright', { method: 'POST', data: { image }, timeoutMs: TIMEOUT_MS })
  const copy = await answer.catch(() => null)
  return copy && copy.image ? `data:image/jpeg;base64,${copy.image}` : ''
}

/** @returns {Outcome[]}  throws a Failure */
function toOutcomes(answer) {
  const { photos } = answer || {}
  return Array.isArray(photos) && photos.length > 1 ? ofSeveral(answer) : [toOutcome(answer)]
}

/** @returns {Outcome} */
function toOutcome(answer) {
  if (!answer || !Array.isArray(answer.breeds) || !answer.model) throw new request.Failure('unreadable')
  const { model, dogs = [], more_dogs: moreDogs, turned = 0 } = answer
  const first = Object.assign(toDog(answer, model), turned ? { turned } : {})
  const all = [first, ...dogs.slice(1).map((dog) => toDog(Object.assign({ dog: true }, dog), model))]
  if (all.length < 2 || !all.every(({ box }) => box)) return first
  return Object.assign({}, first, { dogs: all, chosen: 0, moreDogs: Boolean(moreDogs) })
}

/**
 * The answers to several photos: where all show the same dog, each has what they say together, and where it is in that photo.
 * Only of the first the user is asked.
 * @returns {Outcome[]}
 */
function ofSeveral({ photos, same_dog: isSame, ...joint }) {
  const { model } = joint
  const alone = photos.map((photo) => toOutcome(Object.assign({ model }, photo)))
  const place = ({ box, turned }) => Object.assign({ box }, turned ? { turned } : {})
  const [first, ...others] = isSame ? alone.map((photo) => Object.assign(toDog(joint, model), place(photo))) : alone
  const together = { count: photos.length, isSame: Boolean(isSame) }
  return [Object.assign(first, { together }), ...others.map((outcome) => Object.assign(outcome, { feedbackId: '' }))]
}

/** @returns {Outcome}  of one dog; throws a Failure where something of it is missing */
function toDog(answer, model) {
  const { breeds, group = null, set = null, labels, box, feedback_id: feedbackId, feedback_asked: asked } = answer
  const state = stateOf(answer)
  const has = (list, isGood) => Array.isArray(list) && list.every(isGood)
  const isWhole = has(breeds, isNamed) && (state === 'no_dog' || breeds.length > 0)
  const hasGroup = isNamed(group) && has(group.members, isText)
  const hasSet = has(set, isText) && has(breeds, Boolean) && breeds.some(({ id }) => set.includes(id))
  const hasLabels = has(labels, isNamed)
  if (!isWhole || (state === 'group' && !hasGroup) || (state === 'set' && !hasSet) || (state === 'labels' && !hasLabels)) throw new request.Failure('unreadable')
  return Object.assign(hasLabels ? { labels } : {}, {
    state,
    breeds,
    model,
    group: hasGroup ? group : null,
    set: hasSet ? set : null,
    box: has(box, Number.isFinite) && box.length === 4 ? box : null,
    feedbackId: feedbackId || '',
    asked: Boolean(asked),
  })
}

function isText(value) {
  return typeof value === 'string'
}

/** Whether it has what is shown of a breed or a group. */
function isNamed(guess) {
  return Boolean(guess) && isText(guess.id) && isText(guess.name) && Number.isFinite(guess.probability)
}

/** The levels that an answer may have. */
const LEVELS = ['breed', 'group', 'set', 'unsure', 'unknown', 'no_dog', 'labels']

/** A server from before there were levels says only whether it is sure. @returns {State} */
function stateOf({ level, dog, confident }) {
  if (LEVELS.includes(level)) return level
  if (!dog) return 'no_dog'
  return confident ? 'breed' : 'unsure'
}

module.exports = { classify, shown }
