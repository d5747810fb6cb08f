/** What pages have alike whose contents come from the server: they are loading, then say what they show, or have failed. */
const waiting = require('./waiting')

/**
 * @param {string} state  name of the page's field
 * @param {(page: any) => Promise<any>} fetch  says what the page shows then; rejects with a Failure
 */
module.exports = (state, fetch) => ({
  /** @this {any} */
  onShow() {
    this.dress()
    waiting.send()
    if (this.data[state] === 'failed') this.load()
  },

  /** @this {any} */
  async load() {
    this.setData({ [state]: 'loading' })
    await fetch(this).catch(() => this.setData({ [state]: 'failed' }))
    this.show()
  },
})
