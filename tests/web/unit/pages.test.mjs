import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { answerBody, GUESSES, Phone, settle, tap } from './phone.mjs'

let phone
beforeEach(() => {
  phone = new Phone()
  phone.facts = null
})

const OUTCOME = { state: 'breed', breeds: GUESSES, model: { name: 'inception_v3', version: 2 } }
const BREEDS = [
  breed('n01', 'golden retriever', '金毛寻回犬', { look_alikes: ['n02'] }),
  breed('n02', 'Labrador retriever', '拉布拉多寻回犬', { weight_kg: null, origin: null }),
]

function breed(id, name, chinese, changes) {
  return {
    id,
    name,
    name_zh: chinese,
    other_names: ['Goldie'],
    other_names_zh: ['金毛', '黄金猎犬'],
    wild: false,
    origin: { en: 'Scotland', zh: '苏格兰' },
    size: 'large',
    weight_kg: [25, 34],
    height_cm: [51, 61],
    life_span_years: [10, 12],
    temperament: { en: ['gentle'], zh: ['温和'] },
    coat: { en: 'Golden.', zh: '金色。' },
    care: { en: 'Brush.', zh: '梳毛。' },
    description: { en: 'A dog.', zh: '一种狗。' },
    look_alikes: [],
    ...changes,
  }
}

async function remember(id) {
  await phone.service('history').add(id, OUTCOME, 'tmp/dog.jpg')
}

// --- home

test('one tap takes a photo and opens its result', async () => {
  const page = phone.open('home')
  await page.onCamera()
  assert.deepEqual(phone.chooseOptions.sourceType, ['camera'])
  assert.match(phone.routes.at(-1), /^navigateTo \/pages\/result\/result\?id=/)
  await page.onAlbum()
  assert.deepEqual(phone.chooseOptions.sourceType, ['album'])
})

test('a key that came with the link is kept, and sent with every request', () => {
  phone.open('home', { key: 'dogsnap_Ab-1' })
  phone.open('settings')
  assert.equal(phone.requests.at(-1).header['X-Api-Key'], 'dogsnap_Ab-1')
  phone.open('home', { key: 'no key\n' })
  phone.open('home')
  assert.equal(phone.service('settings').get().key, 'dogsnap_Ab-1')
})

test('a key that the server does not know is left out, and goes where the server is open without', async () => {
  const { send } = phone.service('request')
  const ask = async (...statuses) => {
    const answer = send('/api/breeds', { timeoutMs: 1000 }).answer.then(({ error }) => error || 'answered', ({ kind }) => kind)
    for (const status of statuses) await phone.requests.at(-1).answer(status, {})
    return [await answer, phone.service('settings').get().key]
  }
  phone.service('settings').change({ key: 'removed' })
  assert.deepEqual(await ask(401, 401), ['locked', 'removed']) // a server with keys: the file may be away for a moment
  assert.deepEqual(await ask(401, 429), ['busy', 'removed'])
  assert.deepEqual(await ask(401, 200), ['answered', ''])
  assert.equal(phone.requests.at(-1).header?.['X-Api-Key'], undefined)
  assert.deepEqual(await ask(200), ['answered', ''])
})

test('a cancelled choice stays on the page', async () => {
  phone.chosen = Object.assign(new Error(), { errMsg: 'chooseMedia:fail cancel' })
  await phone.open('home').onCamera()
  assert.deepEqual(phone.routes, [])
})

