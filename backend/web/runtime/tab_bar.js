/** The bar of tabs that app.json lists, below each of their pages. Which page is in view, and the way there, are the router's. */
import { create } from './wx/dialogs.js'

const STYLES = { color: '--tab', selectedColor: '--tab-chosen', backgroundColor: '--tab-ground' }

/**
 * @param {{pagePath: string, text: string, iconPath: string}[]} list  iconPath: a data: URL, of which the shape counts
 * @param {(path: string) => void} open
 */
export function createTabBar(list, open) {
  const element = create('nav', 'wx-tabs')
  const tabs = list.map(({ pagePath, text, iconPath }) => {
    const button = create('button', 'wx-tab')
    const [icon, words] = [create('span', 'wx-tab-icon'), create('span', '', text)]
    icon.style.setProperty('-webkit-mask-image', `url("${iconPath}")`)
    button.append(icon, words)
    listen(button, () => open(pagePath))
    return { button, words, pagePath }
  })
  element.append(...tabs.map(({ button }) => button))
  return {
    element,
    setText: (index, text) => {
      tabs[index].words.textContent = text
    },
    setStyle: (colours) => {
      for (const [name, property] of Object.entries(STYLES)) element.style.setProperty(property, colours[name])
    },
    choose: (path) => {
      for (const { button, pagePath } of tabs) button.ariaCurrent = pagePath === path ? 'page' : null
    },
  }
}

/** Of two fingers on it a browser makes no click. */
function listen(button, act) {
  button.addEventListener('click', act)
  button.addEventListener('touchend', (event) => {
    event.preventDefault() // no click as well
    const [{ clientX, clientY }] = event.changedTouches
    if (button.contains(document.elementFromPoint(clientX, clientY))) act()
  })
}
