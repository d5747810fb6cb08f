/** A small picture of a photo, around its dog. The page gives it its size, and its height as --photo-height. */
Component({
  properties: {
    src: String,
    /** As frame.focus gives it; '' where no dog was seen. */
    focus: String,
  },
  data: { ratio: 0 },
  methods: {
    onLoad({ detail }) {
      this.setData({ ratio: detail.width / detail.height })
    },
  },
})
