/**
 * Photos that come from outside, by drag and drop or paste. WeChat has the same thing - a picture from a chat, opened
 * with the mini program - so they arrive the same way: App.onShow with `forwardMaterials`, on the page that app.json
 * names under `supportedMaterials`.
 */
import { addTemporary } from './wx/file_store.js'

/** WeChat's scene number for "opened with a chat's material". */
const SCENE_CHAT_MATERIAL = 1173

/**
 * @param {{app: () => any, router: import('./router.js').Router, materials: any[]}} options  materials: app.json's
 *   supportedMaterials, {materialType, path} each
 */
export function acceptPhotos({ app, router, materials }) {
  const door = materials.find(({ materialType }) => materialType === 'image/*')
  const deliver = (file) => {
    const material = { type: file.type, name: file.name, path: addTemporary(file), size: file.size }
    app().onShow?.({ scene: SCENE_CHAT_MATERIAL, path: door.path, query: {}, forwardMaterials: [material] })
    router.reLaunch('/' + door.path)
  }
  if (door) listen(deliver)
}

function listen(deliver) {
  const root = document.documentElement
  const mark = (dragging) => root.classList.toggle('wx-dragging', dragging)
  document.addEventListener('dragover', (event) => {
    event.preventDefault()
    mark(true)
  })
  document.addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) mark(false)
  })
  document.addEventListener('drop', (event) => {
    event.preventDefault()
    mark(false)
    first(event.dataTransfer, deliver)
  })
  document.addEventListener('paste', (event) => first(event.clipboardData, deliver))
}

function first(transfer, deliver) {
  const file = transfer?.files[0]
  if (file) deliver(file)
}
