/**
 * What to know about one breed. Its states: loading, shown, unknown (no such breed), failed (no connection and nothing
 * kept). It holds no facts: breeds.js gets them from the server.
 */
const { baseUrl } = require('../../config')
const appearance = require('../../services/appearance')
const breeds = require('../../services/breeds')
const dogs = require('../../services/dogs')
const history = require('../../services/history')
const loading = require('../../services/loading')
const routes = require('../../services/routes')
const wording = require('../../services/wording')

const MOST_SNAPS = 8

const SIZES = ['toy', 'small', 'medium', 'large', 'giant']

Page({
  ...loading('state', async (page) => {
    page.all = await breeds.all()
  }),
  data: {
    ...appearance.DATA,
    /** @type {'loading' | 'shown' | 'unknown' | 'failed'} */
    state: 'loading',
    /** @type {any} */
    breed: {},
    /** The user's own, newest first. @type {ReturnType<typeof dogs.thumb>[]} */
    snaps: [],
  },

  breedId: '',
  /** @type {import('../../services/breeds').Breed[] | null}  once they are there */
  all: null,

  onLoad({ id }) {
    this.breedId = id || ''
    this.dress()
    return this.load()
  },

  dress() {
    if (appearance.dress(this, 'breed')) this.show()
  },

  show() {
    if (!this.all) return
    const breed = this.all.find(({ id }) => id === this.breedId)
    if (!breed) return this.setData({ state: 'unknown' })
    const view = toView(breed, this.all, this.data)
    const snaps = (dogs.thumbsByBreed(history.list()).get(this.breedId) || []).slice(0, MOST_SNAPS)
    this.setData({ state: 'shown', breed: view, snaps })
    appearance.entitle(this, view.name)
  },

  onRetry() {
    return this.load()
  },

  onBack() {
    routes.back()
  },

  onSnap({ currentTarget }) {
    routes.go(routes.result(currentTarget.dataset.id), this)
  },

  onLookAlike({ currentTarget }) {
    routes.go(routes.breed(currentTarget.dataset.id), this)
  },

  shareTitle() {
    return wording.fill(this.data.text.shareTitle, this.data.breed)
  },

  onShareAppMessage() {
    return { title: this.shareTitle(), path: routes.breed(this.breedId) }
  },

  onShareTimeline() {
    return { title: this.shareTitle(), query: `id=${this.breedId}` }
  },
})

/**
 * @param {import('../../services/breeds').Breed} breed
 * @param {import('../../services/breeds').Breed[]} all
 * @param {{text: any, language: import('../../services/language').Language}} dress
 */
function toView(breed, all, { text, language }) {
  const { main, second } = wording.names(breed, language)
  const others = wording.choose({ en: breed.other_names, zh: breed.other_names_zh }, language)
  return {
    name: main,
    second,
    others: wording.list(others || [], language),
    wild: breed.wild,
    picture: picture(breed, text),
    looks: breed.looks || null,
    size: breed.size || '',
    sizes: SIZES.map((size) => ({ size, current: size === breed.size })),
    sizeName: text.sizes[breed.size],
    facts: facts(breed, text, language),
    temperament: wording.choose(breed.temperament, language) || [],
    passages: passages(breed, text, language),
    lookAlikes: all
      .filter(({ id }) => (breed.look_alikes || []).includes(id))
      .map((other) => ({ id: other.id, looks: other.looks || null, size: other.size || '', name: wording.names(other, language).main })),
  }
}

/** Never without its author. @param {import('../../services/breeds').Breed} breed */
function picture({ image }, text) {
  return image && image.author ? { src: image.url || baseUrl + image.path, credit: wording.fill(text.credit, image) } : null
}

/** What is known, as label and value; what is not known is left out. */
function facts(breed, text, language) {
  return [
    { label: text.origin, value: wording.choose(breed.origin, language) },
    { label: text.weight, value: breed.weight_kg && wording.fill(text.kg, { range: wording.range(breed.weight_kg) }) },
    { label: text.height, value: breed.height_cm && wording.fill(text.cm, { range: wording.range(breed.height_cm) }) },
    {
      label: text.life,
      value: breed.life_span_years && wording.fill(text.years, { range: wording.range(breed.life_span_years) }),
    },
  ].filter(({ value }) => value)
}

function passages(breed, text, language) {
  return [
    { title: '', body: wording.choose(breed.description, language) },
    { title: text.coat, body: wording.choose(breed.coat, language) },
    { title: text.care, body: wording.choose(breed.care, language) },
  ].filter(({ body }) => body)
}
