/** Toasts and modal dialogs, drawn by the page: window.confirm would stop it and speak the browser's language. */
import { api } from './api.js'
import { BUTTONS, checkModal, checkToast } from './limits.js'

const DEFAULT_TOAST_MS = 1500
let toast

export const dialogs = {
  showToast: api('showToast', (options) => {
    checkToast(options)
    showToast(options.title, options.duration ?? DEFAULT_TOAST_MS)
  }),
  showModal: api('showModal', (options) => {
    checkModal(options)
    return showModal({ ...BUTTONS, ...options })
  }),
}

/** Answers the dialog in view as its "cancel" does. @returns {boolean}  whether there was one */
export function cancelDialogs() {
  const open = document.querySelectorAll('dialog[open]')
  for (const dialog of open) dialog.close('cancel')
  return open.length > 0
}

function showToast(title, duration) {
  toast?.remove()
  toast = Object.assign(create('div', 'wx-toast', title), { role: 'status' })
  document.body.append(toast)
  const mine = toast
  setTimeout(() => mine.remove(), duration)
}

/**
 * @param {{title: string, content?: string, showCancel?: boolean, confirmText: string, cancelText?: string,
 *   confirmColor?: string, body?: Node | string, onConfirm?: () => boolean}} options
 *   body, onConfirm: further content, and what has to succeed while the dialog is open; for the runtime's own dialogs
 * @returns {Promise<{confirm: boolean, cancel: boolean}>}
 */
export function showModal({ title, content = '', showCancel = true, confirmText, cancelText = '', confirmColor = '', body = '', onConfirm = () => true }) {
  const dialog = create('dialog', 'wx-modal')
  dialog.setAttribute('aria-label', title || content)
  const buttons = create('div', 'wx-modal-buttons')
  if (showCancel) buttons.append(answerButton(dialog, cancelText, 'cancel'))
  const confirmButton = answerButton(dialog, confirmText, 'confirm', onConfirm)
  confirmButton.style.color = confirmColor
  buttons.append(confirmButton)
  if (title) dialog.append(create('h2', '', title))
  dialog.append(create('p', '', content), body, buttons)
  document.body.append(dialog)
  dialog.showModal()
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove()
      const confirm = dialog.returnValue === 'confirm'
      resolve({ confirm, cancel: !confirm })
    })
  })
}

/** Closes a dialog, whose returnValue is `value` then. */
export function answerButton(dialog, label, value, act = () => true) {
  const button = create('button', `wx-modal-${value}`, label)
  button.addEventListener('click', () => act() && dialog.close(value))
  return button
}

export function create(tag, className = '', text = '') {
  return Object.assign(document.createElement(tag), { className, textContent: text })
}
