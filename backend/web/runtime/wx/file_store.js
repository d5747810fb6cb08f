/**
 * Files by path. Temporary ones live as long as the window; those under wxfile://usr stay, in IndexedDB. It reads and
 * writes blobs and knows nothing of pictures. A file has an address only while somebody shows it: a browser keeps what an
 * address names.
 */

export const USER_DATA_PATH = 'wxfile://usr'

/** WeChat's number for a file that is not there. */
const NO_SUCH_FILE = 1300002

const TEMPORARY_PATH = 'wxfile://tmp'

const temporary = new Map() // path -> Blob
const addresses = new Map() // path -> its address, a promise, and how many show it
let opened // Promise<IDBDatabase>, once something needed it

const SILENCE_MS = 3000
const SILENT = new Error('IndexedDB does not answer')

/** Keeps a blob for this session; returns its path. */
export function addTemporary(blob) {
  const path = `${TEMPORARY_PATH}/${temporary.size + 1}`
  temporary.set(path, blob)
  return path
}

/** @returns {Promise<Blob>}  rejects when there is no such file */
export async function read(path) {
  const blob = isKept(path) ? await request('readonly', (store) => store.get(path)) : temporary.get(path)
  if (!blob) throw Object.assign(new Error(`no such file or directory "${path}"`), { errno: NO_SUCH_FILE })
  return blob
}

export async function keep(path, blob) {
  if (!isKept(path)) throw new Error(`permission denied, "${path}" is not under ${USER_DATA_PATH}`)
  await request('readwrite', (store) => store.put(blob, path))
}

export async function remove(path) {
  await read(path)
  await request('readwrite', (store) => store.delete(path))
  addresses.delete(path) // who shows it still does
}

/**
 * An address that <img> can load, until it is let go.
 * @param {string} path  or any other address
 * @returns {Promise<{url: string, release: () => void}>}
 */
export async function addressOf(path) {
  if (!isKept(path) && !path.startsWith(TEMPORARY_PATH)) return { url: path, release() {} }
  const shared = addresses.get(path) ?? { url: read(path).then(URL.createObjectURL), users: 0 }
  addresses.set(path, shared)
  shared.users += 1
  const release = () => letGo(path, shared)
  try {
    return { url: await shared.url, release }
  } catch (error) {
    release()
    throw error
  }
}

function letGo(path, shared) {
  shared.users -= 1
  if (shared.users) return
  if (addresses.get(path) === shared) addresses.delete(path)
  shared.url.then(URL.revokeObjectURL, () => {})
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
