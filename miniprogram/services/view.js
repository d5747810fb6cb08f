/**
 * What the result page shows of a snap: its answer with what was said of it, or what went wrong. It keeps nothing, asks
 * nothing, and knows no page: the same answer is shown alike, whenever it comes.
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
const { LATER } = require('./request')
const wording = require('./wording')

/** Rows of an answer. */
const ROWS = 3

/** Of the model that the user chose: another one can be chosen in the settings. */
const OF_MODEL = ['noModel', 'wrongModel']

/**
 * @param {{outcome: Outcome | null, problem: any, entry?: import('./history').Entry, feedback: 'open' | 'given' | ''}} snap  problem:
 *   what went wrong; entry: as the history has it; feedback: as feedback.js has it
 * @param {Dress} dress
 * @returns  fields of the page; none while nothing is known
 */
function of({ outcome, problem, entry, feedback }, dress) {
  const waits = Boolean(entry && !entry.outcome)
  if (outcome && outcome.state !== 'refused') {
    const answer = Object.assign(toAnswer(outcome, entry, waits, dress), { feedback })
    return { state: outcome.state, answer, rows: answer.rows }
  }
  const isOther = outcome && (!problem || problem.kind !== outcome.kind) // as of the connection, before
  const failure = isOther ? { kind: outcome.kind } : problem
  return failure ? { state: 'failed', answer: null, failure: toFailure(failure, waits, dress) } : {}
}

function toAnswer(outcome, { said = null, onPhone = null } = {}, waits, { text, language, areDogs }) {
  const { state, box, model, asked, together } = outcome
  const named = candidates.named(outcome)
  const rows = candidates.rows(outcome, ROWS).map((guess) => toRow(guess, language))
  const best = named ? toRow(named, language) : null
  const isOne = candidates.isOne(outcome)
  const isShared = isOne || Boolean(said && said.name)
  return {
    state,
    headline: captions.headline(outcome),
    alike: captions.alike(outcome),
    lead: state === 'group' && named ? text.oneLookAlike : text.leads[state] || '',
    remark: candidates.mayBeMix(outcome) ? text.mix : text.remarks[state] || '',
    together: together ? wording.fill(together.isSame ? text.together : text.apartPhotos, together) : '',
    rows,
    best,
    about: named ? about(named, text, language) : '',
    apart: candidates.differences(outcome, text.candidate, language),
    focus: frame.focus(dogs.places(outcome)),
    boxStyle: box ? frame.css(frame.fromBox(box)) : '',
    dogs: dogs.boxes(outcome, text.dog),
    dogsHeadline: captions.count(outcome),
    answeredBy: outcome.onPhone ? text.onPhone.mark : wording.fill(text.answeredBy, model),
    onPhone: outcome.onPhone ? text.onPhone.mark : '',
    phoneNote: outcome.onPhone ? wording.sentences([text.onPhone.means, waits && text.onPhone.waits], language) : difference(outcome, onPhone, text),
    canConfirm: Boolean(asked) || state === 'no_dog' || isOne,
    said: said ? captions.said(said) : text.thanks,
    isOne: isShared,
    card: isShared ? toCard(outcome, said, best || rows[0] || {}, text) : null,
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

/** What is known of the breed that is named, in a few words; that it has a page, where nothing is. */
function about({ id: named }, text, language) {
  const known = breeds.kept().find(({ id }) => id === named)
  return (known && breeds.inShort(known, texts().pages.breed.sizes, language)) || text.about
}

/** @param {{kind?: string, retryAfter?: number, requestId?: string}} failure @param {boolean} waits  whether the photo is sent again by itself */
function toFailure({ kind = 'unexpected', retryAfter, requestId }, waits, { text, language }) {
  const time = retryAfter ? wording.duration(retryAfter, text.durations) : ''
  const kept = kind === 'offline' ? text.keptOffline : text.keptHeadline
  const advice = !waits && LATER.includes(kind) ? sentence(kind, time, text.advice) : ''
  const isOfModel = OF_MODEL.includes(kind)
  return {
    kind,
    headline: waits ? kept : text.failedHeadline,
    sentence: wording.sentences([text.failures[kind], advice], language),
    waits: waits ? sentence(kind, time, text.waits) : '',
    reference: requestId ? wording.fill(text.requestId, { id: requestId }) : '',
    retry: LATER.includes(kind) || isOfModel,
    settings: isOfModel,
  }
}

/** About a failure that may be over after a while. @param {string} time  after which the server may be asked again; '' if it did not say */
function sentence(kind, time, sentences) {
  return time ? wording.fill(sentences.laterFor, { time }) : sentences[kind] || sentences.later
}

/** What is shared: what the user said that it is, else what the answer names. `id` is that of a breed, else ''. */
function toCard(outcome, said, first, text) {
  const { title, percent } = captions.shared(outcome, said)
  const words = said && said.name ? captions.said(said) : ''
  const count = captions.count(outcome)
  const second = title === first.name ? first.second : ''
  const several = count ? wording.fill(text.shareDogs, { count, names: title }) : title
  const message = percent ? wording.fill(text.shareTitle, { name: title, percent }) : several
  return {
    id: words ? said.breed : first.id,
    title,
    subtitle: words || count || second || text.note,
    percent,
    message: words || message,
    app: texts().card.app,
    boxes: dogs.places(outcome),
  }
}

/** @param {{id: string, name: string, name_zh: string, probability: number}} guess  a breed or a group */
function toRow({ id, name, name_zh, probability }, language) {
  const { main, second } = wording.names({ name, name_zh }, language)
  return { id, name: main, second, percent: wording.percent(probability), width: Math.round(probability * 100) }
}

module.exports = { of }
