/**
 * The stack of pages, kept in step with the browser's history: back button, deep links and reload work.
 * It knows the engine only as something that makes a page.
 *
 * Every history entry holds the whole stack ({key, url} each), so that a reload can rebuild it; pages below the top
 * are made when they are first seen again. The pages of the bar of tabs stay as they are left, each once.
 */
import { createFrame } from './frame.js'
import { createTabBar } from './tab_bar.js'
import { cancelDialogs } from './wx/dialogs.js'

/** The browser goes back at once; where it cannot, since its history is another one, the page goes back without it. */
const BACK_MS = 1000

export class Router {
  /**
   * @param {{engine: any, mount: HTMLElement, app: any, units: any, report: (error: unknown) => void}} options
   *   report: told of errors in the pages' own callbacks, which must not stop a route
   */
  constructor({ engine, mount, app, units, report }) {
    Object.assign(this, { engine, mount, app, units, report })
    this.stack = []
    this.tabs = new Map() // path -> entry, of each page of the bar of tabs that was made
    this.tabBar = createTabBar(app.tabBar?.list ?? [], (path) => this.switchTab('/' + path))
    this.isStarted = false
    this.returning = null // Promise, while the browser is on its way back; other routes are not taken then
  }

  /** Opens what the address asks for: the stack of before a reload, a deep link, or the first page. */
  start() {
    window.addEventListener('popstate', (event) => this.follow(event.state))
    const saved = history.state?.stack?.filter(({ url }) => this.isPage(url))
    this.rebuild(saved?.length ? saved : [this.entryFor(this.addressed() ?? this.homeUrl())])
    this.save('replaceState')
    this.isStarted = true
  }

  pages() {
    return this.stack.filter((entry) => entry.page).map((entry) => entry.page)
  }

  get top() {
    return this.stack[this.stack.length - 1]
  }

  navigateTo(url) {
    if (this.returning) return this.returning
    if (this.isTab(url)) throw new Error('can not navigateTo a tabbar page')
    const entry = this.entryFor(url)
    this.hide(this.top)
    this.stack.push(entry)
    this.reveal(entry)
    return this.save('pushState')
  }

  redirectTo(url) {
    if (this.returning) return this.returning
    if (this.isTab(url)) throw new Error('can not redirectTo a tabbar page')
    const entry = this.entryFor(url)
    this.discard(this.stack.pop())
    this.stack.push(entry)
    this.reveal(entry)
    return this.save('replaceState')
  }

  reLaunch(url) {
    if (this.returning) return this.returning
    this.restart(url)
    return this.save('pushState')
  }

  /** A tab takes the place of the tab in view; the first one lies below all, and Back leads to it. */
  switchTab(url) {
    if (this.returning) return this.returning
    if (!this.isTab(url)) throw new Error('can not switch to no-tabBar page')
    const entry = this.tabs.get(parseUrl(url).path) ?? this.entryFor(url)
    const above = this.stack.length - 1 - this.stack.indexOf(entry)
    if (above < this.stack.length && above > 0) return this.navigateBack(above)
    entry.url = url
    const isInstead = this.isHome(url) || (this.isTab(this.top.url) && !this.isHome(this.top.url))
    this.rebuild([...(this.isHome(url) ? [] : isInstead ? this.stack.slice(0, -1) : this.stack), entry])
    return this.save(isInstead ? 'replaceState' : 'pushState')
  }

  /** As where the app is opened anew by a link: nothing of before stays. */
  restart(url) {
    const entry = this.entryFor(url)
    const tabs = [...this.tabs.values()]
    this.tabs.clear()
    this.rebuild([entry])
    for (const tab of tabs) this.release(tab)
  }

  setTitle(title) {
    this.top.frame.setTitle(title)
    document.title = title
  }

  /** Resolves when the page below is in view. Asked again meanwhile, it goes no further. */
  navigateBack(delta) {
    const steps = Math.min(delta, this.stack.length - 1)
    if (steps < 1) throw new Error('cannot navigate back at first page.')
    this.returning ??= this.goBack(steps).finally(() => {
      this.returning = null
    })
    return this.returning
  }

  async goBack(steps) {
    const below = this.stack[this.stack.length - 1 - steps]
    const arrival = new Promise((resolve) => window.addEventListener('popstate', resolve, { once: true }))
    cancelDialogs()
    history.go(-steps)
    await Promise.race([arrival, new Promise((resolve) => setTimeout(resolve, BACK_MS))])
    if (!this.stack.includes(below) || this.top === below) return
    this.rebuild(this.stack.slice(0, this.stack.indexOf(below) + 1))
    this.save('replaceState')
  }

  /** The browser moved through its history, or the address was edited. Back closes a dialog, and the page stays. */
  follow(state) {
    if (cancelDialogs() && state?.stack) return this.save('pushState')
    if (state?.stack) return this.rebuild(state.stack)
    const url = this.addressed() ?? this.homeUrl()
    if (this.isTab(url)) this.restart(url)
    else this.rebuild([...this.stack, this.entryFor(url)])
    return this.save('replaceState')
  }

