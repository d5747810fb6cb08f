/**
 * The commonest mixes of two breeds, by the words that people have for them. Which breeds there are the server knows: here
 * are the words by which a search finds those of the parents.
 */
const MIXES = `
labradoodle 拉布拉多德利 拉布拉多贵宾: labrador + standard poodle
goldendoodle 金毛贵宾 金贵犬: golden + standard poodle
cockapoo cockerpoo 可卡布 可卡贵宾: cocker + miniature poodle
cavapoo cavoodle 骑士贵宾: cavalier + miniature poodle
maltipoo maltepoo 马尔泰迪 马尔贵宾: maltese + toy poodle
schnoodle: miniature schnauzer + miniature poodle
yorkipoo yorkiepoo yoodle: yorkie + toy poodle
shihpoo: shih tzu + toy poodle
pomapoo: pomeranian + toy poodle
peekapoo: pekingese + toy poodle
poochon bichpoo bichonpoo: bichon + toy poodle
chipoo: chihuahua + toy poodle
pugapoo: pug + toy poodle
bernedoodle 伯恩贵宾: bernese + standard poodle
aussiedoodle: australian shepherd + standard poodle
sheepadoodle: old english sheepdog + standard poodle
sproodle springerdoodle: english springer + standard poodle
newfypoo newfydoodle: newfoundland + standard poodle
saintberdoodle: saint bernard + standard poodle
shepadoodle: german shepherd + standard poodle
whoodle: soft coated wheaten + miniature poodle
westiepoo: westie + miniature poodle
doodle: standard poodle
puggle 巴格尔: pug + beagle
beaglier: beagle + cavalier
cavachon: cavalier + bichon
cockalier: cocker + cavalier
morkie: maltese + yorkie
malshi: maltese + shih tzu
zuchon shichon: shih tzu + bichon
pomsky 哈士美 博美哈士奇: pomeranian + siberian husky
pomchi: pomeranian + chihuahua
chorkie: chihuahua + yorkie
chiweenie: chihuahua + wiener
chug: chihuahua + pug
bugg: boston terrier + pug
frug: french bulldog + pug
frenchton: french bulldog + boston terrier
dorgi: wiener + pembroke
horgi: siberian husky + pembroke
sprocker: english springer + cocker
springador: english springer + labrador
goldador: golden + labrador
borador: border collie + labrador
huskador labsky: siberian husky + labrador
goberian: golden + siberian husky
gerberian shepsky: german shepherd + siberian husky
alusky: malamute + siberian husky
`

/** @type {Map<string, string[]>}  name, as search.js folds it -> words for the parents' breeds */
const parents = new Map()
for (const line of MIXES.trim().split('\n')) {
  const [names, words] = line.split(': ')
  for (const name of names.split(' ')) parents.set(name, words.split(' + '))
}

/** Whoever has such a name has a poodle among its parents. */
const OF_POODLES = /^[a-z]{3,}(doodle|oodle|apoo|ipoo|ypoo)$/

/**
 * @param {string[]} names  what is searched as search.js folds it: all of it, then each word of it, as "mini goldendoodle" has two
 * @returns {string[] | null}  words for the breeds of the parents; null where it is no such mix
 */
function parentsOf(names) {
  const known = names.find((name) => parents.has(withoutEnding(name)))
  if (known) return parents.get(withoutEnding(known))
  return names.some((name) => OF_POODLES.test(name) && !name.endsWith('poodle')) ? parents.get('doodle') : null
}

/** Without the ending that a name may have: "labradoodles", "金毛贵宾犬". */
function withoutEnding(name) {
  return parents.has(name) ? name : name.replace(/(s|犬|狗)$/, '')
}

module.exports = { parentsOf }
