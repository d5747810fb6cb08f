/** What an answer says, in a card: of which dog, the breed or the candidates, and what tells them apart. Its slot is the end of the first card. */
Component({
  properties: {
    /** As view.js makes it. @type {ObjectConstructor} */
    answer: Object,
    /** Its breeds, the likeliest first: `rows` of view.js. */
    rows: Array,
    text: Object,
    language: String,
  },
  data: { isInfoShown: false },
  methods: {
    onInfo() {
      this.setData({ isInfoShown: !this.data.isInfoShown })
    },
    tell({ currentTarget: { dataset } }) {
      this.triggerEvent(dataset.event, dataset)
    },
  },
})
