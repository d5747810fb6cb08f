/** Starts the app: follows the phone's theme, and takes in photos that come from a chat. It has no state. */
const appearance = require('./services/appearance')
const feedback = require('./services/feedback')
const { texts } = require('./services/language')
const snaps = require('./services/snaps')
const waiting = require('./services/waiting')

App({
  onLaunch() {
    appearance.follow()
    feedback.forgetRest()
    waiting.follow(showAnew)
    wx.onNetworkStatusChange(({ isConnected }) => isConnected && showAnew())
  },

  onShow(options) {
    const photo = (options.forwardMaterials || []).find(({ type }) => type.startsWith('image'))
    if (photo) snaps.forward(photo.path)
    waiting.send()
  },

  /** Only browsers call this: something was dropped or pasted that is no photo. */
  onUnsupportedMaterial() {
    wx.showToast({ title: texts().notPhoto, icon: 'none' })
  },

  /** Only browsers call this: of several photos one was taken. */
  onFurtherMaterial() {
    wx.showToast({ title: texts().onePhoto, icon: 'none', duration: 4000 })
  },
})

/** The page in view: an answer has come, or a connection. */
function showAnew() {
  getCurrentPages().slice(-1).forEach((page) => page.onShow())
}
