// The panel that changes what a label, the default or the shadow answers with: what is chosen in it is tried
// (a dry run) while one chooses, and one button does it.

import { all, capital, element, one, post } from "./ask.js";

const panel = one("#change"), form = one("form", panel);
let setting, page, tries = 0, timer;

export function openChange(which, functions) {
  [setting, page] = [which, functions];
  form.reset();
  for (const part of all("[data-for]", form)) part.hidden = !part.dataset.for.split(" ").includes(setting.kind);
  const titles = { new: "New label", default: "Change the default", shadow: "Change the shadow" };
  one("#change-title").textContent = titles[setting.kind] ?? `Change ${setting.name}`;
  one("#remove").hidden = setting.kind !== "label";
  one("#remove").textContent = `Remove ${setting.name}`;
  form.elements.name.required = setting.kind === "new";
  fill();
  panel.showModal();
  tryIt();
}

const now = () => {
  const state = page.stateNow();
  return { label: state.labels[setting.name], default: state.default, shadow: state.shadow }[setting.kind] ?? null;
};

function fill() {
  const { versions, splits } = page.stateNow();
  const split = splits.find(({ label }) => label === setting.name);
  const isSplit = split && ["label", "default"].includes(setting.kind);
  const more = isSplit ? `, ${split.percent} % to version ${split.version}` : "";
  one("#change-now").textContent = setting.kind === "new" ? "" : now() === null ? "Now: none." : `Now: version ${now()}${more}.`;
  const none = { default: "the largest", shadow: "none" }[setting.kind];
  const options = versions.map((version) => new Option(`version ${version}`, version));
  form.elements.version.replaceChildren(...options, ...(none ? [new Option(none, "")] : []));
  form.elements.version.value = versions.find((version) => version !== now()) ?? "";
}

// What the form asks for: a path and fields of the API, and words for the button.
function plan() {
  const { version: chosen, how, percent, steps, every, guard, at, name } = form.elements;
  const version = chosen.value === "" ? null : Number(chosen.value);
  const label = setting.name, of = label || "the default";
  const to = version === null ? "the largest version" : `version ${version}`;
  const rising = steps.value.split(",").map((step) => (isNaN(step) || !step.trim() ? step.trim() : Number(step)));
  const begin = at.value ? { at: new Date(at.value).toISOString() } : {};
  const from = at.value ? ` from ${new Date(at.value).toLocaleString([], { dateStyle: "short", timeStyle: "short" })}` : "";
  if (setting.kind === "shadow") return ["shadow", { version }, version === null ? "End the shadow" : `Send copies to ${to}`];
  if (setting.kind === "new") {
    return [`labels/${encodeURIComponent(name.value)}`, { version, from: null }, `Create ${name.value || "the label"} at ${to}`];
  }
  const moved = { version, guard: guard.checked };
  if (how.value === "share") {
    return ["split", { label, percent: Number(percent.value), ...moved }, `Send ${percent.value} % of ${of} to ${to}`];
  }
  if (how.value === "steps") {
    const plan = { label, version, steps: rising, every: 60 * every.value, ...begin };
    return ["rollout", plan, `Roll ${of} out to ${to} by ${steps.value} %${from}`];
  }
  const words = label ? `Move ${label} to ${to}` : `Make ${to} the default`;
  if (at.value) return ["rollout", { label, version, steps: [100], every: 60, ...begin }, `${words}${from}`];
  return [label ? `labels/${encodeURIComponent(label)}` : "default", moved, words];
}

function send([path, fields], more) {
  const given = { reason: form.elements.reason.value, seen: page.stateNow().seen, by: page.by() };
  return post(`api/admin/models/${encodeURIComponent(setting.model)}/${path}`, { ...fields, ...given, ...more });
}

const list = (title, items) => items.length && element("div", [element("p", title), element("ul", items.map((text) => element("li", text)))]);
const would = (...lines) => one("#would").replaceChildren(...lines.filter(Boolean));

// Shares and steps are watched anyway or begin now; what is felt by clients has to be forced.
async function tryIt() {
  const number = ++tries, { how, guard, at } = form.elements;
  const isWatched = how.value === "steps" || (how.value === "once" && at.value !== "");
  guard.disabled = isWatched;
  if (isWatched) guard.checked = true;
  at.closest("p").hidden = how.value === "share" || !["label", "default"].includes(setting.kind);
  if (how.value === "share") at.value = "";
  for (const part of all(".of-how", form)) part.hidden = !one(`input[value=${how.value}]`, form).closest("p")?.contains(part);
  const wanted = plan();
  one("#do").textContent = wanted[2];
  one("#do").disabled = true;
  if (!form.checkValidity()) return would(element("p", "Fill in what is marked.", { className: "note" }));
  try {
    const answer = await send(wanted, { dry_run: true });
    if (number !== tries) return;
    const { would: changes, differences, notes } = answer;
    would(
      list("This would change:", changes) || element("p", "Nothing would change: it is so already."),
      list("Clients would feel it, so it is refused unless you say so:", differences),
      list("Also:", notes),
    );
    one("#force").hidden = !differences.length;
    if (!differences.length) form.elements.force.checked = false;
    one("#do").disabled = !changes.length || (differences.length > 0 && !form.elements.force.checked);
  } catch (error) {
    if (number === tries) showRefusal(error);
  }
}

function showRefusal(error) {
  would(element("p", capital(error.message), { className: "bad" }));
  one("#force").hidden = true;
  if (error.isLockedOut) close();
}

async function doIt(wanted, more) {
  one("#do").disabled = true;
  try {
    const answer = await send(wanted, more);
    close();
    await page.done(answer);
  } catch (error) {
    await page.refresh(); // somebody may have been first: what is true now, and the sentence
    if (panel.open) fillAgain();
    showRefusal(error);
  }
}

function fillAgain() {
  const { value } = form.elements.version;
  fill();
  if ([...form.elements.version.options].some((option) => option.value === value)) form.elements.version.value = value;
}

function close() {
  tries += 1;
  panel.close();
}

form.addEventListener("input", ({ target }) => {
  if (target.name === "how") form.elements.guard.checked = target.value !== "once"; // whoever tries a part wants to know
  one("#do").disabled = true;
  clearTimeout(timer);
  timer = setTimeout(tryIt, 150);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!one("#do").disabled) doIt(plan(), form.elements.force.checked ? { force: true } : {});
});
one("#cancel").addEventListener("click", close);
one("#remove").addEventListener("click", () => doIt([`labels/${encodeURIComponent(setting.name)}`, { version: null, from: now() }], {}));
