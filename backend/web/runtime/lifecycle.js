/**
 * The app coming back from the background, told to App and to the page in view, as WeChat does. Browsers have
 * several windows of an app as well: what one of them keeps, another is told of by App.onStorageChange, and its page in view by its onShow.
 */
import { PREFIX } from './wx/storage.js'

/** @param {{app: () => any, router: import('./router.js').Router}} options */
export function followVisibility({ app, router }) {
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return
    app().onShow?.({})
    router.call(router.top, 'onShow')
  })
  addEventListener('resize', () => router.call(router.top, 'onResize', { size: { windowWidth: innerWidth, windowHeight: innerHeight } }))
  addEventListener('storage', ({ key }) => {
    if (key && !key.startsWith(PREFIX)) return // none: everything was removed
    app().onStorageChange?.()
    router.call(router.top, 'onShow')
  })
}
