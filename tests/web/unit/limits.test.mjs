import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkModal, checkRequests, checkStored, checkToast, widthOf } from '../../../backend/web/runtime/wx/limits.js'
import { LEVELS, answerBody, Phone, program, settle, tap } from './phone.mjs'
import { rulesOf } from './strict.mjs'

const TEXTS = ['en', 'zh'].map((language) => new Phone().load(`i18n/${language}.js`))

test('what the documents of WeChat forbid is refused, and no less', () => {
  checkModal({ confirmText: '删除照片', cancelText: 'Back' })
  assert.throws(() => checkModal({ confirmText: 'Delete' }), { errno: 1001, message: /confirmText length should not larger than 4/ })
  assert.throws(() => checkModal({ cancelText: 'Cancel' }), /cancelText/)
  checkToast({ title: '三十个字'.repeat(7) })
  assert.throws(() => checkToast({ title: 'The picture could not be saved; please check the album permission' }), /wide/)
  checkStored('x'.repeat(1024 * 1024), 0)
  assert.throws(() => checkStored('x'.repeat(1024 * 1024 + 1), 0), /entry size limit/)
  assert.throws(() => checkStored('x', 10 * 1024 * 1024), /storage max size/)
  checkRequests(9)
  assert.throws(() => checkRequests(10), /max task count/)
})

/** Of each function what WeChat refuses, beside the limits above. */
const FORBIDDEN = {
  navigateTo: [{}, { url: 'pages/breed/breed' }, { url: '/pages/none/none' }, { url: '/pages/home/home' }],
  redirectTo: [{ url: '/pages/history/history' }],
  switchTab: [{ url: '/pages/result/result' }, { url: '/pages/home/home?id=1' }],
  setNavigationBarTitle: [{}, { title: null }],
  setNavigationBarColor: [{ frontColor: 'black', backgroundColor: '#ffffff' }, { frontColor: '#000000', backgroundColor: 'white' }],
  setTabBarItem: [{ index: 4, text: 'x' }, { index: 0 }],
  setTabBarStyle: [{ borderStyle: '#000000' }, { borderStyle: 'black', color: 'red' }],
  showToast: [{}, { title: 'x', icon: 'warning' }, { title: 'x', duration: 0.5 }],
  showModal: [{}, { title: 1 }, { title: 'x', confirmColor: 'red' }],
  chooseMedia: [{ count: 0 }, { count: 21 }, { mediaType: ['photo'] }, { sourceType: [] }, { sizeType: ['small'] }],
  getImageInfo: [{ src: 'tmp/none.jpg' }],
  saveImageToPhotosAlbum: [{ filePath: 'https://host/a.jpg' }],
  canvasToTempFilePath: [{}, { canvas: { width: 1, height: 0 } }, { canvas: { width: 9, height: 9 }, destWidth: 5000, destHeight: 9 }],
  request: [{ url: '/api' }, { url: 'https://host', method: 'get' }, { url: 'https://host', header: { a: 1 } }, { url: 'https://host', data: 1 }],
}

test('what the documents forbid of a parameter is refused, and so is an eleventh page', () => {
  const phone = new Phone()
  const home = phone.open('home')
  const rules = rulesOf(program, phone)
  assert.deepEqual(Object.keys(FORBIDDEN), Object.keys(rules))
  for (const [name, all] of Object.entries(FORBIDDEN)) {
    for (const options of all) assert.throws(() => rules[name](options), { errno: 1001 }, `${name} ${JSON.stringify(options)}`)
  }
  phone.pages = Array(9).fill(home)
  rules.navigateTo({ url: '/pages/breed/breed?id=1' })
  phone.pages = Array(10).fill(home)
  assert.throws(() => rules.navigateTo({ url: '/pages/breed/breed?id=1' }), /limit exceed/)
  phone.pages = [phone.open('result', { id: '' })]
  assert.throws(() => rules.setTabBarItem({ index: 0, text: 'x' }), /not TabBar page/)
})

test('what cannot be set on a page, or kept among 200 MB of files, is refused', () => {
  const phone = new Phone()
  const page = phone.open('home')
  for (const changes of [{ a: undefined }, { a: { b: () => {} } }, { a: 'x'.repeat(1024 * 1024) }]) assert.throws(() => page.setData(changes))
  const said = []
  const copy = (srcPath, destPath) =>
    phone.wx.getFileSystemManager().copyFile({ srcPath, destPath, success: () => said.push('kept'), fail: ({ errMsg }) => said.push(errMsg) })
  phone.sizes['tmp/dog.jpg'] = 100 * 1024 * 1024
  for (const path of ['usr/a', 'usr/b', 'usr/b', 'usr/c', 'tmp/a']) copy('tmp/dog.jpg', path)
  assert.deepEqual(said.slice(0, 3), ['kept', 'kept', 'kept'])
  assert.match(said[3], /maximum size/)
  assert.match(said[4], /permission denied/)
})

test('every word on a button of a dialog has at most four characters, and every toast fits into two lines, in each language', () => {
  for (const { common, pages, refused, notPhoto, onePhoto, singlePage } of TEXTS) {
    for (const word of [common.ok, common.no, common.open, pages.history.confirm]) assert.ok(Array.from(word).length <= 4, word)
    const toasts = [common.notSent, common.notAsked, pages.result.saved, refused.save.failed, pages.result.notTurned, pages.frame.failed, notPhoto, onePhoto, singlePage]
    for (const toast of toasts) assert.ok(widthOf(toast) <= 30, toast)
  }
})

