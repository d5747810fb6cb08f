/**
 * What WeChat does with onShareAppMessage, done by a browser: its share sheet where it has one, else the clipboard,
 * else (plain http) a dialog with the link and a button that copies it.
 */
import { SHARE_EVENT } from './builtins/button.js'
import { read } from './wx/file_store.js'
import { create, showModal } from './wx/dialogs.js'
import { words } from './words.js'

/** @param {{router: import('./router.js').Router, wx: any}} options */
export function offerShare({ router, wx }) {
  let isSharing = false // a browser takes a second sheet for a mistake
  document.addEventListener(SHARE_EVENT, async () => {
    if (isSharing) return
    isSharing = true
    await shareTop().finally(() => {
      isSharing = false
    })
  })

  async function shareTop() {
    const { page } = router.top
    const card = await resolveCard(page.onShareAppMessage())
    const url = `${location.origin}${location.pathname}#${card.path}`
    await share({ title: card.title, url, picture: card.imageUrl, wx })
  }
}

/** WeChat lets a page answer with {promise} while it is still drawing. */
async function resolveCard({ promise, ...ready }) {
  return promise ? { ...ready, ...(await promise) } : ready
}

async function share({ title, url, picture, wx }) {
  if (navigator.share && (await shareSheet({ title, url, picture }))) return
  const { copied, copyByHand, copy: copyWord, close } = words()
  if (navigator.clipboard && (await copy(`${title} ${url}`))) return wx.showToast({ title: copied })
  const field = linkField(url)
  const { confirm } = await showModal({ title, content: copyByHand, body: field, confirmText: copyWord, cancelText: close, onConfirm: () => copyField(field) })
  if (confirm) wx.showToast({ title: copied })
}

/** @returns {Promise<boolean>}  true when the sheet was shown, also when the user then closed it */
async function shareSheet({ title, url, picture }) {
  const files = picture ? [new File([await read(picture)], 'dogsnap.jpg', { type: 'image/jpeg' })] : []
  const data = navigator.canShare?.({ files }) && files.length ? { title, url, files } : { title, url }
  return navigator.share(data).then(
    () => true,
    (error) => error.name === 'AbortError',
  )
}

function copy(text) {
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  )
}

/** Where a page has no clipboard, since it came by plain http; the field has to be in view. @returns {boolean} */
function copyField(field) {
  field.focus()
  field.setSelectionRange(0, field.value.length)
  return document.execCommand('copy')
}

function linkField(url) {
  const field = Object.assign(create('input', 'wx-modal-link'), { readOnly: true, value: url, ariaLabel: url })
  field.addEventListener('focus', () => field.select())
  return field
}
