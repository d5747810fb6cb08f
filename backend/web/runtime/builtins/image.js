/**
 * <image>: a picture from a web address, a temporary file or the user's files. It has its own size, as in WeChat;
 * the picture is fitted into it by `mode`.
 */
import { addressOf } from '../wx/file_store.js'

const FITS = { scaleToFill: 'fill', aspectFit: 'contain', aspectFill: 'cover' }

export const image = {
  template:
    '<html-img loading="{{lazyLoad ? \'lazy\' : \'eager\'}}" src="{{url}}" class="wx-image-{{fit}}" alt="" ' +
    'draggable="false" catch:load="_load" catch:error="_fail" />',
  properties: { src: String, mode: { type: String, value: 'scaleToFill' }, lazyLoad: Boolean },
  data: { url: '', fit: 'fill' },
  observers: [
    { fields: 'src', observer: showSource },
    {
      fields: 'mode',
      observer(mode) {
        this.setData({ fit: FITS[mode] })
      },
    },
  ],
  lifetimes: {
    detached() {
      this.isDetached = true
      this.address?.release()
    },
  },
  methods: {
    _load() {
      if (this.isDetached) return // its page was left meanwhile
      const { naturalWidth: width, naturalHeight: height } = this.$$.querySelector('img')
      this.triggerEvent('load', { width, height })
    },
    _fail() {
      if (this.data.url) this.triggerEvent('error', { errMsg: `image: cannot show ${this.data.src}` })
    },
  },
}

const NONE = { url: '', release() {} }

async function showSource(src) {
  const address = src ? await addressOf(src).catch(() => NONE) : NONE
  if (src !== this.data.src || this.isDetached) return address.release() // changed again while the file was being looked up
  const before = this.address
  this.address = address
  this.setData({ url: address.url })
  before?.release()
  if (src && !address.url) this.triggerEvent('error', { errMsg: `image: no such file ${src}` })
}
