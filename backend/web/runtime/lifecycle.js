/** The app going to the background and coming back, told to App and to the page in view, as WeChat does. */

/** @param {{app: () => any, router: import('./router.js').Router}} options */
export function followVisibility({ app, router }) {
  document.addEventListener('visibilitychange', () => {
    const name = document.hidden ? 'onHide' : 'onShow'
    app()[name]?.({})
    router.call(router.top, name)
  })
}
