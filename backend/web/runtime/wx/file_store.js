/**
 * Files by path. Temporary ones (blob: addresses) live as long as the window; those under wxfile://usr stay, in
 * IndexedDB. It reads and writes blobs and knows nothing of pictures.
 */

export const USER_DATA_PATH = 'wxfile://usr'

const temporary = new Map() // blob: address -> Blob
const shown = new Map() // path under USER_DATA_PATH -> blob: address made for it
let opened // Promise<IDBDatabase>, once something needed it

const SILENCE_MS = 3000
const SILENT = new Error('IndexedDB does not answer')

/** Keeps a blob for this session; returns its path. */
export function addTemporary(blob) {
  const path = URL.createObjectURL(blob)
  temporary.set(path, blob)
  return path
}

/** @returns {Promise<Blob>}  rejects when there is no such file */
export async function read(path) {
  const blob = isKept(path) ? await request('readonly', (store) => store.get(path)) : temporary.get(path)
  if (!blob) throw new Error(`no such file or directory "${path}"`)
  return blob
}

export async function keep(path, blob) {
  if (!isKept(path)) throw new Error(`permission denied, "${path}" is not under ${USER_DATA_PATH}`)
  await request('readwrite', (store) => store.put(blob, path))
}

export async function remove(path) {
  await read(path)
  await request('readwrite', (store) => store.delete(path))
  if (shown.has(path)) URL.revokeObjectURL(shown.get(path))
  shown.delete(path)
}

/** An address that <img> can load. */
export async function urlOf(path) {
  if (!isKept(path)) return path
  if (!shown.has(path)) shown.set(path, URL.createObjectURL(await read(path)))
  return shown.get(path)
}

function isKept(path) {
  return path.startsWith(USER_DATA_PATH + '/')
}

/** Where it fails, once more by a new connection: a browser closes one without asking. */
function request(mode, act) {
  return attempt(mode, act).catch((error) => {
    if (error === SILENT) throw error
    opened = undefined
    return attempt(mode, act)
  })
}

/** Until all is on the disk: a full one is told of only then. */
async function attempt(mode, act) {
  const database = await (opened ??= open())
  return new Promise((resolve, reject) => {
    const transaction = database.transaction('files', mode)
    const asked = act(transaction.objectStore('files'))
    transaction.oncomplete = () => resolve(asked.result)
    transaction.onabort = () => reject(transaction.error)
  })
}

/** Some browsers leave it without an answer; then nothing is kept in this session. */
function open() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open('dogsnap', 1)
    opening.onupgradeneeded = () => opening.result.createObjectStore('files')
    opening.onsuccess = () => resolve(opening.result)
    opening.onerror = () => reject(opening.error)
    setTimeout(() => reject(SILENT), SILENCE_MS)
  })
}
