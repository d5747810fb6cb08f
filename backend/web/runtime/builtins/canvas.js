/** <canvas type="2d">: a browser's canvas inside; wx.createSelectorQuery hands it out as the node to draw on. */
export const canvas = {
  template: '<html-canvas></html-canvas>',
  properties: { type: String, canvasId: String },
}
