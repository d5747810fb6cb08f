/**
 * <page-meta root-font-size="system">: in WeChat it makes 1rem follow the user's font size. A browser does that by
 * itself, so nothing is left to do here.
 */
export const pageMeta = {
  template: '',
  properties: { rootFontSize: String },
}
