/** Service worker: the app's own files come from the network, and from what was kept where there is no server. */
const CACHE = 'app'
const FILES = ['./', 'runtime.css', 'app.css', 'runtime.js', 'app.js', 'manifest.webmanifest', 'icon-192.png']
const known = FILES.map((file) => new URL(file, self.location).href)

self.addEventListener('install', (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)))
})

self.addEventListener('fetch', (event) => {
  if (event.request.method === 'GET' && known.includes(event.request.url)) event.respondWith(answer(event.request))
})

async function answer(request) {
  const cache = await caches.open(CACHE)
  try {
    const response = await fetch(request)
    if (response.status < 500) {
      if (response.ok) await cache.put(request, response.clone())
      return response
    }
  } catch {
    // no connection
  }
  return (await cache.match(request, { ignoreVary: true })) ?? Response.error()
}