const REFUSALS = [
  { errno: 112, errMsg: 'chooseMedia:fail api scope is not declared', zh: /登记/, en: /registered/ },
  { errno: 104, errMsg: 'chooseMedia:fail user disagreed', zh: /没有同意/, en: /not agreed/ },
  { errMsg: 'chooseMedia:fail camera auth deny', zh: /相机没有权限/, en: /isn't allowed to use the camera/ },
  { errMsg: 'chooseMedia:fail auth deny', zh: /相机和相册/, en: /camera or the album/ },
]
for (const { errno, errMsg, zh, en } of REFUSALS) {
  for (const [language, words] of [
    ['zh_CN', zh],
    ['en', en],
  ]) {
    test(`"${errMsg}" is told in words of its own (${language}), with what to do`, async (t) => {
      t.mock.method(console, 'warn', () => {})
      Object.assign(phone, { language, chosen: Object.assign(new Error(), { errno, errMsg }) })
      await phone.open('home').onAlbum()
      assert.match(phone.modals[0].content, words)
      const leadsOn = /auth deny/.test(errMsg)
      assert.equal(phone.modals[0].showCancel, leadsOn ? undefined : false)
      assert.equal(phone.settingsOpened, leadsOn)
      assert.deepEqual(phone.routes, [])
    })
  }
}

test('the sentences for refused photos differ', () => {
  for (const language of ['zh', 'en']) {
    for (const reasons of Object.values(phone.load(`i18n/${language}.js`).refused)) {
      assert.equal(new Set(Object.values(reasons)).size, Object.keys(reasons).length)
    }
  }
})

test('a camera that may not be used is told as such, whatever words the phone has for it', async (t) => {
  t.mock.method(console, 'warn', () => {})
  phone.chosen = Object.assign(new Error(), { errMsg: 'chooseMedia:fail system permission denied' })
  await phone.open('home').onCamera()
  assert.match(phone.modals[0].content, /相机没有权限/)
})

test('home and breed can be shared to Moments, the breed with its address', async () => {
  assert.equal(typeof phone.open('home').onShareTimeline().title, 'string')
  const page = phone.open('breed', { id: 'n01' })
  await settle()
  await phone.requests[0].answer(200, { breeds: BREEDS })
  assert.deepEqual(page.onShareTimeline(), { title: '认识一下金毛寻回犬', query: 'id=n01' })
})

test('opened from Moments as a single page, nothing leads on and no photo is asked for: a sentence says where to go', async () => {
  phone.scene = 1154
  const page = phone.open('breed', { id: 'n01' })
  page.onLookAlike(tap({ id: 'n02' }))
  assert.match(phone.toast, /前往小程序/)
  phone.toast = ''
  await phone.open('home').onCamera()
  assert.match(phone.toast, /前往小程序/)
  assert.deepEqual([phone.routes, phone.chooseOptions], [[], undefined])
})

test('a photo from a chat opens its result, once', () => {
  phone.load('app.js')
  phone.app.onShow({ scene: 1173, forwardMaterials: [{ type: 'image/jpeg', path: 'tmp/chat.jpg' }] })
  const page = phone.open('home')
  page.onShow()
  assert.equal(phone.routes.filter((route) => route.includes('/result/')).length, 1)
})

test('what a browser brings that is no photo is told in the language of the app', () => {
  phone.load('app.js')
  phone.app.onUnsupportedMaterial()
  assert.equal(phone.toast, '这个文件不是照片')
  phone.service('settings').change({ language: 'en' })
  phone.app.onUnsupportedMaterial()
  assert.equal(phone.toast, 'This file is not a photo')
})

test('the latest snaps are offered, and at most four, on tablets eight', async () => {
  for (const id of 'abcdefghi') await remember(id)
  const shown = () => phone.open('home').data.recent.map(({ id }) => id)
  assert.equal(shown().join(''), 'ihgf')
  phone.wx.getWindowInfo = () => ({ windowWidth: 820, windowHeight: 1180 })
  assert.equal(shown().join(''), 'ihgfedcb')
})

// --- breed

test('a breed shows its facts in the language of the app, and leaves out what is not known', async () => {
  const page = phone.open('breed', { id: 'n01' })
  await settle()
  await phone.requests[0].answer(200, { breeds: BREEDS })
  assert.equal(page.data.state, 'shown')
  assert.equal(phone.title, '金毛寻回犬')
  assert.deepEqual(
    page.data.breed.facts.map(({ value }) => value),
    ['苏格兰', '25–34 公斤', '51–61 厘米', '10–12 年'],
  )
  assert.deepEqual(page.data.breed.lookAlikes, [{ id: 'n02', looks: null, size: 'large', name: '拉布拉多寻回犬' }])
  const other = phone.open('breed', { id: 'n02' })
  await settle()
  assert.deepEqual(
    other.data.breed.facts.map(({ value }) => value),
    ['51–61 厘米', '10–12 年'],
  )
})

test('breeds are kept for reading without a connection', async () => {
  phone.open('breed', { id: 'n01' })
  await phone.requests[0].answer(200, { breeds: BREEDS })
  const offline = new Phone()
  Object.assign(offline, { facts: null, storage: phone.storage })
  const page = offline.open('breed', { id: 'n01' })
  await settle()
  await offline.requests[0].lose('request:fail ')
  assert.equal(page.data.state, 'shown')
})

test('without a connection and without kept breeds the page says so, and a retry helps', async () => {
  const page = phone.open('breed', { id: 'n01' })
  await phone.requests[0].lose('request:fail ')
  assert.equal(page.data.state, 'failed')
  page.onRetry()
  await phone.requests[1].answer(200, { breeds: BREEDS })
  assert.equal(page.data.state, 'shown')
})

test('a breed nobody knows is told as unknown', async () => {
  const page = phone.open('breed', { id: 'n99' })
  await phone.requests[0].answer(200, { breeds: BREEDS })
  assert.equal(page.data.state, 'unknown')
})

test('a look-alike opens as a page of its own until ten pages are open, then instead of this one', async () => {
  const page = phone.open('breed', { id: 'n01' })
  page.onLookAlike(tap({ id: 'n02' }))
  assert.equal(phone.routes.at(-1), 'navigateTo /pages/breed/breed?id=n02')
  page.onLookAlike(tap({ id: 'n02' })) // the second of a double tap
  await settle()
  assert.equal(phone.routes.length, 1)
  phone.pages = Array(10).fill(page)
  page.onLookAlike(tap({ id: 'n02' }))
  assert.equal(phone.routes.at(-1), 'redirectTo /pages/breed/breed?id=n02')
})

// --- history

test('history holds a hundred: the oldest goes, and its photo with it', async () => {
  for (let number = 0; number < 101; number++) await remember(`snap${number}`)
  const ids = phone
    .service('history')
    .list()
    .map(({ id }) => id)
  assert.equal(ids.length, 100)
  assert.deepEqual([ids[0], ids.at(-1)], ['snap100', 'snap1'])
  assert.equal('usr/snap0.jpg' in phone.files, false)
  assert.equal('usr/snap1.jpg' in phone.files, true)
})

test('history is shown by day, newest first', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: new Date(2025, 4, 3, 12) })
  await remember('old')
  t.mock.timers.setTime(new Date(2025, 4, 9, 23, 50).getTime())
  await remember('yesterday')
  t.mock.timers.setTime(new Date(2025, 4, 10, 0, 10).getTime())
  await remember('today')
  const { days } = phone.open('history').data
  assert.deepEqual(
    days.map(({ day, items }) => [day, ...items.map(({ id }) => id)]),
    [
      ['今天', 'today'],
      ['昨天', 'yesterday'],
      ['2025年5月3日', 'old'],
    ],
  )
})

