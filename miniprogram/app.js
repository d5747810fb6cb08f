/** Starts the app: follows the phone's theme, and takes in photos that come from a chat. It has no state. */
const appearance = require('./services/appearance')
const feedback = require('./services/feedback')
const snaps = require('./services/snaps')
const waiting = require('./services/waiting')

App({
  onLaunch() {
    appearance.followPhone()
    feedback.forgetRest()
    wx.onNetworkStatusChange(({ isConnected }) => isConnected && sendWaiting())
  },

  onShow(options) {
    const photo = (options.forwardMaterials || []).find(({ type }) => type.startsWith('image'))
    if (photo) snaps.forward(photo.path)
    sendWaiting()
  },

  /** Only browsers call this: something was dropped or pasted that is no photo. */
  onUnsupportedMaterial() {
    wx.showToast({ title: appearance.texts().notPhoto, icon: 'none' })
  },
})

/** The page in view shows what was answered. */
async function sendWaiting() {
  if (await waiting.send()) getCurrentPages().slice(-1).forEach((page) => page.onShow())
}
