/** The photo of a snap with a box around each dog, and what can be done with it. It tells the page what was tapped. */
Component({
  properties: {
    src: String,
    /** Why it is not seen, as a sentence; '' while it is. */
    problem: String,
    /** Of the page: the buttons need an answer. */
    state: String,
    /** As view.js makes it; null before. @type {ObjectConstructor} */
    answer: Object,
    /** Whether the photo moves to its dog once that is found. */
    zooms: Boolean,
    text: Object,
  },
  /** Width divided by height; 0 until the photo is loaded. */
  data: { ratio: 0 },
  observers: {
    src() {
      this.setData({ ratio: 0 })
    },
  },
  methods: {
    onLoad({ detail }) {
      this.setData({ ratio: detail.width / detail.height })
    },
    tell({ currentTarget: { dataset } }) {
      this.triggerEvent(dataset.event, dataset)
    },
  },
})
