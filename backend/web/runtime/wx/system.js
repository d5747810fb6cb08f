/** wx functions about the device: language, theme, window size, and their changes. */

const dark = () => matchMedia('(prefers-color-scheme: dark)')

/** navigator.language as WeChat writes it: "zh_CN", "en", ... */
function language() {
  return navigator.language.startsWith('zh') ? navigator.language.replace('-', '_') : navigator.language.split('-')[0]
}

/** A browser says of a connection at most whether it is a phone's, or that data are to be saved. */
function networkType() {
  const { type, saveData } = navigator.connection ?? {}
  return type === 'cellular' || saveData ? '4g' : 'wifi'
}

/** What another window stored while this one waited for it arrives a moment later. */
const WAITED_MS = 50

/** WeChat's scene number for "opened from the list of mini programs". */
const SCENE_LIST = 1001

export const system = {
  getEnterOptionsSync: () => ({ scene: SCENE_LIST, path: '', query: {} }),
  getAppBaseInfo: () => ({ language: language(), theme: dark().matches ? 'dark' : 'light' }),
  getDeviceInfo: () => ({ platform: 'web', brand: '', model: '', system: navigator.userAgent }),
  getWindowInfo: () => ({ windowWidth: innerWidth, windowHeight: innerHeight, pixelRatio: devicePixelRatio }),
  getNetworkType: async () => ({ networkType: navigator.onLine ? networkType() : 'none' }),
  /** Only browsers have it: several windows share what is kept, and one of them at a time acts under a name. */
  withLock: async (name, act) => {
    if (!navigator.locks) return act() // plain http
    const asked = Date.now()
    return navigator.locks.request(name, async () => {
      if (Date.now() - asked > WAITED_MS) await new Promise((resolve) => setTimeout(resolve, WAITED_MS))
      return act()
    })
  },
  onNetworkStatusChange(listener) {
    for (const name of ['online', 'offline']) addEventListener(name, () => listener({ isConnected: navigator.onLine }))
  },
  onThemeChange(listener) {
    dark().addEventListener('change', ({ matches }) => listener({ theme: matches ? 'dark' : 'light' }))
  },
}
