/** Starts the app: follows the phone's theme, and takes in photos that come from a chat. It has no state. */
const appearance = require('./services/appearance')
const dialogs = require('./services/dialogs')
const feedback = require('./services/feedback')
const { texts } = require('./services/language')
const offline = require('./services/offline')
const picking = require('./services/picking')
const storage = require('./services/storage')
const waiting = require('./services/waiting')

App({
  onLaunch() {
    appearance.follow()
    feedback.forgetRest()
    offline.renew()
    waiting.follow(showAnew)
    wx.onNetworkStatusChange(({ isConnected }) => isConnected && showAnew())
  },

  onShow(options) {
    storage.forget()
    const photo = (options.forwardMaterials || []).find(({ type }) => type.startsWith('image'))
    if (photo) picking.forward(photo.path)
    waiting.send()
  },

  /** Only browsers call this: another window has kept something. */
  onStorageChange() {
    storage.forget()
  },

  /** Only browsers call this: something was dropped or pasted that is no photo. */
  onUnsupportedMaterial() {
    dialogs.say(texts().notPhoto)
  },

  /** Only browsers call this: of several photos one was taken. */
  onFurtherMaterial() {
    dialogs.say(texts().onePhoto)
  },
})

/** The page in view: an answer has come, or a connection. */
function showAnew() {
  getCurrentPages().slice(-1).forEach((page) => page.onShow())
}
