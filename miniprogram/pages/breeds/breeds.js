/** All breeds that the server knows, by name or by size, found by a few letters; each leads to its page. */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const dogs = require('../../services/dogs')
const history = require('../../services/history')
const { texts } = require('../../services/language')
const loading = require('../../services/loading')
const met = require('../../services/met')
const pinyin = require('../../services/pinyin')
const routes = require('../../services/routes')
const search = require('../../services/search')
const wording = require('../../services/wording')

const SIZES = ['toy', 'small', 'medium', 'large', 'giant', '']

Page({
  ...loading('state', async (page) => {
    page.all = await breeds.all()
    page.setData({ state: 'shown' })
  }),
  data: {
    ...appearance.DATA,
    words: '',
    orders: ['name', 'size'],
    /** @type {'name' | 'size'} */
    order: 'name',
    /** @type {{title: string, breeds: {id: string, photo: string, focus: string, size: string, looks: import('../../services/portrait').Looks | null, name: string, detail: string}[]}[]} */
    groups: [],
    /** Said where a search finds nothing, and how many breeds there are where nothing is searched. */
    line: '',
    /** @type {'loading' | 'shown' | 'failed'} */
    state: 'loading',
  },

  /** @type {import('../../services/breeds').Breed[]} */
  all: [],

  onLoad() {
    met.learn(history.list())
    this.dress()
    return this.load()
  },

  dress() {
    appearance.dress(this, 'breeds')
    this.show() // a breed may have been met meanwhile
  },

  show() {
    const { text, language, words, order } = this.data
    const { sizes } = texts().pages.breed
    const name = (breed) => wording.names(breed, language).main
    const sorted = sortedBreeds(this.all, order, language)
    const found = search.search(sorted, words)
    const hasLetters = language !== 'zh-Hant' // whose order is that of radicals and strokes
    const titleOf = (breed) => (order === 'size' ? sizes[breed.size] || text.noSize : hasLetters ? pinyin.letterOf(name(breed)) : '')
    const groups = wording.groups(found, words ? () => '' : titleOf) // what is searched: the best first
    const thumbs = dogs.thumbsByBreed(history.list())
    const thumb = ({ id }) => (thumbs.get(id) || [{ photo: '', focus: '' }])[0]
    const detail = (breed) => breeds.inShort(breed, words || order === 'name' ? sizes : {}, language)
    const toItem = (breed) => Object.assign({}, thumb(breed), { id: breed.id, size: breed.size || 'medium', looks: breed.looks || null, name: name(breed), detail: detail(breed) })
    this.setData({
      groups: groups.map(([title, some]) => ({ title, breeds: some.map(toItem) })),
      line: this.line(found),
    })
  },

  /** How many breeds there are, were met or found; or that the words are for a mix. */
  line(found) {
    const { text, language, words } = this.data
    const values = { words, count: found.length, met: this.all.filter(({ id }) => met.all()[id]).length }
    if (!words) return found.length ? wording.fill(values.met ? text.met : text.count, values) : ''
    if (search.isNamedMix(words) && found.length) {
      const names = found.map((breed) => wording.within(breed, language)).join(text.and)
      return wording.fill(text.mixOf, { mix: wording.withCapital(words), names })
    }
    return wording.fill(found.length ? text.found : search.isMix(words) ? text.mix : text.notKnown, values)
  },

  onInput({ detail: { value } }) {
    this.setData({ words: value.trim() })
    this.show()
  },

  onOrder({ currentTarget }) {
    this.setData({ order: currentTarget.dataset.order })
    this.show()
  },

  onBreed({ currentTarget }) {
    routes.go(routes.breed(currentTarget.dataset.id), this)
  },
})

/** By name or by size, and within it by name: in simplified characters that is pinyin, in traditional ones radicals and strokes, as Unicode has them. */
function sortedBreeds(all, order, language) {
  const toKey = { en: (name) => name.toLowerCase(), zh: pinyin.orderOf, 'zh-Hant': (name) => name }[language]
  const keyed = all.map((breed) => {
    const place = order === 'size' ? SIZES.indexOf(breed.size || '') : 0
    return { breed, place, key: toKey(wording.names(breed, language).main) }
  })
  keyed.sort((one, other) => one.place - other.place || (one.key < other.key ? -1 : one.key > other.key ? 1 : 0))
  return keyed.map(({ breed }) => breed)
}