test('what an engine of 2020 does not know is not in the style sheets', () => {
  const unknown = /(^|[^-\w])(aspect-ratio|inset|place-items|accent-color)\s*:|:(has|is|where)\(|@(layer|container)|\b\d+(dvh|svh|lvh|cqw)\b|color-mix\(|:focus-visible/
  for (const [file, text] of program.files) {
    if (file.endsWith('.js')) assert.doesNotMatch(text, /aspect-ratio\s*:/, file) // in the style of an element
    if (file.endsWith('.wxss') || file.endsWith('.wxml')) assert.doesNotMatch(text.replace(/\/\*[\s\S]*?\*\//g, ''), unknown, file)
  }
  assert.match('.a { aspect-ratio: 1 }', unknown)
  assert.match('.a:has(.b) { }', unknown)
})

// --- dialogs

for (const language of ['zh_CN', 'zh_TW', 'en']) {
  test(`a photo and all of them are deleted where the phone speaks ${language}`, async () => {
    const phone = new Phone()
    phone.language = language
    for (const id of ['a', 'b']) await phone.service('history').add(id, null, 'tmp/dog.jpg')
    const page = phone.open('history')
    await page.onRemove(tap({ id: 'a' }))
    assert.deepEqual(phone.service('history').list().map(({ id }) => id), ['b'])
    phone.service('dialogs')
    await new Promise((done) => setTimeout(done, 5))
    await page.onClear()
    assert.deepEqual(phone.service('history').list(), [])
  })
}

test('where the phone refuses the words of a dialog it asks in its own, and where it opens none that is told', async (t) => {
  t.mock.method(console, 'warn', () => {})
  const phone = new Phone()
  await phone.service('history').add('a', null, 'tmp/dog.jpg')
  const page = phone.open('history')
  phone.wx.showModal = async (options) => {
    phone.modals.push(options)
    if (options.confirmText) throw { errMsg: 'showModal:fail' }
    return { confirm: false }
  }
  await page.onClear()
  assert.deepEqual([phone.modals.length, phone.toast], [2, undefined])
  phone.wx.showModal = async () => Promise.reject({ errMsg: 'showModal:fail' })
  await page.onClear()
  assert.match(phone.toast, /没能弹出/)
  assert.equal(phone.service('history').list().length, 1)
})

test('where no dialog opens at all its title is said', async (t) => {
  t.mock.method(console, 'warn', () => {})
  const phone = new Phone()
  phone.wx.showModal = async () => Promise.reject({ errMsg: 'showModal:fail' })
  phone.chosen = Object.assign(new Error(), { errno: 112, errMsg: 'chooseMedia:fail api scope is not declared' })
  await phone.open('home').onAlbum()
  assert.equal(phone.toast, '不能使用相机或相册')
})

test('a dialog that never answers does not keep a later one from being asked, and two taps open one', async (t) => {
  const phone = new Phone()
  let opened = 0
  phone.wx.showModal = () => (opened++, new Promise(() => {}))
  await phone.service('history').add('a', null, 'tmp/dog.jpg')
  const page = phone.open('history')
  t.mock.timers.enable({ apis: ['Date'], now: 1e12 })
  page.onClear()
  page.onClear()
  assert.equal(opened, 1)
  t.mock.timers.setTime(1e12 + 2000)
  page.onClear()
  assert.equal(opened, 2)
})

test('a sentence stays for as long as it takes to read it, and a long one until it was read', async () => {
  const phone = new Phone()
  let shown
  phone.wx.showToast = async (options) => (shown = options)
  const { say } = phone.service('dialogs')
  await say('Link copied')
  await say('The picture could not be saved.')
  assert.ok(shown.duration > 3000, String(shown.duration))
  await say('图片没能保存。')
  assert.ok(shown.duration > 2000, String(shown.duration))
  await say('x'.repeat(61))
  assert.deepEqual([phone.modals[0].content.length, phone.modals[0].showCancel], [61, false])
})

// --- a picture that is not saved

const NOT_SAVED = [
  { errMsg: 'saveImageToPhotosAlbum:fail cancel', told: null },
  { errMsg: 'saveImageToPhotosAlbum:fail auth deny', told: /设置/, opens: true },
  { errMsg: 'saveImageToPhotosAlbum:fail:auth denied', told: /设置/, opens: true },
  { errMsg: 'saveImageToPhotosAlbum:fail system permission denied', told: /系统设置/, opens: true },
  { errno: 104, errMsg: 'saveImageToPhotosAlbum:fail privacy permission is not authorized', told: /等十秒/ },
  { errno: 103, errMsg: 'saveImageToPhotosAlbum:fail privacy permission is not authorized in gap', told: /等十秒/ },
  { errno: 112, errMsg: 'saveImageToPhotosAlbum:fail api scope is not declared in the privacy agreement', told: /登记/ },
  { errMsg: 'saveImageToPhotosAlbum:fail file not exist', toast: /没能保存/ },
]
for (const { errno, errMsg, told, opens = false, toast } of NOT_SAVED) {
  test(`"${errMsg}" is told as what it is, and leads on`, async () => {
    const phone = new Phone()
    const page = phone.snap()
    await settle()
    await phone.requests[0].answer(200, answerBody(LEVELS.breed))
    phone.wx.saveImageToPhotosAlbum = async () => Promise.reject({ errno, errMsg })
    page.drawCard = async () => 'tmp/card.jpg'
    await page.onSave()
    await settle()
    if (told) assert.match(phone.modals[0].content, told)
    else assert.deepEqual(phone.modals, [])
    if (toast) assert.match(phone.toast, toast)
    assert.equal(phone.settingsOpened, opens)
  })
}
