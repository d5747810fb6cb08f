/**
 * Service worker: the app opens from what was kept, at every address and at once. What is kept is one version of the
 * app, all of its files with the contents that the build gave them, or none; a new one is taken at the next start.
 * It also takes the photos that other apps of the phone share with this one.
 * build.mjs writes VERSION, FILES and OFFLINE, which are addresses with their integrity, above this text.
 */
/* global VERSION, FILES, OFFLINE */
const CACHE = `app-${VERSION}`
/** Only where answers without a connection were chosen: wx/offline.js makes it, and keeps there what OFFLINE names. */
const NETWORK = 'offline'
const SHARED = 'shared'
const address = (file) => new URL(file, self.location).href

self.addEventListener('install', (event) => event.waitUntil(keepAll()))
self.addEventListener('activate', (event) => event.waitUntil(forgetOld()))
self.addEventListener('fetch', (event) => {
  const { method, url, mode } = event.request
  const [place] = url.split(/[?#]/)
  if (method === 'POST' && place === address('shared')) event.respondWith(takeShared(event.request))
  if (method !== 'GET') return
  const isStart = mode === 'navigate' && [address('./'), address('index.html')].includes(place)
  if (isStart) event.respondWith(answer(event.request, './'))
  else if ([...FILES, ...OFFLINE].some(({ url: file }) => address(file.split('?')[0]) === place)) event.respondWith(answer(event.request, url))
})

/** Whoever else answers in the server's place (the login page of a hotel, half an update) has other contents. */
async function keepAll() {
  await keep(CACHE, FILES)
  if (await caches.has(NETWORK)) await keep(NETWORK, OFFLINE)
  await self.skipWaiting()
}

async function keep(name, files) {
  const cache = await caches.open(name)
  await cache.addAll(files.map(({ url, integrity }) => new Request(url, { integrity, cache: 'reload' })))
}

/** The version before stays: a page of it may still be loading. */
async function forgetOld() {
  const versions = (await caches.keys()).filter((name) => name.startsWith('app'))
  await Promise.all(versions.slice(0, -2).map((name) => caches.delete(name)))
}

async function answer(request, file) {
  const kept = await (await caches.open(CACHE)).match(file, { ignoreVary: true })
  return kept ?? (await caches.match(request, { ignoreVary: true })) ?? fetch(request)
}

/** Kept until the page takes them (incoming.js), which also survives a reload. Where there is no room for them the app opens without. */
async function takeShared(request) {
  await keepShared(request).catch(() => {})
  return Response.redirect('./', 303)
}

async function keepShared(request) {
  const photos = (await request.formData()).getAll('photo')
  const cache = await caches.open(SHARED)
  const keep = (photo, number) => cache.put(`shared-${number}`, new Response(photo, { headers: { 'x-name': encodeURI(photo.name) } }))
  await Promise.all(photos.map(keep))
}
