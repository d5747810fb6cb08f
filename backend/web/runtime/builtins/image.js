/**
 * <image>: a picture from a web address, a temporary file or the user's files. It has its own size, as in WeChat;
 * the picture is fitted into it by `mode`.
 */
import { urlOf } from '../wx/file_store.js'

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
  methods: {
    _load() {
      const { naturalWidth: width, naturalHeight: height } = this.$$.querySelector('img')
      this.triggerEvent('load', { width, height })
    },
    _fail() {
      if (this.data.url) this.triggerEvent('error', { errMsg: `image: cannot show ${this.data.src}` })
    },
  },
}

async function showSource(src) {
  const url = src ? await urlOf(src).catch(() => '') : ''
  if (src !== this.data.src) return // changed again while the file was being looked up
  this.setData({ url })
  if (src && !url) this.triggerEvent('error', { errMsg: `image: no such file ${src}` })
}
