/** What en.js says otherwise where the classes are no breeds of dogs. */
module.exports = {
  common: { notKnown: 'Nothing called “{words}” is known here.' },
  tabs: { breeds: 'What it knows' },
  pages: {
    home: { headline: 'What is this?', lead: 'Snap something to learn what it is' },
    result: {
      frame: 'Frame a part',
      mix: 'These are not alike.',
      remarks: {
        unsure: 'It looks a bit like these:',
        unknown: 'It does not look quite like anything I know. The nearest are:',
        no_dog: 'There seems to be nothing in this photo that I know.',
      },
      about: 'About this',
      note: 'An estimate from looks.',
      noDogName: 'nothing that is known here',
      unknownName: 'something that is not here',
    },
    frame: {
      title: 'Frame a part',
      hint: 'Drag a frame around one thing, or tap it. Only that part is looked at, in full detail.',
    },
    correct: {
      title: 'What is it?',
      verdicts: { mix: '', other: 'Something that is not here', no_dog: '' },
    },
    breeds: {
      title: 'What it knows',
      count: 'Things that the app knows: {count}',
      mix: 'Nothing called “{words}” is known here.',
    },
    breed: {
      title: 'About this',
      shareTitle: 'Good to know: {name}',
    },
    history: { snap: 'Snap something' },
  },
  captions: {
    unknown: 'Perhaps something I do not know',
    no_dog: 'Nothing known seen',
    oneOf: 'One of {count}',
    probablyOneOf: 'Probably one of {count}',
    unknownShort: 'Unknown',
  },
}