  /** Makes the stack equal to `wanted`; pages that stay are not touched. */
  rebuild(wanted) {
    const before = this.top
    let kept = 0
    while (kept < this.stack.length && kept < wanted.length && this.stack[kept].key === wanted[kept].key) kept++
    while (this.stack.length > kept) this.discard(this.stack.pop())
    this.stack.push(...wanted.slice(kept).map(({ key, url }) => this.tabOf(key) ?? { key, url }))
    if (this.top !== before) {
      if (before) this.hide(before)
      this.reveal(this.top)
    }
  }

  /**
   * Takes the focus along; but in a window that was just opened it is where the browser puts it. A page whose script has not
   * come yet has its frame, with the way back and the word that it is loading, and the rest once it has, if it is still the one that is wanted.
   */
  reveal(entry, takesFocus = this.isStarted) {
    cancelDialogs()
    if (!entry.frame) this.frame(entry)
    const isNew = !entry.page
    const isThere = this.engine.isThere(parseUrl(entry.url).path)
    if (isNew && isThere) this.create(entry)
    this.show(entry)
    if (isNew && isThere) this.call(entry, 'onReady')
    if (takesFocus) entry.frame.takeFocus()
    if (!isThere) this.engine.whole.then(() => this.top === entry && !entry.page && this.reveal(entry, false))
  }

  frame(entry) {
    const { path } = parseUrl(entry.url)
    const { navigationBarTitleText: title = '' } = { ...this.app.window, ...this.units[path].config }
    entry.frame = createFrame({
      title,
      canGoBack: this.stack.length > 1 || (this.isTab(entry.url) && !this.isHome(entry.url)),
      isHome: this.isHome(entry.url),
      goBack: () => (this.stack.length > 1 ? this.navigateBack(1) : this.goHome()),
      goHome: () => this.goHome(),
    })
    this.mount.append(entry.frame.element)
    if (this.isTab(entry.url)) this.tabs.set(path, entry)
  }

  create(entry) {
    const { path, query } = parseUrl(entry.url)
    entry.root = this.engine.createPage(path)
    entry.page = Object.assign(entry.root.get(), { route: path, options: query })
    this.call(entry, 'onLoad', query)
    entry.root.attach(entry.frame.element, entry.frame.placeholder)
    entry.frame.bar.nextElementSibling.setAttribute('is', path)
  }

  show(entry) {
    entry.frame.element.hidden = false
    if (this.isTab(entry.url)) {
      this.tabBar.choose(parseUrl(entry.url).path)
      entry.frame.element.append(this.tabBar.element)
    }
    document.title = entry.frame.element.querySelector('h1').textContent || document.title
    this.call(entry, 'onShow')
  }

  hide(entry) {
    if (!entry.frame) return
    entry.frame.rememberFocus()
    entry.frame.element.hidden = true
  }

  discard(entry) {
    if (this.tabOf(entry.key)) this.hide(entry)
    else this.release(entry)
  }

  release(entry) {
    entry.frame?.element.remove()
    entry.frame = null
    if (!entry.page) return
    this.call(entry, 'onUnload')
    entry.page.setData = () => {} // what was under way may end later, as in WeChat
    entry.root.release()
    entry.page = null
  }

  /** A page's callback that throws is reported, and the route goes on, as in WeChat. */
  call(entry, name, ...args) {
    try {
      Promise.resolve(entry.page?.[name]?.(...args)).catch(this.report)
    } catch (error) {
      this.report(error)
    }
  }

  save(method) {
    const stack = this.stack.map(({ key, url }) => ({ key, url }))
    history[method]({ stack }, '', '#' + this.top.url)
  }

  entryFor(url) {
    if (!this.isPage(url)) throw new Error(`page "${parseUrl(url).path}" is not found`)
    return { key: crypto.getRandomValues(new Uint32Array(1))[0].toString(36), url }
  }

  tabOf(key) {
    return [...this.tabs.values()].find((tab) => tab.key === key)
  }

  isTab(url) {
    return (this.app.tabBar?.list ?? []).some(({ pagePath }) => pagePath === parseUrl(url).path)
  }

  isHome(url) {
    return parseUrl(url).path === this.app.pages[0]
  }

  goHome() {
    return this.isTab(this.homeUrl()) ? this.switchTab(this.homeUrl()) : this.redirectTo(this.homeUrl())
  }

  isPage(url) {
    return Boolean(this.units[parseUrl(url).path]?.isPage)
  }

  /** The page named in the address, or null. */
  addressed() {
    const url = location.hash.slice(1)
    return url && this.isPage(url) ? url : null
  }

  homeUrl() {
    return '/' + this.app.pages[0]
  }
}

/** "/pages/breed/breed?id=n02" -> {path: "pages/breed/breed", query: {id: "n02"}} */
export function parseUrl(url) {
  const [path, query = ''] = url.split('?')
  return { path: path.replace(/^\//, ''), query: Object.fromEntries(new URLSearchParams(query)) }
}
