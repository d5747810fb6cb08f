/** Routes and the navigation bar, handed to the router, and the bar of tabs. Animations are not offered. */
import { api } from './api.js'

/** @param {() => import('../router.js').Router} router */
export function navigation(router) {
  return {
    navigateTo: api('navigateTo', ({ url }) => router().navigateTo(url)),
    redirectTo: api('redirectTo', ({ url }) => router().redirectTo(url)),
    reLaunch: api('reLaunch', ({ url }) => router().reLaunch(url)),
    switchTab: api('switchTab', ({ url }) => router().switchTab(url)),
    navigateBack: api('navigateBack', ({ delta = 1 }) => router().navigateBack(delta)),
    setNavigationBarTitle: api('setNavigationBarTitle', ({ title }) => router().setTitle(title)),
    setNavigationBarColor: api('setNavigationBarColor', paintAround),
    setTabBarItem: api('setTabBarItem', ({ index, text }) => tabBar(router()).setText(index, text)),
    setTabBarStyle: api('setTabBarStyle', (colours) => tabBar(router()).setStyle(colours)),
  }
}

/** WeChat changes it only while one of its pages is in view. */
function tabBar(router) {
  if (!router.isTab(router.top.url)) throw new Error('not TabBar page')
  return router.tabBar
}

/** The bar, the browser's own bar on a phone, and what is left and right of the app on a desktop. */
function paintAround({ frontColor, backgroundColor }) {
  const root = document.documentElement
  root.style.setProperty('--nav-front', frontColor)
  root.style.setProperty('--nav-back', backgroundColor)
  root.dataset.theme = frontColor === '#ffffff' ? 'dark' : 'light'
  document.querySelector('meta[name=theme-color]').content = backgroundColor
}
