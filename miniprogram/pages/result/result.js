/**
 * One photo and its answer. The page is in exactly one state - working, one for each level of an answer, or failed -
 * and shows what view.js makes of the answer or the failure. It sends its photo once, when it opens; coming back from
 * the background does not send again.
 */
const appearance = require('../../services/appearance')
const card = require('../../services/card')
const dialogs = require('../../services/dialogs')
const dogs = require('../../services/dogs')
const feedback = require('../../services/feedback')
const history = require('../../services/history')
const { texts } = require('../../services/language')
const picking = require('../../services/picking')
const refusals = require('../../services/refusals')
const routes = require('../../services/routes')
const settings = require('../../services/settings')
const snaps = require('../../services/snaps')
const view = require('../../services/view')
const waiting = require('../../services/waiting')
const wording = require('../../services/wording')

/** Two taps within it are one. */
const DOUBLE_TAP_MS = 1000

/** Levels of which a photo may lie on its side. */
const AGAIN_ONCE_TURNED = ['no_dog', 'unknown', 'unsure']

/** Whether the user was told that this phone keeps nothing. */
let isTold = false

Page({
  data: {
    ...appearance.DATA,
    /** @type {'working' | 'failed' | import('../../services/classifier').State} */
    state: 'working',
    stage: 'shrinking',
    photo: '',
    /** Why the photo is not seen: '' while it is. @type {'' | 'photoHidden' | 'photoLost'} */
    photoProblem: '',
    /** Whether its answer came, or comes, while it is in view. */
    wasAsked: false,
    /** @type {ReturnType<typeof view.answer> | null} */
    answer: null,
    /** Its breeds, the likeliest first. @type {ReturnType<typeof view.answer>['rows']} */
    rows: [],
    details: view.NO_DETAILS,
    /** @type {ReturnType<typeof view.problem> | null} */
    failure: null,
    /** Said once, where this phone keeps nothing. */
    notKept: '',
  },

  /** @type {string} of the snap this page shows */
  snapId: '',
  /** @type {import('../../services/classifier').Outcome | null} */
  outcome: null,
  /** When the user last asked again, in milliseconds since 1970. */
  retried: 0,
  /** Whether the server was asked for a copy that this phone can show. */
  isCopyAsked: false,
  /** While the photo is being turned. */
  isTurning: false,
  /** While the card is being saved, and a moment longer. */
  isSaving: false,
  /** @type {any} what went wrong, to be shown again in another language */
  problem: null,
  /** Stops the snap under way; replaced when one starts. */
  stop() {},

  onLoad({ id }) {
    this.snapId = id || ''
    const kept = history.find(this.snapId)
    const path = snaps.best(this.snapId)
    const outcome = kept && (kept.outcome || kept.onPhone)
    this.setData({ photo: kept && (outcome || !kept.isRaw) ? path : '' }) // as it was chosen it would take up to 50 MB: its small copy is shown
    this.dress()
    if (outcome) this.answer(outcome)
    if (!path) this.fail({ kind: 'photoGone' })
  },

  /** Not before: the photo is shrunk on the page's canvas. */
  onReady() {
    if (this.data.state === 'working') this.start()
    this.showUpright()
  },

  onShow() {
    const { outcome = null } = history.find(this.snapId) || {}
    if (outcome && (!this.outcome || this.outcome.onPhone)) {
      this.answer(outcome) // it waited, or another window was asked about it
      this.showUpright()
    }
    this.dress()
    waiting.send()
  },

  onUnload() {
    this.stop()
  },

  dress() {
    appearance.dress(this, 'result')
    this.show()
  },

  start() {
    this.stop()
    this.problem = null
    this.setData({ state: 'working', stage: 'shrinking', wasAsked: true, answer: null })
    this.stop = snaps.run(this.snapId, (news) => this.hear(news))
  },

  /** @param {import('../../services/snaps').News} news */
  hear({ stage, shown, outcome, failure }) {
    if (stage) this.setData({ stage })
    if (failure && !this.outcome) this.fail(failure)
    if (shown) this.setData({ photo: shown, photoProblem: '' })
    if (outcome) {
      this.answer(outcome)
      this.showUpright()
    }
    if (outcome || failure) this.showWhetherKept()
  },

  /** Nothing more comes of this photo; those that were chosen with it may have no answer yet. */
  end() {
    this.stop()
    waiting.send()
  },

  async showWhetherKept() {
    if (isTold || (await snaps.of(this.snapId).kept)) return
    isTold = true
    this.setData({ notKept: this.data.text.notKept })
  },

  /** @param {import('../../services/classifier').Outcome} outcome */
  answer(outcome) {
    if (outcome.state === 'refused') return this.fail({ kind: outcome.kind })
    if (outcome.onPhone) waiting.accept(this.snapId)
    else this.end()
    this.outcome = outcome
    this.setData({ details: view.NO_DETAILS })
    this.show()
  },

  /** The answer, with what was said of it (that is known only of what is in the history), or what went wrong. */
  async show() {
    const { outcome, problem, data } = this
    const kept = history.find(this.snapId)
    const { outcome: answered = null, time = 0, said = null, onPhone = null } = kept || {}
    const waits = Boolean(kept && !answered)
    if (outcome) {
      const entry = { said, feedback: answered ? feedback.stateOf(outcome, time) : '', onPhone, waits }
      const answer = view.answer(outcome, entry, data)
      this.setData({ state: outcome.state, answer, rows: answer.rows })
      const details = await view.details(outcome, data)
      if (this.outcome === outcome) this.setData({ details })
    } else if (problem) this.setData({ state: 'failed', failure: view.problem({ ...problem, waits }, Boolean(settings.get().model), data) })
  },

  async onRight() {
    this.setData({ answer: Object.assign({}, this.data.answer, { feedback: 'given' }) })
    const { feedbackId, chosen } = this.outcome // another dog may be shown before it is sent
    const said = feedback.confirmation(this.outcome)
    try {
      await feedback.give(feedbackId, said)
      history.say(this.snapId, said, chosen)
    } catch (failure) {
      dialogs.say(this.data.text.notSent)
    }
    this.show()
  },

  async onTakeBack() {
    const { feedbackId, chosen } = this.outcome
    const forgotten = feedback.forget([feedbackId])
    history.say(this.snapId, null, chosen)
    this.show()
    await forgotten
    history.say(this.snapId, null, chosen) // it may have been on its way until now
    this.show()
  },

  onCorrect() {
    routes.go(routes.correct(this.snapId), this)
  },

  /** What is refused at once is not kept: here the reason is seen. What was said to be kept stays, with the reason. Else the photo waits. */
  fail(problem) {
    if (!problem.kind) console.error(problem)
    const { outcome = null } = history.find(this.snapId) || {}
    if (outcome && outcome.state !== 'refused') return this.answer(outcome) // it came with another photo's
    if (outcome && snaps.of(this.snapId).isNew) history.remove(this.snapId)
    if (outcome) this.end()
    else waiting.accept(this.snapId)
    this.problem = problem
    this.show()
  },

  /** The phone may have cleared the file, and the server may have had no time for a copy before. */
  async onPhotoError() {
    this.setData({ photoProblem: 'photoHidden' })
    if (this.data.state === 'working' || this.isCopyAsked) return
    this.isCopyAsked = true
    try {
      const photo = await snaps.show(this.snapId)
      if (photo) this.setData({ photo, photoProblem: '' })
    } catch (failure) {
      if (failure.kind === 'photoGone') this.setData({ photoProblem: 'photoLost' })
    }
  },

  onDog({ detail: { place } }) {
    history.choose(this.snapId, place)
    this.answer(dogs.choose(this.outcome, place))
  },

  onFrame() {
    if (this.outcome) routes.go(routes.frame(this.snapId), this)
  },

  onCancel() {
    if (Math.abs(Date.now() - this.retried) < DOUBLE_TAP_MS) return // it lies where the retry was
    snaps.cancel(this.snapId)
    this.stop()
    routes.back()
  },

  onRetry() {
    this.retried = Date.now()
    this.start()
  },

  /** Another model can be chosen there; back here, the retry asks that one. */
  onSettings() {
    routes.go(routes.SETTINGS, this)
  },

  async onAgain() {
    const paths = await picking.pick(['camera', 'album'])
    const lead = appearance.isInView(this) ? routes.replace : routes.go
    if (paths.length) lead(routes.result(snaps.open(...paths)))
  },

  onBreed({ detail: { id } }) {
    routes.go(routes.breed(id), this)
  },

  shared() {
    const { said = null } = history.find(this.snapId) || {}
    return view.shared(this.outcome, said, this.data)
  },

  /** @returns {Promise<string>} temporary file */
  drawCard() {
    const { app } = texts().card
    return card.draw({ photo: this.data.photo, ...this.shared(), app, boxes: dogs.places(this.outcome) })
  },

  /** By a quarter. Where little was said of the photo, it is asked about as it lies now. */
  async onTurn() {
    const isAsked = AGAIN_ONCE_TURNED.includes(this.data.state) || this.outcome.onPhone
    if (!(await this.turn(90, isAsked ? null : dogs.turned(this.outcome, 90)))) dialogs.say(this.data.text.notTurned)
  },

  /** @returns {Promise<boolean>}  whether this phone can */
  async turn(degrees, outcome) {
    if (this.isTurning) return true
    this.isTurning = true
    const photo = await snaps.turn(this.snapId, degrees, outcome)
    this.isTurning = false
    if (!photo) return false
    this.outcome = outcome
    this.setData({ photo, photoProblem: '', wasAsked: false })
    if (outcome) this.answer(outcome)
    else this.start()
    return true
  },

  /** The server says by how much it turned the photo: it is shown so. */
  async showUpright() {
    const { turned = 0 } = this.outcome || {}
    if (turned) await this.turn(turned, dogs.turned(this.outcome, turned))
  },

  async onSave() {
    if (this.isSaving) return
    this.isSaving = true
    try {
      await wx.saveImageToPhotosAlbum({ filePath: await this.drawCard() })
      dialogs.say(this.data.text.saved)
    } catch (refused) {
      refusals.explain(refused, texts().refused.save)
    }
    setTimeout(() => (this.isSaving = false), DOUBLE_TAP_MS)
  },

  /** The link leads to the breed: the photo is on this phone only, and goes along as the card's picture. */
  onShareAppMessage() {
    const { answer, text } = this.data
    if (!answer || !answer.isOne) return { title: texts().pages.home.headline, path: routes.HOME }
    const { id, title: name, subtitle, percent } = this.shared()
    const several = this.outcome.dogs ? wording.fill(text.shareDogs, { count: subtitle, names: name }) : subtitle
    const title = percent ? wording.fill(text.shareTitle, { name, percent }) : several
    const share = { title, path: id ? routes.breed(id) : routes.HOME }
    const drawn = this.drawCard().then((imageUrl) => Object.assign({ imageUrl }, share))
    return Object.assign({ promise: drawn.catch(() => share) }, share)
  },
})
