/** <text>: inline text. */
export const text = {
  template: '<slot />',
  properties: { userSelect: Boolean },
}
