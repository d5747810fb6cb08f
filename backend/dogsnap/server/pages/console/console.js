// The console's page: fetches the part the server renders, sends switches, and tries a photo on two versions.
// It holds no state of the models: after every switch the server is asked again.

const TOKEN = "dogsnap-admin-token";
const REFRESH_MS = 5000;
const SHOWN_BREEDS = 8;

const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// -- asking the server -------------------------------------------------------------------------------------------------

// What asks for the token; what else answers 401 asks for an API key.
const ADMINISTRATION = ["api/admin/", "console/"];

class Refused extends Error {
  constructor(status, sentence, path) {
    super(sentence);
    this.isLockedOut = status === 401 && ADMINISTRATION.some((start) => path.startsWith(start));
  }
}

async function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.set("Authorization", `Bearer ${token}`);
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused(0, "The server does not answer. Is it running?", path);
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new Refused(response.status, body.error ?? `The server answered with status ${response.status}.`, path);
}

async function post(path, fields) {
  const by = one("#who").value.trim() || "console";
  const headers = { "Content-Type": "application/json" };
  try {
    return await ask(`api/admin/${path}`, { method: "POST", headers, body: JSON.stringify({ ...fields, by }) });
  } catch (error) {
    const canBeForced = error instanceof Refused && error.message.includes('"force": true');
    if (!canBeForced || fields.force || !confirm(error.message)) throw error;
    return post(path, { ...fields, force: true });
  }
}

function say(sentence, bad = false) {
  const message = one("#message");
  message.textContent = sentence;
  message.classList.toggle("bad", bad);
  message.hidden = !sentence;
}

function fail(error) {
  if (!(error instanceof Refused)) throw error;
  say(error.message, true);
  if (!error.isLockedOut) return;
  sessionStorage.removeItem(TOKEN);
  one("#login").hidden = false;
  show("");
}

// -- the models --------------------------------------------------------------------------------------------------------

function show(html) {
  // The server's own template, with every value escaped; the content security policy lets no script in it run anyway.
  one("#models").innerHTML = html;
  one("#models").setAttribute("aria-busy", "false");
  one("#forget").hidden = !sessionStorage.getItem(TOKEN);
  one("#trial").hidden = !fillVersions();
}

async function refresh() {
  try {
    show(await (await ask("console/models")).text());
    one("#login").hidden = true;
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

// Nobody's choice is swept away from under the finger.
function isTouched() {
  const chosen = (select) => select.selectedIndex !== Math.max(0, all("option", select).findIndex((each) => each.defaultSelected));
  const typed = (input) => (input.type === "checkbox" ? input.checked : input.value !== input.defaultValue);
  const models = one("#models");
  return models.contains(document.activeElement) || all("select", models).some(chosen) || all("input", models).some(typed);
}

async function switchNow(path, fields) {
  const buttons = all("#models button");
  for (const button of buttons) button.disabled = true;
  try {
    const { switch: done } = await (await post(path, fields)).json();
    if (await refresh()) say(done ? `${done.text} (switch ${done.id})` : "Nothing to do: it is so already.");
  } catch (error) {
    if (!error.isLockedOut) await refresh();
    fail(error);
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

// Names come from configurations, too, and may hold any character.
function pathOf(element, name = element.dataset.name ?? "") {
  const { model } = element.closest("[data-model]").dataset;
  return `models/${encodeURIComponent(model)}/${element.dataset.post}${encodeURIComponent(name)}`;
}

function fieldsOf(form) {
  const fields = Object.fromEntries(new FormData(form));
  if ("version" in fields) fields.version = fields.version === "" ? null : Number(fields.version);
  if ("percent" in fields) fields.percent = Number(fields.percent);
  if ("steps" in fields) fields.steps = fields.steps.split(",").map((step) => (isNaN(step) ? step.trim() : Number(step)));
  if ("every" in fields) fields.every = 60 * fields.every;
  if (fields.at) fields.at = new Date(fields.at).toISOString();
  if ("guard" in fields) fields.guard = true;
  if ("from" in form.dataset) fields.from = Number(form.dataset.from);
  if ("new" in form.dataset) fields.from = null;
  return fields;
}

one("#models").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  const { name, ...fields } = fieldsOf(form);
  switchNow(pathOf(form, name), fields);
});

one("#models").addEventListener("click", ({ target }) => {
  if (!(target instanceof HTMLButtonElement)) return;
  if ("undo" in target.dataset) switchNow("undo", { id: Number(target.dataset.undo) });
  else if ("post" in target.dataset) switchNow(pathOf(target), JSON.parse(target.dataset.fields ?? "{}"));
});

// -- logging in --------------------------------------------------------------------------------------------------------

one("#login").addEventListener("submit", async (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, one("#token").value);
  one("#token").value = "";
  if (await refresh()) say("");
});

one("#forget").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN);
  location.reload();
});

one("#refresh").addEventListener("click", async () => {
  if (await refresh()) say("");
});

// -- a photo on two versions -------------------------------------------------------------------------------------------

