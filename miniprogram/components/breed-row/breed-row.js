/** One breed with its bar and percentage. It formats nothing: words and widths come ready from the page. */
Component({
  properties: {
    name: String,
    second: String,
    percent: String,
    width: Number,
  },
})
