/** All breeds that the server knows, by name or by size, found by a few letters; each leads to its page. */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const routes = require('../../services/routes')
const waiting = require('../../services/waiting')
const wording = require('../../services/wording')

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
    /** @type {{title: string, breeds: {id: string, name: string, detail: string}[]}[]} */
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
    const toItem = (breed) => ({ id: breed.id, name: name(breed), detail: detail(breed, order === 'name' ? sizes : {}, language) })
    const group = (size) => ({
      title: sizes[size] || text.noSize,
      breeds: found.filter((breed) => (breed.size || '') === size).map(toItem),
    })
    const groups = order === 'size' ? SIZES.map(group) : [{ title: '', breeds: found.map(toItem) }]
    const none = breeds.isMix(words) ? text.mix : text.notKnown
    const line = found.length ? text.count : words ? none : ''
    this.setData({
      groups: groups.filter(({ breeds: some }) => some.length),
      line: line && wording.fill(line, { words, count: found.length }),
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

/** What is known in a few words: the other language's name, size where no heading says it, and origin. */
function detail(breed, sizes, language) {
  const { second } = wording.names(breed, language)
  return [second, sizes[breed.size], breed.origin && breed.origin[language]].filter(Boolean).join(' · ')
}
