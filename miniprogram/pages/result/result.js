/**
 * One photo and its answer, or why there is none: the page shows what view.js makes of them. It sends its photo once, when
 * it opens; coming back from the background does not send again.
 */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const card = require('../../services/card')
const dialogs = require('../../services/dialogs')
const dogs = require('../../services/dogs')
const feedback = require('../../services/feedback')
const history = require('../../services/history')
const { texts } = require('../../services/language')
const opinion = require('../../services/opinion')
const picking = require('../../services/picking')
const refusals = require('../../services/refusals')
const routes = require('../../services/routes')
const snaps = require('../../services/snaps')
const view = require('../../services/view')
const waiting = require('../../services/waiting')

/** Two taps within it are one. */
const DOUBLE_TAP_MS = 1000

/** Levels of which a photo may lie on its side. */
const AGAIN_ONCE_TURNED = ['no_dog', 'unknown', 'unsure']

/** Whether the user was told that this phone keeps nothing. */
let isTold = false

Page({
  data: {
    ...appearance.DATA,
    /** 'working', 'failed', or that of the answer. */
    state: 'working',
    stage: 'shrinking',
    photo: '',
    /** Why the photo is not seen: '' while it is. @type {'' | 'photoHidden' | 'photoLost'} */
    photoProblem: '',
    /** Whether its answer came, or comes, while it is in view. */
    wasAsked: false,
    /** As view.js makes it. @type {any} */
    answer: null,
    /** Its breeds, the likeliest first. @type {any[]} */
    rows: [],
    /** @type {any} */
    failure: null,
    /** Said once, where this phone keeps nothing. */
    notKept: '',
  },

  /** @type {string} of the snap this page shows */
  snapId: '',
  /** What it was opened with, until that is shown. @type {import('../../services/classifier').Outcome | null} */
  kept: null,
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

  onLoad({ id = '' }) {
    this.snapId = id
    const kept = history.find(id)
    const path = snaps.best(id)
    if (kept) this.kept = kept.outcome || kept.onPhone || null
    if (!path) this.problem = { kind: 'photoGone' }
    this.setData({ stage: this.kept ? '' : 'shrinking', photo: kept && (this.kept || !kept.isRaw) ? path : '' }) // as it was chosen it would take up to 50 MB: its small copy is shown
  },

  /** Not before: the photo is shrunk on the page's canvas. */
  onReady() {
    if (!this.kept && !this.outcome && !this.problem) this.start()
  },

  async onShow() {
    const { stop } = this
    this.dress()
    waiting.send()
    await breeds.soon()
    if (this.stop !== stop) return // asked again, or left, meanwhile
    const outcome = history.outcome(this.snapId) || this.kept
    if (outcome && (!this.outcome || this.outcome.onPhone)) this.answer(outcome) // it waited, or another window was asked about it
  },

  onUnload() {
    this.stop()
    this.stop = () => {}
  },

  dress() {
    appearance.dress(this, 'result')
    this.show()
  },

  start() {
    this.stop()
    Object.assign(this, { kept: null, outcome: null, problem: null })
    this.setData({ state: 'working', stage: 'shrinking', wasAsked: true, answer: null })
    this.stop = snaps.run(this.snapId, (news) => this.hear(news))
  },

  /** @param {import('../../services/snaps').News} news */
  async hear({ stage, shown, outcome, failure }) {
    if (stage) this.setData({ stage })
    if (shown) this.setData({ photo: shown, photoProblem: '' })
    if (outcome) this.answer(outcome)
    if (failure && !this.outcome) this.fail(failure)
    if (!outcome && !failure) return
    if (isTold || (await snaps.of(this.snapId).kept)) return
    isTold = true
    this.setData({ notKept: this.data.text.notKept })
  },

  /** After one of the phone the photo still waits, and after one of the server those that were chosen with it may. @param {import('../../services/classifier').Outcome} outcome */
  answer(outcome) {
    Object.assign(this, { kept: null, outcome })
    if (outcome.onPhone) waiting.accept(this.snapId)
    else {
      this.stop()
      waiting.send()
    }
    this.show()
    if (outcome.turned) this.turn(outcome.turned) // the server says by how much it turned the photo: it is shown so
  },

  /** What is refused at once is not kept: here the reason is seen. What was said to be kept stays, with the reason. Else the photo waits. */
  fail(problem) {
    if (!problem.kind) console.error(problem)
    this.problem = problem
    const outcome = history.outcome(this.snapId)
    if (outcome && outcome.state === 'refused' && snaps.isNew(this.snapId)) history.remove(this.snapId)
    if (outcome) return this.answer(outcome) // it may have come with another photo's
    waiting.accept(this.snapId)
    this.show()
  },

  /** The answer, with what was said of it (that is known only of what is in the history), or what went wrong. */
  show() {
    const { outcome, problem } = this
    const entry = history.find(this.snapId)
    this.setData(view.of({ outcome, problem, entry, feedback: feedback.stateOf(entry) }, this.data))
  },

  async onRight() {
    this.setData({ answer: Object.assign({}, this.data.answer, { feedback: 'given' }) })
    await opinion.give(this.snapId, this.outcome, opinion.confirmation(this.outcome)).catch(() => dialogs.say(this.data.text.notSent))
    this.show()
  },

  async onTakeBack() {
    const forgotten = opinion.takeBack(this.snapId, this.outcome)
    this.show()
    await forgotten
    this.show()
  },

  onCorrect() {
    routes.go(routes.correct(this.snapId), this)
  },

  /** The phone may have cleared the file, and the server may have had no time for a copy before. */
  async onPhotoError() {
    this.setData({ photoProblem: 'photoHidden' })
    if ((this.data.state === 'working' && !this.kept) || this.isCopyAsked) return
    this.isCopyAsked = true
    try {
      const { path, unshown } = await snaps.prepare(this.snapId)
      if (!unshown) this.setData({ photo: path, photoProblem: '' })
    } catch (failure) {
      if (failure.kind === 'photoGone') this.setData({ photoProblem: 'photoLost' })
    }
  },

  onDog({ detail: { place } }) {
    history.choose(this.snapId, place)
    this.answer(dogs.choose(this.outcome, place))
  },

  onFrame() {
    if (this.data.answer) routes.go(routes.frame(this.snapId), this)
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

  drawCard() {
    return card.draw(Object.assign({ photo: this.data.photo }, this.data.answer.card))
  },

  /** By a quarter. Where little was said of the photo, it is asked about as it lies now. */
  async onTurn() {
    const isAsked = AGAIN_ONCE_TURNED.includes(this.data.state) || this.outcome.onPhone
    if (!(await this.turn(90, isAsked))) dialogs.say(this.data.text.notTurned)
  },

  /** @returns {Promise<boolean>}  whether this phone can */
  async turn(degrees, isAsked = false) {
    if (this.isTurning) return true
    this.isTurning = true
    const outcome = isAsked ? null : dogs.turned(this.outcome, degrees)
    const photo = await snaps.turn(this.snapId, degrees, outcome)
    this.isTurning = false
    if (!photo) return false
    this.setData({ photo, photoProblem: '', wasAsked: false })
    if (outcome) this.answer(outcome)
    else this.start()
    return true
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
    const { answer } = this.data
    if (!answer || !answer.card) return { title: texts().pages.home.headline, path: routes.HOME }
    const { id, message: title } = answer.card
    const share = { title, path: id ? routes.breed(id) : routes.HOME }
    const drawn = this.drawCard().then((imageUrl) => Object.assign({ imageUrl }, share))
    return Object.assign({ promise: drawn.catch(() => share) }, share)
  },
})
