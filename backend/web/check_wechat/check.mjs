/**
 * Compiles the mini program with WeChat's own compiler (miniprogram-ci), offline: node check.mjs [FOLDER].
 * Fails on whatever WeChat DevTools would refuse: a missing page or component, bad JavaScript, bad WXSS, too large a
 * package; and on compiled scripts that an old engine cannot parse. It uploads nothing and needs no WeChat account. (It asks WeChat for a list of file kinds, and goes on without
 * an answer.)
 */
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import fs from 'node:fs'
import { unparsable } from '../check/old_engines.mjs'

const SOURCE = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../miniprogram')

/** WeChat's limit for one package is 2 MB; ours is lower. */
const MOST_BYTES = 500_000

async function main(source = SOURCE) {
  const files = await compile(path.resolve(source))
  const bytes = Object.values(files).reduce((sum, content) => sum + Buffer.byteLength(content), 0)
  console.log(`WeChat's compiler accepts the mini program: ${Object.keys(files).length} files, ${bytes} bytes.`)
  const problems = Object.entries(files).flatMap(([file, content]) => (file.endsWith('.js') ? unparsable(file, String(content)) : []))
  if (problems.length) throw new Error(`Engines of 2017 cannot parse what is compiled:\n${problems.join('\n')}`)
  if (bytes > MOST_BYTES) throw new Error(`The package has ${bytes} bytes; at most ${MOST_BYTES}.`)
}

/** @returns {Promise<Record<string, string | Buffer>>}  compiled files by path */
async function compile(projectPath) {
  const ci = workInTemporaryFolder(() => createRequire(import.meta.url)('miniprogram-ci'))
  const project = new ci.Project({
    projectPath,
    appid: 'touristappid',
    type: 'miniProgram',
    privateKey: 'none: nothing is uploaded',
    attr: async () => ci.DefaultProjectAttr, // else it asks WeChat's servers about the app's limits
  })
  return ci.getCompiledResult({ project, desc: '', setting: { useProjectConfig: true } })
}

/** The compiler leaves caches and logs in the home folder and in the current one; here both are thrown away. */
function workInTemporaryFolder(load) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'dogsnap-wechat-'))
  process.env.HOME = home
  process.chdir(home)
  process.on('exit', () => fs.rmSync(home, { recursive: true, force: true }))
  return load()
}

main(...process.argv.slice(2)).then(
  () => process.exit(0),
  (error) => {
    console.error(error.message ?? error)
    process.exit(1)
  },
)
