/** What en.js says otherwise where the classes are no breeds of dogs. */
module.exports = {
  common: { notKnown: 'Nothing called “{words}” is known here.' },
  tabs: { breeds: 'What it knows' },
  pages: {
    home: { headline: 'What is this?', lead: 'Snap something to learn what it is' },
    result: {
      frame: 'Frame a part',
      mix: "These don't look alike.",
      together: 'Based on {count} photos',
      apartPhotos: 'These photos show different things. Each has its own answer in the history.',
      remarks: {
        unsure: 'It looks a bit like these:',
        unknown: "It doesn't quite look like anything I know. The closest are:",
        no_dog: "I can't see anything I know in this photo.",
      },
      about: 'About this',
      onPhone: { means: "The server didn't answer, so this phone did. It is less sure, and names only one thing." },
      note: 'Based on looks alone.',
      questions: { no_dog: 'Is there really nothing from the list here?', unknown: "Is it something that's not listed?" },
    },
    frame: {
      title: 'Frame a part',
      hint: 'Drag the frame or its corners until one thing is inside, or tap it. Pinch to zoom in. Only what is inside is looked at, in full detail.',
    },
    correct: {
      title: 'What is it?',
      all: 'Everything else',
      mixOf: '',
      verdicts: { mix: '', other: "Something that's not listed", no_dog: '' },
    },
    breeds: {
      title: 'What it knows',
      count: 'Things the app knows: {count}',
      mixOf: '',
      mix: 'Nothing called “{words}” is known here.',
    },
    breed: {
      title: 'About this',
      unknown: 'There is no page about this.',
      noFacts: 'The app can recognise this, but has no facts about it yet.',
      shareTitle: 'Good to know: {name}',
    },
    history: {
      snap: 'Snap something',
      clearMetTitle: 'Delete what you have met?',
      clearContent: 'Photos, results and what you have met will be deleted from this phone, for good.',
    },
  },
  captions: {
    unknown: "Perhaps something I don't know",
    no_dog: 'Nothing I recognise',
    oneOf: 'One of {count}',
    probablyOneOf: 'Probably one of {count}',
    unknownShort: 'Unknown',
  },
}
