/**
 * <page-meta root-font-size="system" lang="zh">. In WeChat the first makes 1rem follow the user's font size; a browser
 * does that by itself. `lang` is how a screen reader pronounces the page; WeChat takes no notice of it.
 */
export const pageMeta = {
  template: '',
  properties: { rootFontSize: String, lang: String },
  observers: [
    {
      fields: 'lang',
      observer(lang) {
        if (lang) document.documentElement.lang = lang
      },
    },
  ],
}
