/**
 * The app going to the background and coming back, told to App and to the page in view, as WeChat does. Browsers have
 * several windows of an app as well: what one of them keeps, the page in view of another is told of by its onShow.
 */
import { PREFIX } from './wx/storage.js'

/** @param {{app: () => any, router: import('./router.js').Router}} options */
export function followVisibility({ app, router }) {
  document.addEventListener('visibilitychange', () => {
    const name = document.hidden ? 'onHide' : 'onShow'
    app()[name]?.({})
    router.call(router.top, name)
  })
  addEventListener('storage', ({ key }) => {
    if (key?.startsWith(PREFIX)) router.call(router.top, 'onShow')
  })
}
