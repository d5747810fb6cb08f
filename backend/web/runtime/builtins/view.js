/** <view>: a box. hover-class is accepted and left to CSS :active. */
export const view = {
  template: '<slot />',
  properties: { hoverClass: String },
}
