// The panel of a label, the default or the shadow: a dry run says what would change while one chooses, a button does it.

import { all, element, one, shown, switchTo } from "./ask.js";

const PAUSE_MS = 1000; // after a refusal: for the person to read it, and for the second click of two

const panel = one("#change"), form = one("form", panel), fields = form.elements;
let setting, page, wanted, timer;

// The button's data say what is changed: a "label" with its `name`, "default", "shadow" or "new", which is `at` a version.
export function openChange(button, functions) {
  [setting, page] = [{ id: button.id, ...button.dataset }, functions];
  form.reset();
  one("#change-title").textContent = `${button.ariaLabel} of ${shown().model}`;
  fields.version.value = [...fields.version.options].find(({ value }) => value !== setting.at)?.value;
  one("#felt").disabled = true;
  read(); // its parts are there before the first of them gets the focus
  panel.showModal();
  tryIt();
}

// What the form asks for: a path of the API, its fields, and words for the button.
function plan(way, { name: label = setting.name, version: number = "none", percent, steps = "100", every = 1, guard, at }) {
  const path = label ? `labels/${encodeURIComponent(label)}` : "default", of = label || "the default";
  const isNone = number === "none", to = isNone ? "the largest version" : `version ${number}`;
  const version = isNone ? null : JSON.rawJSON?.(number) ?? Number(number); // JavaScript has no numbers above 2^53
  if (way === "shadow") return ["shadow", { version }, isNone ? "End the shadow" : `Send copies to ${to}`];
  if (way === "new") return [path, { version, from: null }, `Create ${label || "the label"} at ${to}`];
  if (way === "share") return ["split", { label, version, percent: Number(percent), guard }, `Send ${percent} % of ${of} to ${to}`];
  const move = isNone ? `Remove ${label}` : `Move ${label} to ${to}`, once = label ? move : `Make ${to} the default`;
  if (way === "once" && !at) return [path, { version, guard }, once];
  const words = way === "once" ? once : `Roll ${of} out to ${to} by ${steps} %`, from = at && ` from ${at.replace("T", " ")}`;
  const rollout = { label, version, steps: steps.split(",").map(Number), every: 60 * every, at: at && new Date(at) };
  return ["rollout", rollout, words + from];
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

async function tryIt(...before) {
  if (!panel.open) return;
  clearTimeout(timer);
  one("#do").disabled = true;
  const tried = wanted = read();
  if (fields.version.selectedIndex < 0) return would(...before, "The version that was chosen is gone. Choose another one.");
  one("#do").textContent = tried.words;
  const wrong = one("input:invalid", form);
  if (wrong) return would(`Fill in what is marked${wrong.title && `: ${wrong.title}`}.`);
  const answer = await switchTo(tried.path, { ...tried.fields, dry_run: true }).catch((error) => error);
  if (tried !== wanted) return; // something else was chosen meanwhile
  if (answer.message) return refuse(answer, answer.status === 409); // the page follows
  const { would: changes, differences, notes } = answer;
  would(
    ...before,
    ...(changes.length ? list("This would change:", changes) : ["Nothing would change: it is so already."]),
    ...list("Clients would feel it, so it is refused unless you say so:", differences),
    ...list("Also:", notes),
  );
  one("#felt").disabled = !differences.length;
  one("#do").disabled = !changes.length || (differences.length > 0 && !tried.fields.force);
}

// The sentence, and if need be what would change now.
function refuse({ message }, isTriedAgain) {
  const sentence = element("p", message, { className: "bad sentence" });
  would(sentence);
  fields.force.checked = false; // it was about what would have changed before
  if (isTriedAgain) timer = setTimeout(tryIt, PAUSE_MS, sentence);
}

form.addEventListener("input", ({ target }) => {
  if (target.name === "how") fields.guard.checked = target.value === "share"; // whoever tries a part wants to know
  if (!["reason", "force"].includes(target.name)) fields.force.checked = false; // it was about what was chosen then
  tryIt();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  one("#do").disabled = true;
  const sent = setting, isShown = () => panel.open && setting === sent;
  page.makeSwitch(wanted.path, wanted.fields).then(
    () => isShown() && panel.close(),
    (error) => (isShown() ? refuse(error, true) : page.fail(error)),
  );
});
panel.addEventListener("close", () => (document.getElementById(setting?.id) ?? one("#change-new"))?.focus());
