/**
 * WeChat's component engine (glass-easel), loaded with the built-in components and the mini program's own.
 * It makes pages; routes, frames and wx.* are others' work.
 */
import { MiniProgramEnv } from 'glass-easel-miniprogram-adapter'
import { attributeObservers, commonProperties, listenToKeyboard, makeReachable } from './accessibility.js'
import { createBackend } from './backend.js'
import { BUILTINS } from './builtins/index.js'
import { createLoader } from './modules.js'
import { dropLateClicks, dropSecondTaps, listenToFirstFinger, listenToMouse } from './touches.js'

/**
 * @param {any} program  what build.mjs wrote: app, units, scopes, templates, scripts
 * @param {any} globals  wx, App, getApp and getCurrentPages, as the mini program sees them
 * @returns {{createPage: (path: string) => any, isThere: (path: string) => boolean, whole: Promise<void>, runApp: () => void,
 *   add: (scripts: any) => void}}  whole: once the scripts that came later were added, and every page is there
 */
export function createEngine(program, { wx, App, getApp, getCurrentPages }) {
  const env = new MiniProgramEnv()
  const space = env.createCodeSpace('', true)
  registerBuiltins(env, space, program.templates)
  registerUnits(space, program)

  let constructors = {}
  const load = createLoader(program.scripts, () => [
    wx,
    App,
    constructors.Page,
    constructors.Component,
    constructors.Behavior,
    getApp,
    getCurrentPages,
  ])
  const define = (unit) =>
    space.componentEnv(unit, (env) => {
      constructors = env
      load(unit + '.js')
    })
  const defineAll = (scripts) => componentsFirst(program.units).filter((unit) => unit + '.js' in scripts).forEach(define)
  let complete
  const whole = new Promise((resolve) => {
    complete = resolve
  })

  const backend = env.associateBackend(createBackend(Object.keys(BUILTINS)))
  // The engine wants a style sheet for each; app.css holds the rules of them all.
  for (const unit of ['app', ...Object.keys(program.units)]) backend.registerStyleSheetContent(unit, '')
  listenToKeyboard()
  listenToMouse()
  listenToFirstFinger()
  dropLateClicks()
  dropSecondTaps()
  return {
    runApp() {
      load('app.js')
      defineAll(program.scripts)
    },
    add(scripts) {
      Object.assign(program.scripts, scripts)
      defineAll(scripts)
      complete()
    },
    whole,
    isThere: (path) => path + '.js' in program.scripts,
    createPage: (path) => backend.createRoot('wx-page', space, path),
  }
}

function registerBuiltins(env, space, templates) {
  const base = env.getGlobalCodeSpace().getComponentSpace()
  for (const [tag, builtin] of Object.entries(BUILTINS)) {
    const definition = base.defineComponent(builtinDefinition(tag, builtin, templates))
    space.getComponentSpace().setGlobalUsingComponent(tag, definition)
  }
}

function builtinDefinition(tag, { properties, observers = [], data, methods, lifetimes, role }, templates) {
  return {
    is: 'wx/' + tag,
    template: { groupList: templates, content: templates['wx/' + tag] },
    properties: { ...commonProperties, ...properties },
    data,
    methods,
    observers: [...attributeObservers, ...observers],
    lifetimes: {
      ...lifetimes,
      created() {
        if (!role) return
        this.$$.setAttribute('role', role)
        makeReachable(this.$$, role)
      },
    },
  }
}

function registerUnits(space, { units, scopes, templates }) {
  space.addStyleSheet('app', 'app')
  for (const [unit, { config }] of Object.entries(units)) {
    space.addComponentStaticConfig(unit, config)
    space.addCompiledTemplate(unit, { groupList: templates, content: templates[unit] })
    space.addStyleSheet(unit, unit, scopes[unit])
  }
}

/** Components before pages, so that whatever a page uses is there. */
function componentsFirst(units) {
  return Object.keys(units).sort((a, b) => Number(units[a].isPage) - Number(units[b].isPage))
}
