/** What zh.js says otherwise where the classes are no breeds of dogs. */
module.exports = {
  tabs: { home: '识别', breeds: '能认出的' },
  pages: {
    home: { title: 'dogsnap', headline: '这是什么？', lead: '拍张照，马上知道是什么' },
    result: {
      frame: '框选一处',
      leads: { group: '很可能是下面几种之一，它们长得像' },
      oneLookAlike: '很可能是它，或与它相像的',
      mix: '这些长得并不像。',
      together: '根据 {count} 张照片判断',
      apartPhotos: '这些照片拍的不是同一样东西，每张的结果请看识别记录。',
      remarks: {
        unsure: '它长得有点像这些：',
        unknown: '它和我认识的都不太像。最接近的是：',
        no_dog: '这张照片里好像没有我认识的。',
      },
      about: '介绍',
      note: '只根据长相判断。',
      questions: { no_dog: '照片里真的没有列表里的东西吗？', unknown: '是列表里没有的吗？' },
    },
    frame: { title: '框选一处', hint: '拖动方框或它的四角，框住一样东西，也可以直接点它；双指可放大照片。只识别框里的部分，用的是原图的清晰度。' },
    correct: {
      title: '它是什么？',
      all: '其他',
      mixOf: '',
      verdicts: { mix: '', other: '列表里没有的', no_dog: '' },
    },
    breeds: {
      title: '能认出的',
      count: '能认出 {count} 种',
      mixOf: '',
      met: '共 {count} 种，你遇见过 {met} 种',
      mix: '没有找到“{words}”。',
    },
    breed: {
      title: '介绍',
      unknown: '没有它的介绍。',
      noFacts: '能认出它，但还没有它的资料。',
      lookAlikes: '容易混淆的',
    },
    history: { clearMetTitle: '删除遇见过的？', clearContent: '照片、结果和遇见过的都会从这台手机上删掉，无法恢复。' },
  },
  captions: {
    unknown: '可能是我不认识的',
    no_dog: '没看到认识的',
    alike: '相像的：{names}',
    orAlike: '{name}或与它相像的',
    oneOf: '{count} 种之一',
    probablyOneOf: '可能是 {count} 种之一',
    unknownShort: '不认识',
  },
  card: { app: 'dogsnap' },
}
