/**
 * What the result page shows of a snap: of its answer with what was said of it, or of what went wrong. It keeps nothing,
 * asks nothing but for facts of breeds, and knows no page: the same answer is shown alike, whenever it comes.
 *
 * @typedef {import('./classifier').Outcome} Outcome
 * @typedef {import('./feedback').Said} Said
 * @typedef {{text: any, language: import('./language').Language, areDogs: boolean}} Dress  as appearance.js puts it on the page
 */
const breeds = require('./breeds')
const candidates = require('./candidates')
const captions = require('./captions')
const dogs = require('./dogs')
const frame = require('./frame')
const { texts } = require('./language')
const wording = require('./wording')

/** Rows of an answer. */
const ROWS = 3

/** Kinds of failure that may be over after a while: what to do is another thing where the photo waits for that by itself. */
const LATER = ['offline', 'unreached', 'timeout', 'noneReady', 'busy', 'slow', 'server', 'unreadable', 'unread', 'unexpected']

/** Another model can be chosen in the settings. */
const BY_MODEL = ['noModel', 'wrongModel']

/** Before they are there. @type {{about: string, apart: string[]}}  in a few words what is known of the breed that is named; how to tell the candidates apart */
const NO_DETAILS = { about: '', apart: [] }

/**
 * @param {Outcome} outcome
 * @param {{said: Said | null, feedback: 'open' | 'given' | '', onPhone?: Outcome | null, waits?: boolean}} entry  what the history
 *   and the server have of what the user said; what the phone itself said; whether the photo waits for the server
 * @param {Dress} dress
 */
function answer(outcome, { said, feedback, onPhone = null, waits = false }, { text, language, areDogs }) {
  const { state, box, model, asked, together } = outcome
  const named = candidates.named(outcome)
  const isOne = candidates.isOne(outcome)
  return {
    state,
    headline: captions.headline(outcome),
    alike: captions.alike(outcome),
    lead: state === 'group' && named ? text.oneLookAlike : text.leads[state] || '',
    remark: candidates.mayBeMix(outcome) ? text.mix : text.remarks[state] || '',
    together: together ? wording.fill(together.isSame ? text.together : text.apartPhotos, together) : '',
    rows: candidates.rows(outcome, ROWS).map((guess) => toRow(guess, language)),
    best: named ? toRow(named, language) : null,
    focus: frame.focus(dogs.places(outcome)),
    boxStyle: box ? frame.css(frame.fromBox(box)) : '',
    dogs: dogs.boxes(outcome, text.dog),
    dogsHeadline: captions.count(outcome),
    answeredBy: outcome.onPhone ? text.onPhone.mark : wording.fill(text.answeredBy, model),
    onPhone: outcome.onPhone ? text.onPhone.mark : '',
    phoneNote: outcome.onPhone ? wording.sentences([text.onPhone.means, waits && text.onPhone.waits], language) : difference(outcome, onPhone, text),
    feedback,
    canConfirm: Boolean(asked) || state === 'no_dog' || isOne,
    said: said ? captions.said(said) : text.thanks,
    isOne: isOne || isNamed(said),
    question: asked ? question(outcome, text.questions, language, areDogs) : '',
  }
}

/** That the phone said something else; '' where it said the same, or nothing. */
function difference(outcome, onPhone, text) {
  const said = onPhone ? captions.caption(onPhone) : ''
  return said && said !== captions.caption(outcome) ? wording.fill(text.onPhone.differed, { answer: said }) : ''
}

/** The same words at every level, about the first breed, but where the answer is that it is none: who answers must not depend on how sure the answer is. */
function question({ state, breeds: guesses }, questions, language, areDogs) {
  const { breed, [state]: own = breed } = questions
  return wording.fill(own, { name: guesses.length ? wording.asked(guesses[0], language, areDogs) : '' })
}

/**
 * What has to be known of the breeds for it, which may have to be fetched; without that the answer stands as it is.
 * @param {Outcome} outcome
 * @param {Dress} dress
 * @returns {Promise<typeof NO_DETAILS>}
 */
async function details(outcome, { text, language }) {
  const named = candidates.named(outcome)
  const all = breeds.all().catch(() => []) // of any answer, so that a breed opens at once later, also offline
  const known = named && (await all).find(({ id }) => id === named.id)
  return {
    about: known ? breeds.inShort(known, texts().pages.breed.sizes, language) : '',
    apart: await candidates.differences(outcome, text.candidate, language).catch(() => []),
  }
}

/**
 * @param {{kind?: string, retryAfter?: number, requestId?: string, waits: boolean}} failure  waits: whether the photo is sent again by itself
 * @param {boolean} isPinned  whether the user chose the model
 * @param {Dress} dress
 */
function problem({ kind: told = 'unexpected', retryAfter, requestId, waits }, isPinned, { text, language }) {
  const kind = told === 'noModel' && !isPinned ? 'noneReady' : told
  const time = retryAfter ? wording.duration(retryAfter, text.durations) : ''
  const kept = kind === 'offline' ? text.keptOffline : text.keptHeadline
  const advice = !waits && LATER.includes(kind) ? sentence(kind, time, text.advice) : ''
  return {
    kind,
    headline: waits ? kept : text.failedHeadline,
    sentence: wording.sentences([text.failures[kind], advice], language),
    waits: waits ? sentence(kind, time, text.waits) : '',
    reference: requestId ? wording.fill(text.requestId, { id: requestId }) : '',
    retry: LATER.includes(kind) || BY_MODEL.includes(kind),
    settings: BY_MODEL.includes(kind) && isPinned,
  }
}

/** About a failure that may be over after a while. @param {string} time  after which the server may be asked again; '' if it did not say */
function sentence(kind, time, sentences) {
  return time ? wording.fill(sentences.laterFor, { time }) : sentences[kind] || sentences.later
}

/**
 * What is shared of it: what the user said that it is, else what the answer names.
 * @param {Outcome} outcome
 * @param {Said | null} said
 * @param {Dress} dress
 * @returns {{id: string, title: string, subtitle: string, percent: string}}  id: of a breed, else ''
 */
function shared(outcome, said, { text, language }) {
  if (isNamed(said)) return { id: said.breed, title: wording.names(said, language).main, subtitle: captions.said(said), percent: '' }
  const [first] = candidates.rows(outcome, ROWS).map((guess) => toRow(guess, language))
  const { title, percent } = captions.shared(outcome)
  const second = title === first.name ? first.second : ''
  return { id: first.id, title, subtitle: captions.count(outcome) || second || text.note, percent }
}

/** @param {{id: string, name: string, name_zh: string, probability: number}} guess  a breed or a group */
function toRow({ id, name, name_zh, probability }, language) {
  const { main, second } = wording.names({ name, name_zh }, language)
  return { id, name: main, second, percent: wording.percent(probability), width: Math.round(probability * 100) }
}

/** Whether the user said a name. @param {Said | null} said */
function isNamed(said) {
  return Boolean(said && said.name)
}

module.exports = { NO_DETAILS, answer, details, problem, shared }
