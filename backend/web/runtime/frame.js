/**
 * What stands around a page: the navigation bar with its title and the way back, and the place for the page itself.
 * It decides nothing about routes; it calls the two functions it is given.
 */

/**
 * @param {{title: string, canGoBack: boolean, isHome: boolean, goBack: () => void, goHome: () => void}} options
 * @returns {{element: HTMLElement, placeholder: HTMLElement, setTitle: (title: string) => void}}
 */
export function createFrame({ title, canGoBack, isHome, goBack, goHome }) {
  const heading = create('h1', 'wx-nav-title', title)
  const bar = create('header', 'wx-nav')
  if (canGoBack) bar.append(navButton('wx-nav-back', '返回 Back', goBack))
  else if (!isHome) bar.append(navButton('wx-nav-home', '首页 Home', goHome))
  bar.append(heading)
  const placeholder = create('span')
  const element = create('main', 'wx-frame')
  element.append(bar, placeholder)
  return {
    element,
    placeholder,
    setTitle: (text) => {
      heading.textContent = text
    },
  }
}

function navButton(className, label, onClick) {
  const button = create('button', className)
  button.setAttribute('aria-label', label)
  button.addEventListener('click', onClick)
  return button
}

function create(tag, className = '', text = '') {
  return Object.assign(document.createElement(tag), { className, textContent: text })
}
