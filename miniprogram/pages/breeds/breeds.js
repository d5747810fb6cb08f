/** All breeds that the server knows, by name or by size, found by a few letters; each leads to its page. */
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const dogs = require('../../services/dogs')
const history = require('../../services/history')
const { texts } = require('../../services/language')
const loading = require('../../services/loading')
const routes = require('../../services/routes')
const wording = require('../../services/wording')

/** The first characters of each letter's in the order of Pinyin. */
const PINYIN = Array.from('阿八嚓哒妸发旮哈讥咔垃痳拏噢妑七呥扨它穵夕丫帀')
const LETTERS = Array.from('ABCDEFGHJKLMNOPQRSTWXYZ')

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

  dress() {
    appearance.dress(this, 'breeds')
    this.show() // a breed may have been met meanwhile
  },

  show() {
    const { text, language, words, order } = this.data
    const { sizes } = texts().pages.breed
    const name = (breed) => wording.names(breed, language).main
    const place = (breed) => (order === 'size' ? SIZES.indexOf(breed.size || '') : 0)
    const compare = (one, other) => place(one) - place(other) || name(one).localeCompare(name(other), language)
    const found = breeds.search(this.all, words).sort(compare)
    const hasLetters = !words && language !== 'zh-Hant' // whose order is that of strokes
    const bySize = (breed) => sizes[breed.size] || text.noSize
    const byName = (breed) => (hasLetters ? letterOf(name(breed), language) : '')
    const snaps = history.list()
    const thumb = (breed) => dogs.ofBreed(snaps, breed.id).map(dogs.thumb)[0] || { photo: '', focus: '' }
    const toItem = (breed) => Object.assign({}, thumb(breed), { id: breed.id, size: breed.size || 'medium', name: name(breed), detail: breeds.inShort(breed, order === 'name' ? sizes : {}, language) })
    const groups = wording.groups(found, order === 'size' ? bySize : byName)
    const none = breeds.isMix(words) ? text.mix : text.notKnown
    const met = this.all.filter(({ id }) => dogs.ofBreed(snaps, id).length).length
    const line = found.length ? (met && !words ? text.met : text.count) : words ? none : ''
    this.setData({
      groups: groups.map(([title, some]) => ({ title, breeds: some.map(toItem) })),
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

function letterOf(name, language) {
  if (language !== 'zh' || /^[a-z]/i.test(name)) return name.charAt(0).toUpperCase()
  const later = PINYIN.findIndex((first) => first.localeCompare(name, language) > 0)
  return LETTERS[later < 0 ? LETTERS.length - 1 : Math.max(0, later - 1)]
}
