/** <button>: taps come from the page's own handler; open-type="share" asks the page for a card and shares it. */

/** Bubbles to the document, where share.js listens. */
export const SHARE_EVENT = 'wx-share'

export const button = {
  template: '<slot />',
  role: 'button',
  properties: { openType: String },
  lifetimes: {
    attached() {
      this.addListener('tap', () => {
        if (this.data.openType === 'share') this.$$.dispatchEvent(new CustomEvent(SHARE_EVENT, { bubbles: true }))
      })
    },
  },
}
