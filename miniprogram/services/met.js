/**
 * The breeds that were met, on this phone only: each that a sure answer or the user named, also where its photos are gone.
 * It is shorter again only once everything is deleted.
 *
 * @typedef {{first: number, last: number}} Meeting  when it was met, in milliseconds since 1970
 */
const dogs = require('./dogs')
const storage = require('./storage')

const KEY = 'met'

/** @returns {Record<string, Meeting>}  by the id of the breed; not to be changed */
function all() {
  return storage.read(KEY, {})
}

/** Meets the dogs of some snaps, which may be known. @param {import('./history').Entry[]} entries */
function learn(entries) {
  const known = all()
  const met = Object.assign({}, known)
  for (const entry of entries) {
    for (const { breed } of dogs.breedsOf(entry)) met[breed] = extended(met[breed], entry.time)
  }
  const isNew = (breed) => !known[breed] || met[breed].first < known[breed].first || met[breed].last > known[breed].last
  if (Object.keys(met).some(isNew)) storage.write(KEY, met)
}

/** @param {Meeting | undefined} meeting @returns {Meeting} */
function extended(meeting, time) {
  return meeting ? { first: Math.min(meeting.first, time), last: Math.max(meeting.last, time) } : { first: time, last: time }
}

function clear() {
  storage.remove(KEY)
}

module.exports = { all, learn, clear }
