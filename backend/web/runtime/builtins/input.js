/** <input>: one line of text, without formats or focus control; each change is told as in WeChat, with {value}; what is still being composed is none. */
export const input = {
  template:
    '<html-input type="text" inputmode="{{confirmType === \'search\' ? \'search\' : \'text\'}}" value="{{value}}" ' +
    'placeholder="{{placeholder}}" aria-label="{{ariaLabel}}" maxlength="{{maxlength}}" catch:input="_input" ' +
    'catch:compositionstart="_compose" catch:compositionend="_finish" />',
  properties: {
    value: String,
    placeholder: String,
    confirmType: { type: String, value: 'done' },
    maxlength: { type: Number, value: 140 },
  },
  methods: {
    _compose() {
      this.isComposing = true
    },
    _finish() {
      this.isComposing = false
      this._input()
    },
    _input() {
      if (this.isComposing) return
      const { value } = this.$$.querySelector('input')
      this.setData({ value })
      this.triggerEvent('input', { value })
    },
  },
}
