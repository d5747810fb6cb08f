/**
 * Starts a compiled mini program in this window: makes wx, the engine and the router, and lets them know each other.
 * app.js, which build.mjs writes, calls miniProgram.run(version), and pages.js, which comes later, miniProgram.add(version).
 */
import * as glassEasel from 'glass-easel'
import { createEngine } from './engine.js'
import { acceptPhotos } from './incoming.js'
import { followVisibility } from './lifecycle.js'
import { Router } from './router.js'
import { offerShare } from './share.js'
import { findWebcams } from './webcam.js'
import { createWx } from './wx/index.js'

/** After so long a part that could not be had is asked for again. */
const RETRY_MS = 2000

function run(version) {
  const program = { ...miniProgram.program, scripts: miniProgram.scripts }
  let app = {}
  let router
  const report = (error) => console.error(error)
  glassEasel.addGlobalErrorListener(report)

  const wx = createWx(() => router)
  const engine = createEngine(program, {
    wx,
    App: (definition) => {
      app = definition
    },
    getApp: () => app,
    getCurrentPages: () => router.pages(),
  })
  router = new Router({ engine, mount: document.getElementById('app'), app: program.app, units: program.units, report })

  miniProgram.add = (other) => (other === version ? engine.add(miniProgram.rest) : loadAnew(version))
  engine.runApp()
  app.onLaunch?.({ path: program.app.pages[0], query: {} })
  app.onShow?.({ path: program.app.pages[0], query: {} })
  router.start()
  const isWhole = () => Object.keys(program.units).every(engine.isThere)
  loadRest(document.currentScript.src.replace('app.js', 'pages.js'), isWhole)
  followVisibility({ app: () => app, router })
  acceptPhotos({ app: () => app, router, materials: program.app.supportedMaterials ?? [] })
  offerShare({ router, wx })
  findWebcams()
  keepForOffline()
  nameInstalled()
}

/** What the first page does not need. A script that loads and makes nothing whole is another page, as of a login. */
function loadRest(src, isWhole) {
  const onerror = () => setTimeout(loadRest, RETRY_MS, src, isWhole)
  const onload = () => isWhole() || onerror()
  document.head.append(Object.assign(document.createElement('script'), { src, onload, onerror }))
}

/** The server got another release between the two scripts. Once for each version: one that gives old and new in turn may do so for long. */
function loadAnew(version) {
  try {
    if (sessionStorage.loadedAnew === version) return
    sessionStorage.loadedAnew = version
    location.reload()
  } catch {} // where nothing may be kept it would have no end
}

/** The installed app is called by its name in the language of the phone. */
function nameInstalled() {
  const { language } = navigator
  if (!language.startsWith('zh')) return
  const name = /Hant|TW|HK|MO/i.test(language) ? 'zh-Hant' : 'zh'
  document.querySelector('link[rel=manifest]').href = `manifest-${name}.webmanifest`
}

/** Only over https and on this machine: elsewhere a browser has no service workers. */
function keepForOffline() {
  addEventListener('load', () => navigator.serviceWorker?.register('sw.js').catch(() => {}))
}

globalThis.miniProgram = { run }
