/**
 * Where the backend is. The only file that knows a host: before publishing, put yours here and list it in the mini
 * program's console (https, registered domain). In DevTools switch on "do not verify domain" and any address will do.
 */
const BACKEND = 'http://127.0.0.1:8501'

/** Of the app, and of the server that comes with it. */
const VERSION = '0.3.0'

/** In a browser the backend itself hands out this app, so addresses are relative to the page, below any path of a proxy. */
const inBrowser = wx.getDeviceInfo().platform === /** @type {string} */ ('web')

module.exports = { VERSION, inBrowser, baseUrl: inBrowser ? '.' : BACKEND }
