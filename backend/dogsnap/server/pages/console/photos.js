// Photos on two versions, side by side: those that differ first. The server stores nothing of them.

import { all, ask, element, one, shown } from "./ask.js";

const MOST = 20, SHOWN = 3;

async function classify(photo, model, version) {
  const query = new URLSearchParams({ model, version, top_k: SHOWN });
  const started = performance.now();
  const answer = await (await ask(`api/classify?${query}`, { method: "POST", body: photo })).json();
  return { ...answer, version, milliseconds: performance.now() - started };
}

const first = ({ level, breeds }) => (level === "no_dog" ? "no dog" : breeds[0]?.name);

function side({ version, breeds, level, box, milliseconds }, address) {
  const frame = element("div", element("img", [], { src: address, alt: "" }), { className: "frame" });
  if (box) {
    const [left, top, right, bottom] = box.map((edge) => 100 * edge);
    frame.append(element("i", [], { style: `inset: ${top}% ${100 - right}% ${100 - bottom}% ${left}%` }));
  }
  const names = breeds.slice(0, SHOWN).map(({ name, probability }) => element("li", `${name} ${(100 * probability).toFixed(1)} %`));
  const claim = `${level === "breed" ? "names a breed" : level.replace("_", " ")}, ${milliseconds.toFixed(0)} ms`;
  const words = [element("h4", `version ${version}`), element("ol", names), element("p", claim, { className: "note" })];
  return element("div", [frame, element("div", words)], { className: "side" });
}

// A row, whose class says what was found.
async function tryPhoto(photo, model, versions) {
  const title = element("h3", `${photo.name} `);
  try {
    const answers = [];
    for (const version of versions) answers.push(await classify(photo, model, version)); // one by one, for their times' sake
    const address = URL.createObjectURL(photo);
    const found = first(answers[0]) === first(answers[1]) ? "same" : "different";
    title.append(element("span", found, { className: "chip" }));
    return element("li", [title, ...answers.map((answer) => side(answer, address))], { className: found });
  } catch ({ message }) {
    return element("li", [title, element("p", message, { className: "bad sentence" })]);
  }
}

one("#try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [outcome, list, button] = [one("#outcome"), one("#tried"), one("#try button")];
  const chosen = [...one("#photos").files], photos = chosen.slice(0, MOST), left = chosen.length - photos.length;
  const versions = [one("#first").value, one("#second").value], { model } = shown(); // meanwhile the page may show another one
  for (const picture of all("img", list)) URL.revokeObjectURL(picture.src);
  list.replaceChildren();
  button.disabled = true;
  for (const photo of photos) {
    outcome.textContent = `Photo ${list.children.length + 1} of ${photos.length} …`;
    const row = await tryPhoto(photo, model, versions);
    list.insertBefore(row, row.className === "different" ? one("#tried > :not(.different)") : null);
  }
  const [different, same, bad] = [".different", ".same", ".bad"].map((kind) => all(kind, list).length);
  outcome.textContent = `Different first answers: ${different} of ${different + same}.`;
  if (bad) outcome.append(` Without an answer, at the end: ${bad}.`);
  if (left) outcome.append(` ${left} more were left out.`);
  button.disabled = false;
});
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return; // text for a field
  event.preventDefault();
  one("#photos").files = event.dataTransfer.files;
  one("#try button").click();
});
