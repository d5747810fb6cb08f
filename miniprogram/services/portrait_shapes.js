/** The shapes of which portrait.js draws heads of dogs, on a sheet of 200 by 200. They are data: points, paths, and where they belong. */

const COLOURS = {
  white: '#fbf5ea', cream: '#f2dfba', lemon: '#eccb83', wheaten: '#e2bd82', gold: '#d99a4c', apricot: '#dd9f68', fawn: '#d3a36e',
  tan: '#bd7838', rust: '#a3562a', red: '#b4602c', mahogany: '#7c3a20', orange: '#d9833a', liver: '#5f3b2a', chocolate: '#4b2f23',
  black: '#302c2d', blue: '#5f6c7b', grey: '#8c8e8e', silver: '#bdbab5', slate: '#4c5157', sable: '#8f5d35', mouse: '#9b8d84',
  pepper: '#77777a', pink: '#e3a59b', amber: '#b97a26', ice: '#7fb6dd', dark: '#2a211e',
}

/** On these a dark eye, or a darker part, would not be seen. */
const DARK = ['black', 'chocolate', 'slate', 'liver']

/** The right half, from the top to the chin: distance from the middle, and y; and how far the eyes are from the middle. */
const HEADS = {
  medium: { half: [[0, 40], [27, 46], [46, 66], [49, 92], [43, 118], [30, 142], [15, 156], [0, 159]], eyes: 24 },
  round: { half: [[0, 41], [32, 48], [54, 74], [57, 102], [49, 128], [33, 147], [16, 154], [0, 156]], eyes: 30 },
  apple: { half: [[0, 34], [34, 40], [56, 68], [54, 100], [41, 126], [26, 144], [13, 151], [0, 153]], eyes: 29 },
  broad: { half: [[0, 47], [35, 52], [58, 70], [63, 98], [58, 128], [43, 150], [22, 160], [0, 161]], eyes: 29 },
  long: { half: [[0, 42], [19, 45], [34, 64], [36, 88], [29, 116], [20, 144], [12, 166], [0, 171]], eyes: 17 },
  square: { half: [[0, 50], [26, 50], [38, 58], [40, 90], [38, 122], [36, 148], [26, 164], [0, 167]], eyes: 18 },
  wedge: { half: [[0, 47], [24, 51], [46, 64], [55, 92], [46, 116], [28, 141], [15, 158], [0, 162]], eyes: 23 },
  domed: { half: [[0, 34], [24, 39], [42, 60], [44, 88], [39, 116], [30, 144], [18, 160], [0, 164]], eyes: 20 },
}

/** A longer muzzle has its nose lower: it points at who looks. Half widths above and below; `nose` is its y. */
const MUZZLES = {
  flat: { top: 98, bottom: 152, above: 30, below: 36, nose: 104, width: 13, hangs: true },
  short: { top: 110, bottom: 155, above: 22, below: 26, nose: 117, width: 11 },
  medium: { top: 102, bottom: 162, above: 22, below: 30, nose: 120, width: 12 },
  long: { top: 96, bottom: 170, above: 18, below: 23, nose: 138, width: 11 },
  narrow: { top: 88, bottom: 174, above: 12, below: 15, nose: 152, width: 9 },
  broad: { top: 104, bottom: 164, above: 28, below: 37, nose: 121, width: 14 },
  heavy: { top: 98, bottom: 172, above: 26, below: 40, nose: 120, width: 15, hangs: true },
  square: { top: 100, bottom: 168, above: 24, below: 31, nose: 120, width: 12 },
  pointed: { top: 102, bottom: 164, above: 18, below: 17, nose: 138, width: 9 },
}

