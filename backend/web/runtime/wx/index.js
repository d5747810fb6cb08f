/**
 * The wx object: every function the mini program uses, put together from one file per concern.
 * A function that is not here fails with its name when called; wx.canIUse says so beforehand.
 */
import { canvas } from './canvas.js'
import { dialogs } from './dialogs.js'
import { files } from './files.js'
import { media } from './media.js'
import { navigation } from './navigation.js'
import { network } from './network.js'
import { offlineNetwork } from './offline.js'
import { storage } from './storage.js'
import { system } from './system.js'

/** @param {() => import('../router.js').Router} router  asked when needed: the router is made after wx */
export function createWx(router) {
  const known = {
    ...system,
    ...storage,
    ...files,
    ...media,
    ...network,
    ...dialogs,
    ...canvas(router),
    ...navigation(router),
    offlineNetwork,
  }
  known.canIUse = (schema) => schema.split('.')[0] in known
  return new Proxy(known, {
    get: (target, name) => (name in target || typeof name === 'symbol' ? target[name] : unknown(name)),
  })
}

function unknown(name) {
  return () => {
    throw new Error(`wx.${name} does not exist in the browser runtime (backend/web/runtime/wx).`)
  }
}
