/** Photos by the camera of a computer, which no file dialog of a browser uses: a dialog with its picture, and a button that takes it. */
import { answerButton, create, dialogs } from './wx/dialogs.js'

const QUALITY = 0.92
const TOLD_MS = 5000

/** By the language that the page says it speaks. */
const WORDS = {
  en: { title: 'Take a photo', file: 'Choose a photo', take: 'Take it', cancel: 'Cancel', waits: 'Starting the camera…', none: 'There is no camera to use here. Please choose a photo.' },
  zh: { title: '拍照', file: '选择照片', take: '拍下', cancel: '取消', waits: '正在打开摄像头…', none: '这里没有能用的摄像头，请选择照片' },
  'zh-Hant': { title: '拍照', file: '選擇照片', take: '拍下', cancel: '取消', waits: '正在開啟攝影機…', none: '這裡沒有能用的攝影機，請選擇照片' },
}

/** Phones and tablets have a camera of their own, behind the file dialog. */
const isComputer = () => matchMedia('(hover: hover) and (pointer: fine)').matches

let cameras = 0

/** Known beforehand: a browser opens a file dialog only at once after a press. Over plain http there is none. */
export function findWebcams() {
  const { mediaDevices } = navigator
  if (!mediaDevices?.enumerateDevices || !isComputer()) return
  const count = async () => {
    const devices = await mediaDevices.enumerateDevices().catch(() => [])
    cameras = devices.filter(({ kind }) => kind === 'videoinput').length
  }
  count()
  mediaDevices.addEventListener('devicechange', count)
}

export const hasWebcam = () => isComputer() && cameras > 0

/** Where the camera was asked for. */
export function tellThatThereIsNone() {
  if (isComputer()) dialogs.showToast({ title: words().none, duration: TOLD_MS })
}

const words = () => WORDS[document.documentElement.lang] ?? WORDS.en

/** Where both are asked for: a computer's file dialog offers no camera, as that of a phone does. @returns {Promise<'camera' | 'album'>}  rejects with "cancel" */
export function askSource() {
  const { title, file, cancel } = words()
  const dialog = create('dialog', 'wx-modal wx-sources')
  dialog.setAttribute('aria-label', title)
  const sources = { camera: title, album: file, cancel }
  dialog.append(...Object.entries(sources).map(([source, label]) => answerButton(dialog, label, source)))
  document.body.append(dialog)
  dialog.showModal()
  return new Promise((resolve, reject) => {
    dialog.addEventListener('close', () => {
      dialog.remove()
      const { returnValue: source } = dialog
      if (['camera', 'album'].includes(source)) resolve(source)
      else reject(new Error('cancel'))
    })
  })
}

/** @returns {Promise<Blob>}  a JPEG; rejects with "cancel", or where the camera may not or cannot be used */
export async function takePhoto() {
  const { title, take: takes, cancel: cancels, waits: starts } = words()
  const dialog = create('dialog', 'wx-modal wx-webcam')
  dialog.setAttribute('aria-label', title)
  const video = Object.assign(create('video'), { muted: true, playsInline: true, autoplay: true })
  const [cancel, take] = [create('button', '', cancels), create('button', 'wx-modal-confirm', takes)]
  const buttons = create('div', 'wx-modal-buttons')
  buttons.append(cancel, take)
  const waits = create('p', '', starts)
  dialog.append(video, waits, buttons)
  document.body.append(dialog)
  take.disabled = true
  dialog.showModal()
  const closed = new Promise((resolve, reject) => {
    cancel.addEventListener('click', () => dialog.close())
    take.addEventListener('click', () => resolve(shoot(video)))
    dialog.addEventListener('close', () => reject(new Error('cancel')))
  })
  const opening = navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1920 } } })
  video.addEventListener('loadeddata', () => {
    waits.remove()
    take.disabled = false
    take.focus()
  })
  const failed = opening.then(
    (stream) => {
      video.srcObject = stream
      return closed
    },
    ({ message }) => {
      throw new Error(`camera: ${message}`)
    },
  )
  try {
    return await Promise.race([closed, failed])
  } finally {
    dialog.remove()
    const stop = (stream) => stream.getTracks().forEach((track) => track.stop())
    opening.then(stop, () => {}) // also where the camera opens only after "cancel"
  }
}

async function shoot(video) {
  const { videoWidth: width, videoHeight: height } = video
  const canvas = Object.assign(document.createElement('canvas'), { width, height })
  canvas.getContext('2d').drawImage(video, 0, 0)
  const blob = await new Promise((resolve) => {
    canvas.toBlob(resolve, 'image/jpeg', QUALITY)
  })
  if (!blob) throw new Error('camera: it gives no picture')
  return blob
}