test('a day that a clock put back interrupted is shown once', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: new Date(2025, 4, 10, 9) })
  await remember('morning')
  t.mock.timers.setTime(new Date(2025, 4, 3, 12).getTime())
  await remember('wrong')
  t.mock.timers.setTime(new Date(2025, 4, 10, 12).getTime())
  await remember('noon')
  const { days } = phone.open('history').data
  assert.deepEqual(
    days.map(({ items }) => items.map(({ id }) => id)),
    [['noon', 'morning'], ['wrong']],
  )
})

test('deleting one asks first, and removes its photo', async () => {
  await remember('a')
  await remember('b')
  const page = phone.open('history')
  phone.answerModal = false
  await page.onRemove(tap({ id: 'a' }))
  assert.equal(page.data.count, 2)
  phone.answerModal = true
  await page.onRemove(tap({ id: 'a' }))
  assert.equal(page.data.count, 1)
  assert.deepEqual(
    Object.keys(phone.files).filter((file) => file.startsWith('usr/')),
    ['usr/b.jpg'],
  )
})

test('deleting all leaves nothing behind', async () => {
  await remember('a')
  await remember('b')
  const page = phone.open('history')
  await page.onClear()
  assert.match(phone.modals[0].title, /2/)
  assert.equal(page.data.count, 0)
  assert.deepEqual(
    Object.keys(phone.files).filter((file) => file.startsWith('usr/')),
    [],
  )
})