function fillVersions() {
  const rows = all("#models tr[data-classes]").filter((row) => row.dataset.classes !== "0");
  const texts = rows.map((row) => `${row.closest("[data-model]").dataset.model} version ${row.dataset.version}`);
  for (const [place, select] of [one("#first"), one("#second")].entries()) {
    const before = select.value;
    select.replaceChildren(...rows.map((row, index) => new Option(texts[index], texts[index])));
    for (const [index, row] of rows.entries()) Object.assign(select.options[index].dataset, { ...row.dataset, model: row.closest("[data-model]").dataset.model });
    if (texts.includes(before)) select.value = before;
    else select.selectedIndex = Math.min(1 - place, rows.length - 1); // the older first
  }
  return rows.length > 1;
}

async function classify(photo, { model, version, classes }) {
  const query = new URLSearchParams({ model, version, top_k: classes });
  const headers = { "Content-Type": photo.type || "application/octet-stream" };
  const started = performance.now();
  const answer = await (await ask(`api/classify?${query}`, { method: "POST", headers, body: photo })).json();
  return { ...answer, milliseconds: performance.now() - started };
}

one("#try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [photo] = one("#photo").files;
  const chosen = [one("#first"), one("#second")].map((select) => select.selectedOptions[0].dataset);
  const button = one("#try button");
  button.disabled = true;
  try {
    const answers = [];
    for (const version of chosen) answers.push(await classify(photo, version)); // one by one, for their times' sake
    showTrial(photo, answers);
    say("");
  } catch (error) {
    one("#result").replaceChildren();
    fail(error);
  } finally {
    button.disabled = false;
  }
});

function element(tag, content = "", properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...[content].flat());
  return made;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const short = (share) => Number((100 * share).toPrecision(2));

function points(difference) {
  const rounded = (100 * Math.abs(difference)).toFixed(1);
  return `${rounded === "0.0" ? "" : difference < 0 ? "−" : "+"}${rounded}`;
}

function showTrial(photo, answers) {
  const picture = element("img", [], { src: URL.createObjectURL(photo), alt: "the photo that was tried" });
  picture.onload = () => URL.revokeObjectURL(picture.src);
  one("#result").replaceChildren(element("div", picture), ...answers.map(oneAnswer), difference(answers));
}

function oneAnswer(answer) {
  const [best] = answer.breeds;
  const verdict = [answer.dog ? "a dog" : "no dog", answer.confident ? "sure" : "not sure", ...claimed(answer), `${answer.milliseconds.toFixed(0)} ms`];
  return element("div", [
    element("h3", nameOf(answer)),
    element("p", [element("strong", best.name), ` ${percent(best.probability)}`]),
    element("meter", [], { value: best.probability, title: percent(best.probability) }),
    element("p", verdict.join(", "), { className: "note" }),
  ]);
}

// What the answer claims beside the first breed: nothing for a version without levels.
function claimed({ level, group, set, breeds }) {
  if (level === "group") return [`one of the group ${group.name} (${percent(group.probability)})`];
  if (level === "set") return [`one of: ${breeds.filter(({ id }) => set.includes(id)).map(({ name }) => name).join("; ")}`];
  return level === "unknown" ? ["perhaps a breed it does not know"] : [];
}

const nameOf = ({ model }) => `${model.name} version ${model.version}`;

function difference([first, second]) {
  const of = (answer) => new Map(answer.breeds.map((breed) => [breed.id, breed]));
  const [ours, theirs] = [of(first), of(second)];
  const rows = [...new Set([...ours.keys(), ...theirs.keys()])].map((id) => {
    const [a, b] = [ours.get(id)?.probability ?? 0, theirs.get(id)?.probability ?? 0];
    return { name: (ours.get(id) ?? theirs.get(id)).name, a, b };
  });
  const gaps = rows.map(({ a, b }) => Math.abs(b - a));
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const same = first.breeds[0].id === second.breeds[0].id;
  const likely = rows.sort((x, y) => Math.max(y.a, y.b) - Math.max(x.a, x.b)).slice(0, SHOWN_BREEDS);
  const line = ({ name, a, b }) => element("tr", [element("th", name, { scope: "row" }), ...[percent(a), percent(b), points(b - a)].map((text) => element("td", text))]);
  const column = (answer) => (first.model.name === second.model.name ? `version ${answer.model.version}` : nameOf(answer));
  const heads = ["Breed", column(first), column(second), "Difference"].map((text) => element("th", text, { scope: "col" }));
  return element("div", [
    element("p", `${same ? "Same" : "Different"} first answer; over ${rows.length} breeds the mean difference is ${short(mean)} and the largest ${short(Math.max(...gaps))} percentage points.`, { id: "verdict" }),
    element("table", [element("thead", element("tr", heads)), element("tbody", likely.map(line))]),
  ], { className: "wide" });
}

// `dogsnap console` opens the page with a code, which is taken once; it leaves the address at once.
async function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return "";
  history.replaceState(null, "", location.pathname);
  try {
    const headers = { "Content-Type": "application/json" };
    const { token } = await (await ask("console/login", { method: "POST", headers, body: JSON.stringify({ code }) })).json();
    sessionStorage.setItem(TOKEN, token);
    return "";
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.message;
  }
}

async function begin() {
  const trouble = await takeCode();
  await refresh();
  if (trouble) say(trouble, true);
}

// -- start -------------------------------------------------------------------------------------------------------------

begin();
addEventListener("hashchange", begin); // a link that is opened where the page is open
setInterval(() => {
  if (document.visibilityState === "visible" && one("#login").hidden && !isTouched()) refresh();
}, REFRESH_MS);
