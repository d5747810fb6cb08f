// The console's page: fetches the parts that the server renders, and sends switches.
// It holds no state of the models: after every switch the server is asked again.

import { all, ask, clock, kept, one, post, Refused, say, token } from "./ask.js";
import { openChange } from "./change.js";
import "./photos.js";
import { drawBanner, seconds, showPictures } from "./pictures.js";

const REFRESH_MS = 5000;
const CLOSED = "dogsnap-closed-banners", WHO = "dogsnap-who";

const asked = () => new URLSearchParams(location.hash.slice(1)).get("model") ?? "";

function fail(error) {
  if (!(error instanceof Refused)) throw error;
  say(error.message, true);
  if (error.isLockedOut) lockOut();
}

function lockOut() {
  token.set("");
  one("#login").hidden = false;
  one("#all").hidden = true;
}

// -- the parts ---------------------------------------------------------------------------------------------------------

let shown = "", seenAt = 0, isAway = false, isAsking = false;

async function refresh() {
  const hadToken = token.get();
  let html;
  try {
    html = await (await ask(`console/models?${new URLSearchParams({ model: asked(), seconds: seconds() })}`)).text();
  } catch (error) {
    if (error.isLockedOut && !hadToken) lockOut(); // nobody has logged in yet: nothing went wrong
    else if (error.isAway && seenAt) say(`The server does not answer. What you see is from ${clock(seenAt, true)}.`, true);
    else fail(error);
    isAway = Boolean(error.isAway);
    return false;
  }
  if (isAway) say("The server answers again.");
  [seenAt, isAway] = [Date.now() / 1000, false];
  one("#login").hidden = true;
  one("#all").hidden = false;
  one("#forget").hidden = !token.get();
  if (html !== shown) show(html);
  shown = html;
  tellTimes();
  const model = one("#glance [data-model]")?.dataset.model;
  one("#trial").hidden = one("#first").options.length < 2;
  await showPictures(model);
  return true;
}

function show(html) {
  // The server's own template, with every value escaped; the content security policy lets no script in it run anyway.
  const parts = new DOMParser().parseFromString(html, "text/html");
  const focused = document.activeElement?.id;
  for (const part of all("[data-part]", parts)) {
    const place = one(`#${part.dataset.part}`);
    if (place.id === "banners") showBanners(part);
    else if (place.innerHTML !== part.innerHTML) place.innerHTML = part.innerHTML; // else what was chosen stays
  }
  if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
}

// In the zone of whoever looks, and how long ago that is.
function tellTimes() {
  for (const each of all("time")) {
    const at = new Date(each.dateTime), seconds = (at - Date.now()) / 1000;
    const [unit, length] = [["hour", 3600], ["minute", 60]].find(([, most]) => Math.abs(seconds) >= most) ?? ["second", 1];
    const near = new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(Math.round(seconds / length), unit);
    const day = at.toLocaleDateString([], { month: "short", day: "numeric" }), isNear = Math.abs(seconds) < 86400 && !each.closest(".log");
    each.title = at.toLocaleString();
    each.textContent = isNear ? `${near}, ${clock(at / 1000)}` : `${day}, ${clock(at / 1000, true)}`;
  }
}

const closedBanners = () => [kept.get(CLOSED) ?? []].flat();

// A banner stays as it is until somebody closes it in this browser: its picture is of its own time.
function showBanners(part) {
  const closed = closedBanners();
  const before = new Map(all("#banners [data-banner]").map((banner) => [banner.dataset.banner, banner]));
  const banners = [...part.children].filter(({ dataset }) => !closed.includes(dataset.banner));
  one("#banners").replaceChildren(...banners.map((banner) => before.get(banner.dataset.banner) ?? banner));
  for (const banner of banners) if (banner.dataset.banner && !before.has(banner.dataset.banner)) drawBanner(banner);
}

one("#banners").addEventListener("click", ({ target }) => {
  if (!target.matches("button")) return;
  const banner = target.closest("[data-banner]");
  kept.set(CLOSED, [...closedBanners(), banner.dataset.banner].slice(-100));
  banner.remove();
});

one(".spans").addEventListener("change", refresh);

// -- switching ---------------------------------------------------------------------------------------------------------

const by = () => one("#who").value.trim() || "console";
const stateNow = () => JSON.parse(one("#glance [data-state]")?.dataset.state ?? "{}");

async function done(answer) {
  if (await refresh()) say(answer.switch ? `${answer.switch.text} (switch ${answer.switch.id})` : "Nothing to do: it is so already.");
}

async function switchNow(path, fields) {
  const buttons = all("main button:not([data-banner] *)");
  for (const button of buttons) button.disabled = true;
  try {
    await done(await post(`api/admin/${path}`, { ...fields, seen: stateNow().seen, by: by() }));
  } catch (error) {
    if (!error.isLockedOut && !error.isAway) await refresh();
    fail(error);
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

one("main").addEventListener("click", ({ target }) => {
  const { undo, post: path, fields, change, name } = target.closest("button")?.dataset ?? {};
  const model = one("#glance [data-model]")?.dataset.model;
  if (undo) switchNow("undo", { id: Number(undo) });
  else if (path) switchNow(`models/${encodeURIComponent(model)}/${path}`, JSON.parse(fields));
  else if (change) openChange({ kind: change, name: name ?? "", model }, { stateNow, by, done, refresh });
});

// -- logging in --------------------------------------------------------------------------------------------------------

one("#login").addEventListener("submit", async (event) => {
  event.preventDefault();
  token.set(one("#token").value);
  one("#token").value = "";
  if (await refresh()) say("");
});

one("#forget").addEventListener("click", () => {
  token.set("");
  location.reload();
});

// `dogsnap console` opens the page with a code, which is taken once; it leaves the address at once.
async function takeCode() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (!code) return "";
  history.replaceState(null, "", location.pathname);
  try {
    token.set((await post("console/login", { code })).token);
    return "";
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.message;
  }
}

async function begin() {
  const trouble = await takeCode();
  const isShown = await refresh();
  if (trouble) say(trouble, true);
  if (isShown || !asked() || isAway || one("#all").hidden) return;
  history.replaceState(null, "", location.pathname); // a model that is gone: its sentence stays, another one is shown
  await refresh();
}

// -- start -------------------------------------------------------------------------------------------------------------

one("#who").value = kept.get(WHO) ?? "";
one("#who").addEventListener("change", () => kept.set(WHO, one("#who").value.trim()));
begin();
addEventListener("hashchange", begin); // another model, or a link that is opened where the page is open
setInterval(async () => {
  if (isAsking || document.visibilityState !== "visible" || !one("#login").hidden) return; // a slow server is not asked twice
  isAsking = true;
  await refresh().finally(() => { isAsking = false; });
}, REFRESH_MS);
