/**
 * What stands around a page: the navigation bar with its title and the way back, and the place for the page itself.
 * It decides nothing about routes; it calls the two functions it is given.
 */

import { create } from './wx/dialogs.js'

/**
 * @param {{title: string, canGoBack: boolean, isHome: boolean, goBack: () => void, goHome: () => void}} options
 * @returns {{element: HTMLElement, bar: HTMLElement, placeholder: HTMLElement, setTitle: (title: string) => void, rememberFocus: () => void,
 *   takeFocus: () => void}}
 */
export function createFrame({ title, canGoBack, isHome, goBack, goHome }) {
  const heading = create('h1', 'wx-nav-title', title)
  heading.tabIndex = -1 // not on the way of the Tab key, but focus can be put there
  const bar = create('header', 'wx-nav')
  if (canGoBack) bar.append(navButton('wx-nav-back', '返回 Back', goBack))
  else if (!isHome) bar.append(navButton('wx-nav-home', '首页 Home', goHome))
  bar.append(heading)
  const placeholder = create('p', 'wx-loading', '正在加载… Loading…')
  placeholder.setAttribute('role', 'status')
  const element = create('main', 'wx-frame')
  element.append(bar, placeholder)
  let focused = heading
  return {
    element,
    bar,
    placeholder,
    setTitle: (text) => {
      heading.textContent = text
    },
    rememberFocus() {
      const { activeElement } = document
      focused = element.contains(activeElement) ? activeElement : heading
    },
    /** Back where it was when the page was left, or on the title, so that a screen reader says which page this is. */
    takeFocus() {
      const target = element.contains(focused) ? focused : heading
      target.focus({ preventScroll: true })
    },
  }
}

function navButton(className, label, onClick) {
  const button = create('button', className)
  button.setAttribute('aria-label', label)
  button.addEventListener('click', onClick)
  return button
}
