/**
 * What WeChat's documents say of the parameters that it refuses, for the functions that the mini program calls; what the
 * browser's runtime refuses, too, is in its limits.js. Each rule throws an error with WeChat's reason.
 */
import { checkModal, checkToast } from '../../../backend/web/runtime/wx/limits.js'

/** Pages on top of each other. */
const MOST_PAGES = 10
/** Photos chosen at once. */
const MOST_CHOSEN = 20
/** Pixels of a side: larger canvases fail on some phones. */
const LONGEST_CANVAS = 4096
/** Characters of JSON in one setData. */
const MOST_SET = 1024 * 1024
/** Bytes of a mini program's files. */
export const MOST_FILED = 200 * 1024 * 1024

const COLOUR = /^#[0-9a-f]{6}$/i
const METHODS = ['OPTIONS', 'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT']

function demand(isRight, reason, errno = 1001) {
  if (!isRight) throw Object.assign(new Error(reason), { errno })
}

function demandText(value, name) {
  demand(typeof value === 'string', `parameter error: parameter.${name} should be String instead of ${typeof value};`)
}

function demandSome(list, allowed, name) {
  demand(Array.isArray(list) && list.length > 0 && list.every((each) => allowed.includes(each)), `parameter error: invalid ${name}`)
}

function demandColours(colours) {
  for (const [name, colour] of Object.entries(colours)) demand(COLOUR.test(colour), `invalid ${name} "${colour}"`)
}

const pageOf = (url) => url.replace(/^\//, '').split('?')[0]

/** @param {any} program @param {import('./phone.mjs').Phone} phone */
export function rulesOf({ app }, phone) {
  const isTab = (url) => app.tabBar.list.some(({ pagePath }) => pagePath === pageOf(url))
  const isFile = (path) => path in phone.files
  const demandPage = ({ url }) => {
    demandText(url, 'url')
    demand(url.startsWith('/'), `page "${url}" is not found`) // what has no slash is looked for below the page in view
    demand(app.pages.includes(pageOf(url)), `page "${url}" is not found`)
  }
  const demandNoTab = (options) => {
    demandPage(options)
    demand(!isTab(options.url), 'can not navigateTo a tabbar page')
  }
  const demandTabInView = () => demand(isTab(phone.pages.at(-1)?.route ?? ''), 'not TabBar page')
  return {
    navigateTo(options) {
      demandNoTab(options)
      demand(phone.pages.length < MOST_PAGES, 'webview count limit exceed')
    },
    redirectTo: demandNoTab,
    switchTab(options) {
      demandPage(options)
      demand(isTab(options.url), 'can not switch to no-tabBar page')
      demand(!options.url.includes('?'), 'url should not have a query')
    },
    setNavigationBarTitle: ({ title }) => demandText(title, 'title'),
    setNavigationBarColor({ frontColor, backgroundColor }) {
      demand(['#000000', '#ffffff'].includes(frontColor), `invalid frontColor "${frontColor}"`)
      demandColours({ backgroundColor })
    },
    setTabBarItem({ index, text }) {
      demandTabInView()
      demand(index in app.tabBar.list, 'tabBar item not found')
      demandText(text, 'text')
    },
    setTabBarStyle({ borderStyle, ...colours }) {
      demandTabInView()
      demand(['black', 'white'].includes(borderStyle), `invalid borderStyle "${borderStyle}"`)
      demandColours(colours)
    },
    showToast(options) {
      demandText(options.title, 'title')
      demand(['success', 'error', 'loading', 'none'].includes(options.icon ?? 'success'), 'invalid icon')
      demand(Number.isInteger(options.duration ?? 1500), 'invalid duration')
      checkToast(options)
    },
    showModal(options) {
      for (const name of ['title', 'content', 'confirmText', 'cancelText']) demandText(options[name] ?? '', name)
      demand(options.title || options.content, 'there is nothing to show')
      for (const name of ['confirmColor', 'cancelColor']) if (name in options) demandColours({ [name]: options[name] })
      checkModal(options)
    },
    chooseMedia({ count = 9, mediaType = ['image'], sourceType = ['album'], sizeType = ['original'] }) {
      demand(Number.isInteger(count) && count >= 1 && count <= MOST_CHOSEN, 'invalid count')
      demandSome(mediaType, ['image', 'video', 'mix'], 'mediaType')
      demandSome(sourceType, ['album', 'camera'], 'sourceType')
      demandSome(sizeType, ['original', 'compressed'], 'sizeType')
    },
    getImageInfo: ({ src }) => demand(isFile(src), 'file not found'),
    saveImageToPhotosAlbum: ({ filePath }) => demand(isFile(filePath), 'file not exist'),
    canvasToTempFilePath({ canvas, fileType = 'png', quality = 1, ...sizes }) {
      demand(canvas, 'canvas is empty')
      demand(['jpg', 'png'].includes(fileType), 'invalid fileType')
      demand(quality > 0 && quality <= 1, 'invalid quality')
      const sides = [canvas.width, canvas.height, sizes.destWidth, sizes.destHeight]
      demand(sides.every((side) => side >= 1 && side <= LONGEST_CANVAS), 'create bitmap failed')
    },
    request({ url, method = 'GET', header = {}, data }) {
      demand(/^https?:\/\//.test(url), `invalid url "${url}"`)
      demand(METHODS.includes(method), `invalid method "${method}"`)
      demand(Object.values(header).every((value) => typeof value === 'string'), 'header value should be String')
      demand(data === undefined || ['string', 'object'].includes(typeof data), 'invalid data')
    },
  }
}

/** WeChat leaves out what is undefined, and says so in its console; what it cannot write as JSON does not reach the page. */
export function checkSet(changes) {
  for (const [name, value] of Object.entries(changes)) demand(value !== undefined, `Setting data field "${name}" to undefined is invalid.`)
  const text = JSON.stringify(changes, (name, value) => {
    demand(typeof value !== 'function', `"${name}" of setData is a function`)
    return value
  })
  demand(text.length <= MOST_SET, `setData of ${text.length} characters, at most ${MOST_SET}`)
}

/** Of an asynchronous function: a refusal reaches whoever asked. */
export function strict(name, rule, act) {
  return (options = {}) => {
    try {
      rule(options)
    } catch ({ message, errno }) {
      const failure = Object.assign(new Error(`${name}:fail ${message}`), { errMsg: `${name}:fail ${message}`, errno })
      options.fail?.(failure)
      return options.fail ? { abort() {} } : Promise.reject(failure)
    }
    return act(options)
  }
}
