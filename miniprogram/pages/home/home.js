/** The first page: one tap to the camera or the album, and the latest snaps. It waits for nothing from the server. */
const appearance = require('../../services/appearance')
const captions = require('../../services/captions')
const dogs = require('../../services/dogs')
const history = require('../../services/history')
const picking = require('../../services/picking')
const routes = require('../../services/routes')
const settings = require('../../services/settings')
const snaps = require('../../services/snaps')
const waiting = require('../../services/waiting')

/** As many as fit beside each other on the smallest phone, and on a tablet. */
const RECENT = 4
const RECENT_ON_TABLETS = 8

const A_KEY = /^[\w-]+$/

Page({
  data: {
    ...appearance.DATA,
    /** @type {{id: string, photo: string, focus: string, waits: boolean, name: string}[]} */
    recent: [],
  },

  /** @param {{key?: string}} query  an API key, from a link or code that the server's operator gives to users */
  onLoad({ key = '' }) {
    if (A_KEY.test(key)) settings.change({ key })
    this.dress()
    if (key) routes.go(routes.HOME) // it stays in no address and no history of a browser
  },

  onShow() {
    this.dress()
    this.showRecent()
    const forwarded = picking.takeForwarded()
    if (forwarded) this.snap([forwarded])
    waiting.send()
  },

  dress() {
    appearance.dress(this, 'home')
  },

  showRecent() {
    const recent = history.list().slice(0, isTablet() ? RECENT_ON_TABLETS : RECENT)
    this.setData({
      recent: recent.map((entry) => Object.assign(dogs.thumb(entry), { name: captions.short(entry) })),
    })
  },

  onCamera() {
    return this.choose('camera')
  },

  onAlbum() {
    return this.choose('album')
  },

  /** @param {'camera' | 'album'} source */
  async choose(source) {
    const paths = await picking.pick([source])
    if (paths.length) this.snap(paths)
  },

  /** @param {string[]} paths  of one dog */
  snap(paths) {
    routes.go(routes.result(snaps.open(...paths)))
  },

  onRecent({ currentTarget }) {
    routes.go(routes.result(currentTarget.dataset.id), this)
  },

  onShareAppMessage() {
    return { title: this.data.text.headline, path: routes.HOME }
  },

  onShareTimeline() {
    return { title: this.data.text.headline }
  },
})

/** As home.wxss has it. */
function isTablet() {
  const { windowWidth, windowHeight } = wx.getWindowInfo()
  return windowWidth >= 700 && windowHeight > 560
}
