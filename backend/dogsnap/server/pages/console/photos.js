// Photos on two versions, side by side: those that differ first. The server stores nothing of them.

import { all, ask, capital, element, one, Refused } from "./ask.js";

const MOST = 20, SHOWN = 3;
const chosen = (select) => ({ model: one("#glance [data-model]").dataset.model, version: select.value });

async function classify(photo, { model, version }) {
  const query = new URLSearchParams({ model, version, top_k: SHOWN });
  const headers = { "Content-Type": photo.type || "application/octet-stream" };
  const started = performance.now();
  const answer = await (await ask(`api/classify?${query}`, { method: "POST", headers, body: photo })).json();
  return { ...answer, milliseconds: performance.now() - started };
}

const first = ({ level, breeds }) => (level === "no_dog" ? "no dog" : breeds[0]?.name);

function side(answer, address) {
  const { model, breeds, level, box, milliseconds } = answer;
  const picture = element("img", [], { src: address, alt: "" });
  const frame = element("div", picture, { className: "frame" });
  if (box) {
    const [left, top, right, bottom] = box.map(Number);
    const rect = `<rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}"/>`;
    frame.insertAdjacentHTML("beforeend", `<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true">${rect}</svg>`);
  }
  const names = breeds.slice(0, SHOWN).map(({ name, probability }) => element("li", `${name} ${(100 * probability).toFixed(1)} %`));
  const claim = `${level === "breed" ? "names a breed" : level.replace("_", " ")}, ${milliseconds.toFixed(0)} ms`;
  const words = [element("h4", `version ${model.version}`), element("ol", names), element("p", claim, { className: "note" })];
  return element("div", [frame, element("div", words)], { className: "side" });
}

async function tryPhoto(photo, versions) {
  const title = element("h3", photo.name);
  try {
    const answers = [];
    for (const version of versions) answers.push(await classify(photo, version)); // one by one, for their times' sake
    const address = URL.createObjectURL(photo), differs = first(answers[0]) !== first(answers[1]);
    title.append(" ", element("span", differs ? "different" : "same", { className: "chip" }));
    return { row: element("li", [title, ...answers.map((answer) => side(answer, address))]), differs, answers };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { row: element("li", [title, element("p", capital(error.message), { className: "bad" })]), differs: true, answers: [] };
  }
}

async function tryAll(photos) {
  const [outcome, list, button] = [one("#outcome"), one("#tried"), one("#try button")];
  const versions = [one("#first"), one("#second")].map(chosen);
  for (const picture of all("img", list)) URL.revokeObjectURL(picture.src);
  list.replaceChildren();
  button.disabled = true;
  const tried = [];
  try {
    for (const photo of photos.slice(0, MOST)) {
      outcome.textContent = `Photo ${tried.length + 1} of ${Math.min(MOST, photos.length)} …`;
      tried.push(await tryPhoto(photo, versions));
      tried.sort((a, b) => b.differs - a.differs);
      list.replaceChildren(...tried.map(({ row }) => row));
    }
    const both = tried.filter(({ answers }) => answers.length), differ = both.filter(({ differs }) => differs).length;
    const mean = (place) => both.reduce((sum, { answers }) => sum + answers[place].milliseconds, 0) / (both.length || 1);
    const times = both.length ? `; ${versions.map(({ version }, place) => `version ${version} took ${mean(place).toFixed(0)} ms`).join(", ")} on average` : "";
    const left = photos.length > MOST ? `; ${photos.length - MOST} more were left out` : "";
    outcome.textContent = `${both.length ? `Different first answers: ${differ} of ${both.length}` : "No photo was answered"}${times}${left}.`;
  } finally {
    button.disabled = false;
  }
}

one("#try").addEventListener("submit", (event) => {
  event.preventDefault();
  tryAll([...one("#photos").files]);
});
one("#trial").addEventListener("dragover", (event) => event.preventDefault());
one("#trial").addEventListener("drop", (event) => {
  event.preventDefault();
  if (event.dataTransfer.files.length) tryAll([...event.dataTransfer.files]);
});