test('the history and the first page say of each photo what was seen in it', async () => {
  for (const state of ['breed', 'unsure', 'no_dog'])
    await phone.service('history').add(state, { ...OUTCOME, state }, 'tmp/dog.jpg')
  assert.deepEqual(
    phone.open('history').data.days[0].items.map(({ name, percent, removeLabel }) => [name, percent, removeLabel]),
    [
      ['没看到狗', '', '删除这条：没看到狗'],
      ['不太确定：金毛寻回犬？', '93%', '删除这条：不太确定：金毛寻回犬？'],
      ['金毛寻回犬', '93%', '删除这条：金毛寻回犬'],
    ],
  )
  assert.deepEqual(
    phone.open('home').data.recent.map(({ name }) => name),
    ['没看到狗', '金毛寻回犬？', '金毛寻回犬'],
  )
})

test('what the user said stands above what the app said only where that is another', async () => {
  for (const { id, name, name_zh } of GUESSES.slice(0, 2)) {
    await remember(id)
    phone.service('history').change(id, { said: { verdict: '', breed: id, name, name_zh } })
  }
  const [{ items }] = phone.open('history').data.days
  const [other, same] = items
  const [{ name_zh: right }, { name_zh: wrong }] = GUESSES
  assert.deepEqual([same.name, same.detail], [`你说：${right}`, ''])
  assert.deepEqual([other.name, other.detail], [`你说：${wrong}`, right])
})

// --- settings

const MODELS = [
  {
    name: 'inception_v3',
    versions: [
      { version: 1, state: 'AVAILABLE' },
      { version: 2, state: 'AVAILABLE' },
      { version: 3, state: 'LOADING' },
    ],
    labels: { stable: 2 },
    default_version: 2,
  },
]

async function settingsPage() {
  const page = phone.open('settings')
  await phone.requests[0].answer(200, { models: MODELS })
  return page
}

test('language and theme take effect at once, and stay', async () => {
  const page = await settingsPage()
  page.onOption(tap({ name: 'language', value: 'en' }))
  page.onOption(tap({ name: 'theme', value: 'dark' }))
  assert.equal(phone.title, 'Settings')
  assert.equal(page.data.theme, 'dark')
  assert.equal(phone.bar.frontColor, '#ffffff')
  assert.deepEqual(
    page.data.groups[0].options.map(({ chosen }) => chosen),
    [false, false, false, true],
  )
  assert.deepEqual(phone.service('settings').get(), { language: 'en', theme: 'dark', model: null, offline: false, key: '' })
})

test('the model list comes from the server: its default, labels, and the versions that are loaded', async () => {
  const page = await settingsPage()
  assert.deepEqual(
    page.data.modelOptions.map(({ value }) => value),
    [
      null,
      { model: 'inception_v3', label: 'stable' },
      { model: 'inception_v3', version: 1 },
      { model: 'inception_v3', version: 2 },
    ],
  )
  assert.equal(page.data.modelOptions[0].chosen, true)
  page.onModel(tap({ value: { model: 'inception_v3', version: 1 } }))
  assert.deepEqual(
    page.data.modelOptions.map(({ chosen }) => chosen),
    [false, false, true, false],
  )
})

test('models, versions and labels that name no breeds are not offered; those of which the server does not know are', async () => {
  const page = phone.open('settings')
  const versions = [0, 120, null].map((classes, index) => ({ version: index + 1, state: 'AVAILABLE', classes }))
  const mixed = { name: 'mixed', versions, labels: { old: 1, stable: 2 }, default_version: 3 }
  const painter = { name: 'apple2orange', versions: versions.slice(0, 1), labels: {}, default_version: 1 }
  await phone.requests[0].answer(200, { models: [mixed, painter] })
  assert.deepEqual(
    page.data.modelOptions.map(({ value }) => value),
    [null, { model: 'mixed', label: 'stable' }, { model: 'mixed', version: 2 }, { model: 'mixed', version: 3 }],
  )
})

test('a pinned version the server has lost stays in the list, told as not available', async () => {
  phone.service('settings').change({ model: { model: 'inception_v3', version: 7 } })
  const last = (await settingsPage()).data.modelOptions.at(-1)
  assert.equal(last.chosen, true)
  assert.match(last.label, /第 7 版（现在不可用）/)
})

