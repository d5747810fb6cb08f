/** A small picture of a photo, around its dog; where the phone has cleared its file, that of a photo that is missing. The page gives it its size, and its height as --photo-height. */
Component({
  properties: {
    src: String,
    /** As frame.focus gives it; '' where no dog was seen. */
    focus: String,
  },
  data: { ratio: 0, isGone: false },
  observers: {
    src() {
      this.setData({ isGone: false })
    },
  },
  methods: {
    onLoad({ detail }) {
      this.setData({ ratio: detail.width / detail.height })
    },
    onError() {
      this.setData({ isGone: true })
    },
  },
})
