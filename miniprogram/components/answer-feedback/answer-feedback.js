/** Asks whether an answer is right, or shows what was said of it. It tells the page what was tapped. */
Component({
  properties: {
    /** As view.js makes it. @type {ObjectConstructor} */
    answer: Object,
    text: Object,
  },
  methods: {
    tell({ currentTarget: { dataset } }) {
      this.triggerEvent(dataset.event)
    },
  },
})
