/**
 * A phone for unit tests: a small fake `wx`, and the mini program's own files running on it, loaded by the runtime's
 * module loader. It draws nothing; tests read a page's data and answer its requests by hand. It refuses what WeChat's
 * documents say that WeChat refuses, and has no Intl, no Chinese order and no Unicode normalization, as WeChat on Android.
 */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { readProgram } from '../../../backend/web/compiler/source.mjs'
import { MODULE_GLOBALS } from '../../../backend/web/compiler/scripts.mjs'
import { createLoader } from '../../../backend/web/runtime/modules.js'
import { checkRequests, checkStored } from '../../../backend/web/runtime/wx/limits.js'
import { createCanvas, plain } from './canvas.mjs'
import { checkSet, MOST_FILED, rulesOf, strict } from './strict.mjs'

export const program = readProgram(path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../miniprogram'))
const scripts = Object.fromEntries(
  [...program.files]
    .filter(([file]) => file.endsWith('.js'))
    .map(([file, text]) => [file, new Function(...MODULE_GLOBALS, 'Intl', 'setTimeout', `'use strict';${text}`)]),
)

delete globalThis.Intl
String.prototype.localeCompare = function (other) {
  return this < other ? -1 : Number(this > other)
}
String.prototype.normalize = function () {
  return String(this)
}

/** Node waits for no timer of the app at its end. */
function timer(act, milliseconds) {
  const started = setTimeout(act, milliseconds)
  if (milliseconds >= 5000) started.unref()
  return started
}

/** What was stored is read once and shared: who changes it would change it for all. */
function frozen(value) {
  if (value && typeof value === 'object') Object.values(value).forEach(frozen)
  return Object.freeze(value)
}

/** Calls a check of limits.js; what it throws WeChat says by errMsg. */
function refuse(name, check) {
  try {
    check()
  } catch ({ message, errno }) {
    throw Object.assign(new Error(message), { errMsg: `${name}:fail ${message}`, errno })
  }
}

export const GUESSES = [
  { id: 'n01', name: 'golden retriever', name_zh: '金毛寻回犬', probability: 0.93 },
  { id: 'n02', name: 'Labrador retriever', name_zh: '拉布拉多寻回犬', probability: 0.03 },
  { id: 'n03', name: 'bloodhound', name_zh: '寻血猎犬', probability: 0.02 },
  { id: 'n04', name: 'redbone', name_zh: '红骨猎浣熊犬', probability: 0.01 },
]

/** The server's answer to a photo of a golden retriever, unless told otherwise. */
export function answerBody(changes = {}) {
  return {
    model: { name: 'inception_v3', version: 2 },
    dog: true,
    confident: true,
    breeds: GUESSES,
    request_id: 'r1',
    ...changes,
  }
}

export const HUSKY = {
  id: 'husky',
  name: 'husky',
  name_zh: '哈士奇类',
  members: ['n01', 'n03'],
  probability: 0.97,
  difference: 'By the eyes.',
  difference_zh: '看眼睛。',
}

/** No breed of these is likely enough to be named alone. */
const LIKELY = GUESSES.map((guess, index) => ({ ...guess, probability: [0.63, 0.2, 0.1, 0.05][index] }))

/** What the server answers at each level; the app's word for the level is the key. */
export const LEVELS = {
  breed: { level: 'breed' },
  group: { level: 'group', confident: false, group: HUSKY, breeds: LIKELY },
  set: { level: 'set', confident: false, set: ['n02', 'n01'] },
  unsure: { level: 'unsure', confident: false },
  unknown: { level: 'unknown', confident: false },
  no_dog: { level: 'no_dog', dog: false },
  labels: { level: 'labels', labels: [GUESSES[1], GUESSES[0]] },
}

/** A phone in Chinese, in light colours, with nothing stored. */
export class Phone {
  constructor() {
    this.language = 'zh_CN'
    this.theme = 'light'
    this.platform = 'ios'
    this.scene = 1001
    this.photoArea = { left: 0, top: 0, width: 200, height: 100 } // on the screen, where a finger touches it
    this.network = 'none' // once a connection is lost
    this.storage = {}
    this.app = {}
    this.refuses = [] // of the storage: 'read', 'write', 'remove'
    this.files = { 'tmp/dog.jpg': 'dog' }
    this.requests = []
    this.facts = [] // what it is told of breeds, at once; null: a test answers that request by hand
    this.routes = []
    this.tabs = []
    this.pages = []
    this.ids = [] // in the template of the page in view, once it is ready
    this.modals = []
    this.settingsOpened = false
    this.answerModal = true
    this.chosen = 'tmp/dog.jpg'
    this.pictures = { 'tmp/dog.jpg': plain(4000, 3000) }
    this.turnsPictures = true
    this.drawn = []
    this.canvas = createCanvas(this)
    this.bytesAt = () => 30_000
    this.saves = []
    this.themeListeners = []
    this.infers = false // whether WeChat is new enough to run networks
    this.downloads = []
    this.sessions = []
    this.sizes = {} // bytes of files, where they are more than what stands for them here
    this.wx = fakeWx(this)
    for (const [name, rule] of Object.entries(rulesOf(program, this))) {
      if (name in this.wx) this.wx[name] = strict(name, rule, this.wx[name])
    }
    this.load = createLoader(scripts, () => [
      this.wx,
      (app) => {
        this.app = app
      },
      (page) => {
        this.definition = page
      },
      () => {},
      () => {},
      () => this.app,
      () => this.pages,
      undefined,
      timer,
    ])
  }

  service(name) {
    return this.load(`services/${name}.js`)
  }

  /** Opens a page as a route would: onLoad, onShow, onReady. */
  open(name, query = {}) {
    const page = this.render(name, query)
    page.onReady?.()
    return page
  }

  /** The same up to its first picture: onReady is yet to come. */
  render(name, query = {}) {
    delete this.definition
    this.ids = []
    const definition = this.pageDefinition(name)
    const page = {
      ...definition,
      route: `pages/${name}/${name}`,
      data: structuredClone(definition.data),
      setData(changes) {
        checkSet(changes)
        Object.assign(this.data, structuredClone(changes))
      },
    }
    this.pages.push(page)
    page.onLoad(query)
    page.onShow()
    this.ids = program.files.get(`pages/${name}/${name}.wxml`).match(/(?<=\bid=")[\w-]+/g) ?? []
    return page
  }

  pageDefinition(name) {
    this.definitions ??= {}
    if (!this.definitions[name]) {
      this.load(`pages/${name}/${name}.js`)
      this.definitions[name] = this.definition
    }
    return this.definitions[name]
  }

  /** A result page for a new photo, as the home page opens it. */
  snap(photo = 'tmp/dog.jpg') {
    return this.open('result', { id: this.service('snaps').open(photo) })
  }
}

/** Lets everything that is waiting on promises run. */
export async function settle() {
  for (let turn = 0; turn < 100; turn++) await Promise.resolve()
}

/** Of an element, or told by a component. */
export const tap = (dataset = {}) => ({ currentTarget: { dataset }, detail: dataset })

function fakeWx(phone) {
  const fileManager = {
    readFile: ({ filePath, success, fail }) =>
      filePath in phone.files
        ? success({ data: phone.files[filePath] })
        : fail({ errMsg: 'readFile:fail no such file' }),
    copyFile: ({ srcPath, destPath, success, fail }) => {
      const bytesOf = (path) => phone.sizes[path] ?? phone.files[path].length
      const filed = Object.keys(phone.files).filter((path) => path.startsWith('usr/') && path !== destPath)
      if (!(srcPath in phone.files)) return fail({ errMsg: 'copyFile:fail no such file' })
      if (!destPath.startsWith('usr/')) return fail({ errMsg: `copyFile:fail permission denied, open ${destPath}` })
      if (filed.reduce((sum, path) => sum + bytesOf(path), bytesOf(srcPath)) > MOST_FILED) {
        return fail({ errMsg: 'copyFile:fail the maximum size of the file storage limit is exceeded' })
      }
      phone.sizes[destPath] = bytesOf(srcPath)
      if (srcPath in phone.pictures) phone.pictures[destPath] = phone.pictures[srcPath]
      return success((phone.files[destPath] = phone.files[srcPath]))
    },
    unlink: ({ filePath, success = () => {}, fail = () => {} }) => {
      if (!(filePath in phone.files)) return fail({ errMsg: 'unlink:fail no such file or directory' })
      if (!filePath.startsWith('usr/')) return fail({ errMsg: 'unlink:fail permission denied' })
      delete phone.files[filePath]
      return success()
    },
    getFileInfo: ({ filePath, digestAlgorithm, success, fail }) => {
      if (!['md5', 'sha1'].includes(digestAlgorithm)) return fail({ errMsg: 'getFileInfo:fail invalid digestAlgorithm' })
      if (!(filePath in phone.files)) return fail({ errMsg: 'getFileInfo:fail no such file' })
      return success({ size: phone.files[filePath].length, digest: `${digestAlgorithm} of ${phone.files[filePath]}` })
    },
  }
  const allow = (what) => {
    if (phone.refuses.includes(what)) throw Object.assign(new Error(), { errMsg: 'storage:fail' })
  }
  const route =
    (kind) =>
    async ({ url } = {}) => {
      phone.routes.push(url ? `${kind} ${url}` : kind)
    }
  return {
    env: { USER_DATA_PATH: 'usr' },
    getAppBaseInfo: () => ({ language: phone.language, theme: phone.theme }),
    getEnterOptionsSync: () => ({ scene: phone.scene }),
    getDeviceInfo: () => ({ platform: phone.platform }),
    getWindowInfo: () => ({ windowWidth: 390, windowHeight: 844 }),
    onThemeChange: (listener) => phone.themeListeners.push(listener),
    getStorageSync: (key) => {
      allow('read')
      return key in phone.storage ? frozen(structuredClone(phone.storage[key])) : ''
    },
    setStorageSync: (key, value) => {
      allow('write')
      const length = (each) => JSON.stringify(each).length
      const others = Object.keys(phone.storage).filter((other) => other !== key)
      refuse('setStorageSync', () => checkStored(JSON.stringify(value), others.reduce((sum, other) => sum + length(phone.storage[other]), 0)))
      phone.storage[key] = structuredClone(value)
    },
    removeStorageSync: (key) => {
      allow('remove')
      delete phone.storage[key]
    },
    getFileSystemManager: () => fileManager,
    chooseMedia: async (options) => {
      phone.chooseOptions = options
      if (phone.chosen instanceof Error) throw phone.chosen
      return { tempFiles: [phone.chosen].flat().map((tempFilePath) => ({ tempFilePath })) }
    },
    getImageInfo: async ({ src }) => ({ orientation: 'up', ...phone.pictures[src] }),
    createSelectorQuery: () => ({
      select: (selector) => {
        const id = selector.slice(1)
        const found = phone.ids.includes(id) ? { node: id === 'drawing' && phone.canvas, ...phone.photoArea } : null
        return { fields: () => ({ exec: (tell) => tell([found]) }) }
      },
    }),
    canvasToTempFilePath: async ({ canvas, quality, destWidth, destHeight }) => {
      const rows = canvas.getContext('2d').rows()
      phone.saves.push({ width: destWidth, height: destHeight, quality, rows })
      const tempFilePath = `tmp/small-${phone.saves.length}.jpg`
      phone.files[tempFilePath] = 'A'.repeat((phone.bytesAt(quality) * 4) / 3)
      phone.pictures[tempFilePath] = plain(destWidth, destHeight)
      return { tempFilePath }
    },
    onNetworkStatusChange: () => {},
    getNetworkType: async () => ({ networkType: phone.network }),
    request: (options) => {
      const request = { ...options, aborted: false, ended: false }
      request.answer = (statusCode, data, header = {}) => {
        request.ended = true
        options.success({ statusCode, data, header })
        return settle()
      }
      request.lose = (errMsg) => {
        request.ended = true
        options.fail({ errMsg })
        return settle()
      }
      if (phone.facts && new URL(options.url).pathname === '/api/breeds') {
        request.answer(200, { breeds: phone.facts })
        return { abort() {} }
      }
      try {
        checkRequests(phone.requests.filter(({ ended }) => !ended).length)
      } catch ({ message }) {
        options.fail({ errMsg: `request:fail ${message}` })
        return { abort() {} }
      }
      phone.requests.push(request)
      return {
        abort: () => {
          Object.assign(request, { aborted: true, ended: true })
          options.fail({ errMsg: 'request:fail abort' })
        },
      }
    },
    navigateTo: route('navigateTo'),
    redirectTo: route('redirectTo'),
    navigateBack: route('navigateBack'),
    switchTab: route('switchTab'),
    setTabBarItem: async ({ index, text }) => {
      phone.tabs[index] = text
    },
    setTabBarStyle: async (colours) => {
      phone.tabColours = colours
    },
    setNavigationBarTitle: ({ title }) => {
      phone.title = title
    },
    setNavigationBarColor: (colours) => {
      phone.bar = colours
    },
    showToast: async (options) => {
      phone.toast = options.title
    },
    openSetting: async () => {
      phone.settingsOpened = true
    },
    canIUse: (schema) => schema !== 'createInferenceSession' || phone.infers,
    downloadFile: (options) => download(phone, options),
    createInferenceSession: (options) => inferenceSession(phone, options),
    showModal: async (options) => {
      phone.modals.push(options)
      return { confirm: phone.answerModal }
    },
  }
}

/** As WeChat's documents have it: to a temporary file, and what an answer without status 200 brings is written as well. */
function download(phone, { url, header = {}, success, fail }) {
  if (Object.keys(header).some((name) => name.toLowerCase() === 'referer')) fail({ errMsg: 'downloadFile:fail forbidden header' })
  const task = { url, header, tell: () => {} }
  task.end = (contents, statusCode = 200) => {
    const tempFilePath = `tmp/download-${phone.downloads.length}`
    phone.files[tempFilePath] = contents
    success({ statusCode, tempFilePath })
    return settle()
  }
  task.lose = (errMsg) => {
    fail({ errMsg })
    return settle()
  }
  phone.downloads.push(task)
  return { onProgressUpdate: (tell) => (task.tell = tell), abort() {} }
}

/** It takes ONNX from the user's files or the app's own, runs once it is loaded and until it is destroyed. */
function inferenceSession(phone, { model }) {
  if (!phone.infers) throw new TypeError('wx.createInferenceSession is not a function')
  const session = { state: 'loading', onLoad: () => {}, onError: () => {} }
  phone.sessions.push(session)
  const isGood = model.endsWith('.onnx') && model in phone.files && phone.files[model] !== 'half'
  setTimeout(() => {
    session.state = isGood ? 'loaded' : 'failed'
    if (phone.isSilent) return
    if (isGood) session.onLoad()
    else session.onError({ errMsg: 'createInferenceSession:fail' })
  }, 0)
  return {
    onLoad: (tell) => (session.onLoad = tell),
    onError: (tell) => (session.onError = tell),
    destroy: () => (session.state = 'destroyed'),
    async run(tensors) {
      const [[name, { type, data, shape }]] = Object.entries(tensors)
      const count = shape.reduce((product, size) => product * size, 1)
      const isRight = name === 'image' && type === 'float32' && data instanceof ArrayBuffer && data.byteLength === 4 * count
      if (session.state !== 'loaded' || !isRight) throw new Error('run:fail')
      session.pixels = new Float32Array(data)
      if (phone.crashes) throw new Error('run:fail')
      return { output0: { type: 'float32', shape: [1, phone.scores.length], data: Float32Array.from(phone.scores).buffer } }
    },
  }
}
