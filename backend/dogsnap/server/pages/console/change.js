// The panel that changes what a label, the default or the shadow answers with: what is chosen in it is tried
// (a dry run) while one chooses, and one button does it.

import { all, element, one, shown, switchTo } from "./ask.js";

const PAUSE_MS = 1000; // after a refusal: for the person to read it, and for the second click of two

const panel = one("#change"), form = one("form", panel), fields = form.elements;
let setting, page, wanted, timer;

// The button's data say what is changed: a "label" with its `name`, "default", "shadow" or "new", which is `at` a version.
export function openChange(button, functions) {
  [setting, page] = [{ id: button.id, ...button.dataset }, functions];
  form.reset();
  one("#change-title").textContent = `${button.ariaLabel} of ${shown().model}`;
  fields.version.value = [...fields.version.options].find(({ value }) => value !== setting.at)?.value ?? "";
  one("#felt").disabled = true;
  read(); // its parts are there before the first of them gets the focus
  panel.showModal();
  tryIt();
}

// What the form asks for: a path of the API, its fields, and words for the button.
function plan(way, { name, version: number, percent, steps = "100", every = 1, guard, at }) {
  const label = setting.name, of = label || "the default", pathOf = (label) => `labels/${encodeURIComponent(label)}`;
  const version = number ? JSON.rawJSON?.(number) ?? Number(number) : null; // JavaScript has no numbers above 2^53
  const to = number ? `version ${number}` : "the largest version";
  if (way === "shadow") return ["shadow", { version }, number ? `Send copies to ${to}` : "End the shadow"];
  if (way === "new") return [pathOf(name), { version, from: null }, `Create ${name || "the label"} at ${to}`];
  if (way === "share") return ["split", { label, version, percent: Number(percent), guard }, `Send ${percent} % of ${of} to ${to}`];
  const once = !label ? `Make ${to} the default` : number ? `Move ${label} to ${to}` : `Remove ${label}`;
  if (way === "once" && !at) return [label ? pathOf(label) : "default", { version, guard }, once];
  const begin = at ? new Date(at) : undefined, words = way === "once" ? once : `Roll ${of} out to ${to} by ${steps} %`;
  const from = begin ? ` from ${begin.toLocaleString([], { dateStyle: "short", timeStyle: "short" })}` : "";
  return ["rollout", { label, version, steps: steps.split(",").map(Number), every: 60 * every, at: begin }, words + from];
}

// Parts of the form say for which of these they are there: a new label, the shadow; once, by a share, by steps.
function read() {
  const way = ["new", "shadow"].includes(setting.change) ? setting.change : fields.how.value;
  for (const part of all("[data-for]", form)) part.disabled = !part.dataset.for.split(" ").includes(way);
  if (way === "once" && fields.at.value) fields.guard.checked = true; // as every rollout
  const { reason, force, guard, ...given } = Object.fromEntries(new FormData(form));
  const [path, asked, words] = plan(way, { ...given, guard: guard === "on" });
  const { path: model, seen } = shown(); // of one model: once the page shows another one, the panel is closed
  return { path: `${model}/${path}`, words, fields: { ...asked, reason, force: force && true, seen: Number(seen) } };
}

const list = (title, items) => (items.length ? [element("p", title), element("ul", items.map((text) => element("li", text)))] : []);
const would = (...content) => one("#would").replaceChildren(...content);
const refusal = ({ message }) => element("p", message, { className: "bad sentence" });

async function tryIt(...before) {
  if (!panel.open) return;
  const tried = wanted = read();
  one("#do").disabled = true;
  if (fields.version.selectedIndex < 0) return would(...before, "The version that was chosen is gone. Choose another one.");
  one("#do").textContent = tried.words;
  const wrong = one("input:invalid", form);
  if (wrong) return would(wrong.title ? `Fill in what is marked: ${wrong.title}.` : "Fill in what is marked.");
  try {
    const { would: changes, differences, notes } = await switchTo(tried.path, { ...tried.fields, dry_run: true });
    if (tried !== wanted) return; // something else was chosen meanwhile
    would(
      ...before,
      ...(changes.length ? list("This would change:", changes) : ["Nothing would change: it is so already."]),
      ...list("Clients would feel it, so it is refused unless you say so:", differences),
      ...list("Also:", notes),
    );
    one("#felt").disabled = !differences.length;
    one("#do").disabled = !changes.length || (differences.length > 0 && !tried.fields.force);
  } catch (error) {
    if (tried !== wanted) return;
    would(refusal(error));
    if (error.status === 409) tryAgain(error); // the page follows
  }
}

// The sentence, and then what would change now.
function tryAgain(error) {
  clearTimeout(timer);
  timer = setTimeout(tryIt, PAUSE_MS, refusal(error));
}

form.addEventListener("input", ({ target }) => {
  if (target.name === "how") fields.guard.checked = target.value === "share"; // whoever tries a part wants to know
  if (!["reason", "force"].includes(target.name)) fields.force.checked = false; // it was about what was chosen then
  one("#do").disabled = true;
  clearTimeout(timer);
  timer = setTimeout(tryIt, 150);
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  one("#do").disabled = true;
  const sent = setting;
  const error = await page.makeSwitch(wanted.path, wanted.fields);
  const isOpen = panel.open && setting === sent;
  if (!error && isOpen) panel.close();
  if (!error) return;
  if (!isOpen) return page.fail(error);
  fields.force.checked = false; // it was about what would have changed before
  would(refusal(error));
  tryAgain(error);
});
one("#do").addEventListener("click", (event) => {
  if (event.detail > 1) event.preventDefault(); // the second click of two
});
panel.addEventListener("close", () => (document.getElementById(setting.id) ?? one("#change-new"))?.focus());
one("#cancel").addEventListener("click", () => panel.close());
