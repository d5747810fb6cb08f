/** The path of a photo in CONTRIBUTING.md, on the phone; tests/docs/test_docs.py looks at the part on the server. */
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'
import { answerBody, Phone, settle } from './phone.mjs'

const CONTRIBUTING = fs.readFileSync(new URL('../../../CONTRIBUTING.md', import.meta.url), 'utf8')
const STEPS = [...CONTRIBUTING.matchAll(/^\| [\w, ]+ \| `miniprogram\/([^`]+)` `(\w+)` \|/gm)].map(([, file, name]) => `${file} ${name}`)

/** Notes each call of a function of `target`, whoever makes it. */
function watch(target, file, calls) {
  for (const [name, value] of Object.entries(target))
    if (typeof value === 'function')
      target[name] = function (...args) {
        const step = `${file} ${name}`
        if (STEPS.includes(step)) calls.push(step)
        return value.apply(this, args)
      }
}

test('a photo passes the functions of the table in their order', async () => {
  assert.ok(STEPS.length >= 4)
  const phone = new Phone()
  const calls = []
  for (const file of new Set(STEPS.map((step) => step.split(' ')[0])))
    watch(file.startsWith('pages/') ? phone.pageDefinition(file.split('/')[1]) : phone.load(file), file, calls)

  const home = phone.open('home')
  await home.onCamera()
  const [, query] = phone.routes.at(-1).split('?')
  phone.open('result', Object.fromEntries(new URLSearchParams(query)))
  await settle()
  await phone.requests.at(-1).answer(200, answerBody())
  assert.deepEqual(calls, STEPS)
})