/** The right ear; `corner`: the place of its tip; `behind` the head or before it; `inner`: what is seen of its inside; `flap`: what falls over. */
const EARS = {
  prick: { points: [[112, 58], [122, 34], [142, 10], [153, 40], [150, 86]], corner: 2, behind: true, inner: [[124, 58], [132, 38], [142, 24], [147, 44], [145, 76]] },
  bat: { points: [[114, 62], [114, 30], [124, 8], [142, 8], [154, 36], [150, 86]], behind: true, inner: [[123, 60], [123, 34], [130, 18], [139, 18], [146, 40], [144, 76]] },
  flared: { points: [[118, 62], [132, 34], [174, 14], [178, 46], [154, 92]], corner: 2, behind: true, inner: [[132, 62], [142, 42], [168, 26], [170, 46], [152, 80]] },
  tall: { points: [[108, 56], [112, 24], [126, -8], [142, 20], [142, 76]], corner: 2, behind: true, inner: [[117, 56], [119, 28], [126, 8], [134, 28], [135, 66]] },
  round: { points: [[116, 62], [122, 24], [146, 8], [174, 24], [176, 56], [152, 84]], behind: true, inner: [[130, 60], [134, 34], [147, 22], [162, 34], [162, 56], [150, 70]] },
  butterfly: { points: [[116, 60], [130, 22], [166, 6], [184, 40], [180, 92], [152, 92]], behind: true, inner: [[132, 60], [142, 34], [164, 22], [170, 50], [152, 80]] },
  tipped: { points: [[112, 60], [120, 34], [136, 22], [150, 36], [150, 84]], behind: true, flap: [[122, 33], [136, 21], [152, 36], [154, 54], [140, 46]] },
  rose: { points: [[134, 62], [146, 44], [168, 48], [172, 62], [160, 66], [150, 84]], corner: 2, behind: true },
  button: { points: [[112, 56], [120, 42], [148, 40], [158, 58], [150, 90], [136, 76]], corner: 4 },
  fold: { points: [[128, 52], [150, 46], [166, 66], [164, 100], [154, 112], [142, 92], [136, 70]], corner: 4 },
  drop: { points: [[124, 48], [152, 46], [168, 74], [170, 112], [158, 132], [144, 122], [138, 90]] },
  long: { points: [[126, 56], [152, 56], [170, 92], [174, 140], [164, 170], [148, 166], [140, 130], [138, 90]] },
  low: { points: [[138, 78], [156, 76], [172, 112], [178, 160], [170, 188], [152, 184], [144, 150], [140, 112]] },
}

/** How an ear's hair is said: the coat of its edge. */
const EAR_COATS = { feathered: 'silky', curly: 'curly', shaggy: 'shaggy', corded: 'corded' }
const EAR_SIZES = { small: 0.74, large: 1.22 }
const TASSEL = [[150, 128], [164, 124], [174, 140], [172, 164], [156, 170], [146, 150]]

/** On the head, and kept to it: the path of the right side where it is on `both`, else all of it. */
const MARKS = {
  muzzlemask: { path: 'M62 176C60 130 72 106 100 104C128 106 140 130 138 176Z' },
  blaze: { path: 'M92 30H108C106 62 112 88 128 112L136 176H64L72 112C88 88 94 62 92 30Z' },
  stripe: { path: 'M96 30H104C103 70 106 90 112 108H88C94 90 97 70 96 30Z' },
  wideblaze: { path: 'M84 30H116C110 66 120 92 142 116V176H58V116C80 92 90 66 84 30Z' },
  hood: { path: 'M30 20H170V128C150 138 136 112 126 112C116 108 106 98 100 92C94 98 84 108 74 112C64 112 50 138 30 128Z' },
  crown: { path: 'M30 20H170V72C140 66 120 70 100 78C80 70 60 66 30 72Z' },
  widow: { path: 'M30 20H170V110C156 92 146 74 128 72C116 74 108 96 100 96C92 96 84 74 72 72C54 74 44 92 30 110Z' },
  eyepatch: { path: 'M112 60C134 48 156 62 156 92C152 116 128 116 114 106C106 92 104 70 112 60Z' },
  eyepatches: { path: 'M112 56C138 44 160 60 158 96C152 122 126 116 116 102C108 88 106 66 112 56Z', both: true },
  sides: { path: 'M116 30C108 66 118 92 134 110C140 130 150 140 168 128V30Z', both: true },
  cheeks: { path: 'M128 108C150 100 170 120 150 156C128 164 118 150 116 134Z', both: true },
  jowls: { path: 'M124 112C150 104 160 130 140 152C120 166 110 160 108 140Z', both: true },
  brows: { path: 'M108 80C112 70 126 68 132 78C126 78 116 84 108 86Z', both: true },
  pips: { path: 'M112.5 78a6.5 5 0 1 0 13 0a6.5 5 0 1 0 -13 0Z', both: true },
  goggles: { path: 'M107 94a17 15 0 1 0 34 0a17 15 0 1 0 -34 0Z', both: true },
  spectacles: { path: 'M114 84Q132 70 150 82L148 87Q132 76 116 89ZM108 92a14 11 0 1 0 28 0a14 11 0 1 0 -28 0Z', both: true },
}

