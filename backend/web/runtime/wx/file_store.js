/**
 * Files by path. Temporary ones (blob: addresses) live as long as the window; those under wxfile://usr stay, in
 * IndexedDB. It reads and writes blobs and knows nothing of pictures.
 */

export const USER_DATA_PATH = 'wxfile://usr'

const temporary = new Map() // blob: address -> Blob
const shown = new Map() // path under USER_DATA_PATH -> blob: address made for it
let opened // Promise<IDBDatabase>, once something needed it

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

async function request(mode, act) {
  const database = await (opened ??= open())
  return settled(act(database.transaction('files', mode).objectStore('files')))
}

function open() {
  const opening = indexedDB.open('dogsnap', 1)
  opening.onupgradeneeded = () => opening.result.createObjectStore('files')
  return settled(opening)
}

function settled(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}
