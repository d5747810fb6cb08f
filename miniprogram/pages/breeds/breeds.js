/** All breeds that the server knows, by name or by size, found by a few letters; each leads to its page. */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const dogs = require('../../services/dogs')
const history = require('../../services/history')
const routes = require('../../services/routes')
const waiting = require('../../services/waiting')
const wording = require('../../services/wording')

/** The first characters of each letter's in the order of Pinyin. */
const PINYIN = Array.from('阿八嚓哒妸发旮哈讥咔垃痳拏噢妑七呥扨它穵夕丫帀')
const LETTERS = Array.from('ABCDEFGHJKLMNOPQRSTWXYZ')

const SIZES = ['toy', 'small', 'medium', 'large', 'giant', '']

Page({
  data: {
    theme: '',
    language: '',
    /** @type {any} */
    text: {},
    words: '',
    orders: ['name', 'size'],
    /** @type {'name' | 'size'} */
    order: 'name',
    /** @type {{title: string, breeds: {id: string, photo: string, focus: string, size: string, name: string, detail: string}[]}[]} */
    groups: [],
    /** Said where a search finds nothing, and how many breeds there are where nothing is searched. */
    line: '',
    /** @type {'loading' | 'shown' | 'failed'} */
    state: 'loading',
  },

  /** @type {import('../../services/breeds').Breed[]} */
  all: [],

  onLoad() {
    this.dress()
    return this.load()
  },

  onShow() {
    this.dress()
    waiting.send()
    if (this.data.state === 'failed') this.load()
    if (this.data.state === 'shown') this.show() // it may have been met meanwhile
  },

  dress() {
    if (appearance.dress(this, 'breeds')) this.show()
  },

  async load() {
    this.setData({ state: 'loading' })
    try {
      this.all = await breeds.all()
      this.setData({ state: 'shown' })
    } catch (failure) {
      this.setData({ state: 'failed' })
    }
    this.show()
  },

  show() {
    const { text, language, words, order } = /** @type {any} */ (this.data)
    const { sizes } = appearance.texts().pages.breed
    const name = (breed) => wording.names(breed, language).main
    const found = breeds.search(this.all, words).sort((one, other) => name(one).localeCompare(name(other), language))
    const snaps = history.list()
    const thumb = (breed) => dogs.ofBreed(snaps, breed.id).map(dogs.thumb)[0] || { photo: '', focus: '' }
    const toItem = (breed) => Object.assign({}, thumb(breed), { id: breed.id, size: breed.size || 'medium', name: name(breed), detail: breeds.inShort(breed, order === 'name' ? sizes : {}, language) })
    const group = (size) => ({
      title: sizes[size] || text.noSize,
      breeds: found.filter((breed) => (breed.size || '') === size).map(toItem),
    })
    const items = order === 'size' ? [] : found.map(toItem)
    const hasLetters = !words && language !== 'zh-Hant' // whose order is that of strokes
    const byName = hasLetters ? byLetter(items, language) : [{ title: '', breeds: items }]
    const groups = order === 'size' ? SIZES.map(group) : byName
    const none = breeds.isMix(words) ? text.mix : text.notKnown
    const met = this.all.filter(({ id }) => dogs.ofBreed(snaps, id).length).length
    const line = found.length ? (met && !words ? text.met : text.count) : words ? none : ''
    this.setData({
      groups: groups.filter(({ breeds: some }) => some.length),
      line: line && wording.fill(line, { words, met, count: found.length }),
    })
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
    routes.go(routes.breed(currentTarget.dataset.id))
  },
})

/** Items are in the order of their names, so those of one letter follow each other. */
function byLetter(items, language) {
  const groups = []
  for (const item of items) {
    const title = letterOf(item.name, language)
    const last = groups[groups.length - 1]
    if (last && last.title === title) last.breeds.push(item)
    else groups.push({ title, breeds: [item] })
  }
  return groups
}

function letterOf(name, language) {
  if (language !== 'zh') return name.charAt(0).toUpperCase()
  const later = PINYIN.findIndex((first) => first.localeCompare(name, language) > 0)
  return LETTERS[later < 0 ? LETTERS.length - 1 : Math.max(0, later - 1)]
}
