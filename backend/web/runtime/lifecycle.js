/**
 * The app coming back from the background, told to App and to the page in view, as WeChat does. Browsers have
 * several windows of an app as well: what one of them keeps, the page in view of another is told of by its onShow.
 */
import { PREFIX } from './wx/storage.js'

/** @param {{app: () => any, router: import('./router.js').Router}} options */
export function followVisibility({ app, router }) {
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return
    app().onShow?.({})
    router.call(router.top, 'onShow')
  })
  addEventListener('storage', ({ key }) => {
    if (key?.startsWith(PREFIX)) router.call(router.top, 'onShow')
  })
}