test('without a connection the settings work but for the model list, which can be asked for again', async () => {
  const page = phone.open('settings')
  await phone.requests[0].lose('request:fail ')
  assert.equal(page.data.modelState, 'failed')
  assert.equal(page.data.groups.length, 2)
  page.loadModels()
  await phone.requests[1].answer(200, { models: MODELS })
  assert.equal(page.data.modelState, 'shown')
})

// --- appearance

test('every page follows the phone into the dark, unless a theme was chosen', async () => {
  phone.load('app.js')
  phone.app.onLaunch()
  const pages = [phone.open('home'), phone.open('history')]
  phone.theme = 'dark'
  phone.themeListeners.forEach((listener) => listener({ theme: 'dark' }))
  assert.deepEqual(
    pages.map(({ data }) => data.theme),
    ['dark', 'dark'],
  )
  phone.service('settings').change({ theme: 'light' })
  pages.forEach((page) => page.onShow())
  assert.deepEqual(
    pages.map(({ data }) => data.theme),
    ['light', 'light'],
  )
})

test('a phone in a language the app does not speak gets English', () => {
  phone.language = 'fr'
  assert.equal(phone.open('home').data.text.title, 'dogsnap')
})

test('the breeds are fetched while a photo is sent, so that they can be read offline later', async () => {
  phone.snap()
  await settle()
  assert.deepEqual(phone.requests.map(({ url }) => new URL(url).pathname).sort(), ['/api/breeds', '/api/classify'])
})

// --- taps of two fingers

test('what opens a page opens it once, also where a second finger taps before the page is there', async () => {
  await remember('a')
  for (const [name, act] of [['home', 'onRecent'], ['history', 'onOpen']]) {
    phone.routes.length = 0
    const page = phone.open(name)
    page[act](tap({ id: 'a' }))
    await settle()
    phone.pages.push({}) // the page that was opened
    page[act](tap({ id: 'a' }))
    await settle()
    assert.equal(phone.routes.length, 1, name)
  }
})

// --- answers without fields

const UNREADABLE_BREEDS = { 'that is none': 'x', 'with nothing': [null], 'without ids': [{ name: 'beagle' }], 'without names': [{ id: 'n01', name_zh: '比格犬' }] }
for (const [what, breeds] of Object.entries(UNREADABLE_BREEDS)) {
  test(`a list of breeds ${what} cannot be read, is not kept, and a retry shows the next one`, async () => {
    const page = phone.open('breeds')
    await phone.requests.find(({ url }) => url.endsWith('/api/breeds')).answer(200, { breeds })
    assert.equal(page.data.state, 'failed')
    assert.equal('breeds' in phone.storage, false)
    page.onShow()
    await settle()
    await phone.requests.filter(({ url }) => url.endsWith('/api/breeds')).at(-1).answer(200, { breeds: [{ id: 'n01', name: 'beagle' }] })
    assert.equal(page.data.groups.flatMap(({ breeds }) => breeds).length, 1)
  })
}

const UNREADABLE_MODELS = { 'that is none': 'x', 'with nothing': [null], 'without versions': [{ name: 'm' }], 'with a version that is none': [{ name: 'm', versions: [null] }] }
for (const [what, models] of Object.entries(UNREADABLE_MODELS)) {
  test(`a list of models ${what} leaves the other settings as they are`, async () => {
    const page = phone.open('settings')
    await phone.requests.find(({ url }) => url.endsWith('/api/models')).answer(200, { models })
    assert.deepEqual([page.data.modelState, page.data.groups.length], ['failed', 2])
    page.onOption(tap({ name: 'theme', value: 'dark' }))
    assert.equal(page.data.theme, 'dark')
  })
}

test('a model without labels can be chosen', async () => {
  phone.storage.settings = { model: { model: 'm', label: 'stable' } }
  const page = phone.open('settings')
  await phone.requests.find(({ url }) => url.endsWith('/api/models')).answer(200, { models: [{ name: 'm', versions: [{ version: 1, state: 'AVAILABLE' }] }] })
  assert.deepEqual(page.data.modelOptions.map(({ chosen }) => chosen), [false, false, true])
})
