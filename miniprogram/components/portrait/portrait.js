/** The drawn head of a breed. The page gives it its size, as --side. */
const { draw } = require('../../services/portrait')

Component({
  properties: {
    /** As /api/breeds has it; null for a breed of which that is not known. @type {ObjectConstructor} */
    looks: Object,
    size: String,
  },
  data: { picture: '' },
  observers: {
    'looks, size'(looks, size) {
      this.setData({ picture: `data:image/svg+xml,${encodeURIComponent(drawn(looks || {}, size))}` })
    },
  },
})

/** A newer server may know looks that this app does not: then the head is plain. */
function drawn(looks, size) {
  try {
    return draw(looks, size)
  } catch (unknown) {
    return draw({}, size)
  }
}
