/**
 * Photos that come from outside, by drag and drop or paste. WeChat has the same thing - a picture from a chat, opened
 * with the mini program - so they arrive the same way: App.onShow with `forwardMaterials`, on the page that app.json
 * names under `supportedMaterials`. So do those that another app of the phone shares with the installed one, which the
 * service worker keeps until they are taken here. WeChat never offers a mini program what it does not support; people drop anything,
 * so an app may define App.onUnsupportedMaterial() and say so in its own words. The page in view then stays. Of several
 * photos the first is taken, and App.onFurtherMaterial() told that there were more.
 */
import { addTemporary } from './wx/file_store.js'

/** WeChat's scene number for "opened with a chat's material". */
const SCENE_CHAT_MATERIAL = 1173

/** Photos whose type many browsers do not know: to them it is empty, or "application/octet-stream". */
const UNKNOWN_PHOTO = /\.(heic|heif|avif)$/i

/**
 * @param {{app: () => any, router: import('./router.js').Router, materials: any[]}} options  materials: app.json's
 *   supportedMaterials, {materialType, path} each
 */
export async function acceptPhotos({ app, router, materials }) {
  const accepting = materials.find(({ materialType }) => materialType === 'image/*')
  const deliver = (files) => {
    const [file, further] = files.filter(photoType)
    if (!file) return app().onUnsupportedMaterial?.()
    const material = { type: photoType(file), name: file.name, path: addTemporary(file), size: file.size }
    app().onShow?.({ scene: SCENE_CHAT_MATERIAL, path: accepting.path, query: {}, forwardMaterials: [material] })
    router.reLaunch('/' + accepting.path)
    if (further) app().onFurtherMaterial?.()
  }
  if (!accepting) return
  listen(deliver)
  const shared = await takeShared().catch(() => []) // storage may be forbidden
  if (shared.length) deliver(shared)
}

/** @returns {Promise<File[]>} */
async function takeShared() {
  if (!globalThis.caches) return [] // plain http
  const cache = await caches.open('shared')
  const files = []
  for (const request of await cache.keys()) {
    const response = await cache.match(request)
    const blob = await response.blob()
    files.push(new File([blob], decodeURI(response.headers.get('x-name')), { type: blob.type }))
    await cache.delete(request)
  }
  return files
}

/** @returns {string}  "image/..."; "" for what is no photo */
function photoType({ type, name }) {
  if (type.startsWith('image/')) return type
  const [, ending] = UNKNOWN_PHOTO.exec(name) ?? []
  return ending ? `image/${ending.toLowerCase()}` : ''
}

function listen(deliver) {
  const root = document.documentElement
  const mark = (dragging) => root.classList.toggle('wx-dragging', dragging)
  document.addEventListener('dragover', (event) => {
    if (isText(event.dataTransfer, event.target)) return
    event.preventDefault()
    mark(true)
  })
  document.addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) mark(false)
  })
  document.addEventListener('drop', (event) => {
    mark(false)
    if (isText(event.dataTransfer, event.target)) return
    event.preventDefault()
    hand(event.dataTransfer, deliver)
  })
  document.addEventListener('paste', (event) => {
    if (!isText(event.clipboardData, event.target)) hand(event.clipboardData, deliver)
  })
}

const FIELDS = 'input, textarea, [contenteditable]'

/**
 * Whether it is text that is meant. Office programs give a picture of the text along with it, as HTML and as it is; a photo
 * is HTML without text where a page was copied from, or text without HTML, the file's name, where a folder was.
 * @param {DataTransfer | null} transfer
 * @param {EventTarget | null} target
 */
function isText(transfer, target) {
  const types = [...(transfer?.types ?? [])]
  if (!types.includes('text/plain')) return false
  const isField = Boolean(target?.closest?.(FIELDS))
  return isField || ['text/html', 'text/rtf'].some((type) => types.includes(type))
}

/** What brings no files means nothing here. */
function hand(transfer, deliver) {
  const files = [...(transfer?.files ?? [])]
  if (files.length) deliver(files)
}
