import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLoader, join } from '../../../backend/web/runtime/modules.js'
import { parseUrl } from '../../../backend/web/runtime/router.js'
import { api } from '../../../backend/web/runtime/wx/api.js'
import { createWx } from '../../../backend/web/runtime/wx/index.js'
import { program } from './phone.mjs'

const nextTurn = () =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

test('without callbacks an asynchronous function gives a promise, with errMsg as in WeChat', async () => {
  const double = api('double', ({ n }) => ({ n: 2 * n }))
  assert.deepEqual(await double({ n: 2 }), { n: 4, errMsg: 'double:ok' })
})

test('a failing one rejects with its name and reason in errMsg', async () => {
  const broken = api('broken', () => {
    throw new Error('cancel')
  })
  await assert.rejects(broken(), { errMsg: 'broken:fail cancel' })
})

test('with callbacks they are called, and there is no promise', async () => {
  const calls = []
  const listen = {
    success: (result) => calls.push(['success', result.errMsg]),
    fail: (error) => calls.push(['fail', error.errMsg]),
    complete: () => calls.push(['complete']),
  }
  assert.equal(api('fine', () => ({}))(listen), undefined)
  await nextTurn()
  api('broken', () => {
    throw new Error('why')
  })(listen)
  await nextTurn()
  assert.deepEqual(calls, [['success', 'fine:ok'], ['complete'], ['fail', 'broken:fail why'], ['complete']])
})

test('a wx function that does not exist here fails with its name, and canIUse says so', () => {
  const wx = createWx(() => {})
  assert.throws(() => wx.makePhoneCall(), /wx\.makePhoneCall does not exist/)
  assert.equal(wx.canIUse('makePhoneCall'), false)
  assert.equal(wx.canIUse('chooseMedia.object.count'), true)
})

test('a canvas asked for in another size than its own says that it cannot', async () => {
  const wx = createWx(() => {})
  await assert.rejects(wx.canvasToTempFilePath({ canvas: { width: 10, height: 8 }, destWidth: 30 }), {
    errMsg: 'canvasToTempFilePath:fail a canvas of 10 x 8 is only saved in that size here, not 30 x 8',
  })
})

test('every wx function that the app uses exists', () => {
  const wx = createWx(() => {})
  const used = new Set()
  for (const [file, text] of program.files) {
    if (file.endsWith('.js') && !file.endsWith('inference.js')) for (const [, name] of text.matchAll(/\bwx\.(\w+)/g)) used.add(name)
  }
  assert.ok(used.size > 15)
  used.delete('openSetting') // of WeChat alone, and asked for only there
  for (const name of used) assert.ok(wx.canIUse(name), `wx.${name}`)
})

test('a file is run once, also when two require each other', () => {
  const runs = []
  const load = createLoader(
    {
      'a.js': (require, module, exports) => {
        runs.push('a')
        exports.name = 'a'
        exports.b = require('./lib/b')
      },
      'lib/b.js': (require, module) => {
        runs.push('b')
        module.exports = { aName: require('../a.js').name }
      },
    },
    () => [],
  )
  assert.equal(load('a.js').b.aName, 'a')
  load('a.js')
  assert.deepEqual(runs, ['a', 'b'])
})

test('a required file that is not there is named, with who asked', () => {
  const load = createLoader({ 'pages/a.js': (require) => require('./gone') }, () => [])
  assert.throws(() => load('pages/a.js'), /gone.*pages\/a\.js/)
})

test('paths and page addresses are taken apart', () => {
  assert.equal(join('pages/home', '../../services/x'), 'services/x')
  assert.deepEqual(parseUrl('/pages/breed/breed?id=n02&x=%E7%8B%97'), {
    path: 'pages/breed/breed',
    query: { id: 'n02', x: '狗' },
  })
})