/** Hair over the head; `layer`: after what it is drawn; on `both` sides, or the right half of what lies in the middle. */
const HAIR = {
  halo: { half: [[0, 12], [38, 18], [68, 54], [72, 100], [58, 142], [30, 164], [0, 168]], coat: 'curly', layer: 'ears' },
  beard: { half: [[0, 126], [18, 128], [34, 134], [36, 158], [28, 182], [12, 192], [0, 194]], coat: 'shaggy', layer: 'head' },
  goatee: { half: [[0, 148], [12, 150], [14, 166], [8, 182], [0, 186]], coat: 'wire', layer: 'head' },
  moustache: { both: [[100, 120], [116, 118], [136, 132], [142, 152], [124, 156], [106, 148]], coat: 'shaggy', layer: 'muzzle' },
  brows: { both: [[106, 82], [118, 70], [138, 74], [144, 92], [130, 90], [116, 90]], coat: 'wire', layer: 'eyes' },
  fall: { half: [[0, 36], [26, 40], [44, 60], [46, 90], [38, 106], [20, 108], [0, 104]], coat: 'shaggy', layer: 'eyes', hides: true },
  lamb: { half: [[0, 16], [24, 20], [36, 44], [32, 72], [18, 100], [13, 132], [0, 140]], coat: 'curly', layer: 'eyes' },
  parting: { both: [[101, 40], [128, 44], [150, 74], [156, 116], [146, 150], [132, 120], [118, 84]], coat: 'silky', layer: 'all' },
  topknot: { half: [[0, 14], [24, 18], [40, 38], [38, 60], [20, 68], [0, 66]], coat: 'curly', layer: 'all' },
  pompon: { half: [[0, 2], [30, 6], [48, 30], [46, 58], [26, 72], [0, 70]], coat: 'curly', layer: 'all' },
  tuft: { half: [[0, 20], [12, 24], [18, 42], [12, 58], [0, 60]], coat: 'shaggy', layer: 'all' },
  silk: { half: [[0, 28], [20, 30], [34, 46], [34, 66], [18, 72], [0, 66]], coat: 'silky', layer: 'all' },
  crest: { half: [[0, 26], [20, 30], [30, 46], [22, 62], [0, 68]], coat: 'shaggy', layer: 'all' },
  roach: { half: [[0, 22], [26, 26], [40, 48], [40, 70], [22, 80], [0, 84]], coat: 'curly', layer: 'all' },
  tail: { half: [[0, 8], [12, 6], [22, 20], [8, 38], [0, 40]], coat: 'silky', layer: 'all', ribbon: true },
}

/** What hangs over the eyes of a corded coat. */
const CORDS = 'M64 62Q62 84 64 112M73 60Q74 84 73 117M82 57Q80 84 82 122M91 54Q92 84 91 112M100 50Q98 84 100 117M109 54Q110 84 109 122M118 57Q116 84 118 112M127 60Q128 84 127 117M136 62Q134 84 136 122'

const NECK = [[0, 140], [32, 146], [48, 172], [60, 214], [0, 220]]
const CHEST = [[0, 150], [20, 156], [30, 180], [26, 214], [0, 220]]
const COLLAR = 'M65 158C82 178 118 178 135 158L141 174C120 192 80 192 59 174Z'
const MANES = { small: { wide: 0.8, top: 74 }, medium: { wide: 1, top: 44 }, large: { wide: 1.12, top: 30 } }
const WRINKLES = 'M84 66q16 -7 32 0M80 76q20 -8 40 0M92 56q8 -4 16 0M118 108q12 6 14 22M82 108q-12 6 -14 22'

module.exports = { COLOURS, DARK, HEADS, MUZZLES, EARS, EAR_COATS, EAR_SIZES, TASSEL, MARKS, HAIR, CORDS, NECK, CHEST, COLLAR, MANES, WRINKLES }
