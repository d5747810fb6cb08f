// The console's page: fetches the parts that the server renders, and sends switches.
// It holds no state of the models: after every switch the server is asked again.

import { all, ask, clock, local, one, post, session, shown, switchTo } from "./ask.js";
import { openChange } from "./change.js";
import "./photos.js";
import { drawBanner, seconds, showPictures } from "./pictures.js";

const REFRESH_MS = 5000;

const asked = (name) => new URLSearchParams(location.hash.slice(1)).get(name) ?? "";

// What was done, or why not.
function say(sentence, isBad = false) {
  one("#message").textContent = sentence;
  one("#message").classList.toggle("bad", isBad);
}

function fail({ status, message }) {
  if (status !== 401 || session.dogsnapToken) say(message, true); // who has not logged in yet did nothing wrong
  if (status === 401) logOut();
}

const received = {};
let asks = 0, shownAt;

async function refresh() {
  const number = ++asks, query = new URLSearchParams({ model: asked("model"), seconds: seconds() });
  try {
    const response = await ask(`console/models?${query}`);
    const html = await response.text();
    if (number !== asks) return; // another one was asked for meanwhile
    shownAt = Date.parse(response.headers.get("Date")) || Date.now();
    show(html);
    await showPictures(shown().model);
    one("#away").textContent = "";
  } catch (error) {
    if (error.status === 401) return fail(error);
    const since = shownAt ? ` What you see is from ${clock(shownAt / 1000, true)}.` : "";
    one("#away").textContent = `${error.message}${since}`;
  }
}

function show(html) {
  // The server's own template, with every value escaped; the content security policy lets no script in it run anyway.
  const focused = document.activeElement.id, { path } = shown();
  for (const part of all("[data-part]", new DOMParser().parseFromString(html, "text/html"))) {
    const name = part.dataset.part, place = one(`#${name}`);
    if (received[name] === part.innerHTML) continue; // what was chosen or drawn in it stays
    const hadOptions = place.length > 0, chosen = place.selectedOptions?.[0]?.value;
    received[name] = place.innerHTML = part.innerHTML;
    if (name === "banners") all("[data-banner]").forEach(drawBanner);
    if (hadOptions && shown().path === path) choose(place, chosen);
  }
  if (shown().path !== path) one("#change").close(); // it is about the model that was shown
  if (document.activeElement === document.body) document.getElementById(focused)?.focus();
  one("#login").hidden = true;
  one("#all").hidden = false;
  all("time").forEach(tellTime);
}

// What was chosen in a list stays; if that is gone, nothing is chosen until somebody does.
function choose(list, version) {
  list.value = version;
  if (list.selectedIndex < 0) list.dispatchEvent(new Event("input", { bubbles: true }));
}

// How long ago that is by the server's clock, and the time in the zone of whoever looks.
function tellTime(each) {
  const at = new Date(each.dateTime), minutes = Math.round((at - shownAt) / 60000);
  const near = new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(minutes, "minute");
  each.title = at.toLocaleString();
  each.textContent = Math.abs(minutes) < 60 ? near : at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

// Returns why it was not made, once the page has followed: somebody may have been first.
async function makeSwitch(path, fields) {
  try {
    const { switch: made } = await switchTo(path, fields);
    await refresh();
    say(made ? `${made.text} (switch ${made.id})` : "Nothing to do: it is so already.");
    return null;
  } catch (error) {
    await refresh();
    return error;
  }
}

one("main").addEventListener("click", async ({ target, detail }) => {
  const button = target.closest("button");
  if (!button || detail > 1) return; // the second click of two
  const { post: path, fields, change, close } = button.dataset;
  if (change) openChange(button, { makeSwitch, fail });
  if (close) {
    local[close] = "closed";
    button.closest(".banner").remove();
  }
  const error = path && await makeSwitch(path, JSON.parse(fields));
  if (error) fail(error);
});

function logOut() {
  delete session.dogsnapToken;
  one("#away").textContent = ""; // it answers
  one("#change").close();
  one("#login").hidden = false;
  one("#all").hidden = true;
}

one("#login").addEventListener("submit", (event) => {
  event.preventDefault();
  session.dogsnapToken = one("#token").value;
  event.target.reset();
  say("");
  refresh();
});

one("#forget").addEventListener("click", () => {
  delete session.dogsnapToken;
  location.reload();
});

// `dogsnap console` opens the page with a code, which is taken once; it leaves the address at once.
async function begin() {
  const code = asked("code");
  if (code) {
    history.replaceState(null, "", location.pathname);
    await post("console/login", { code }).then(({ token }) => { session.dogsnapToken = token; }, ({ message }) => say(message, true));
  }
  await refresh();
}

async function follow() {
  if (document.visibilityState === "visible" && one("#login").hidden) await refresh();
  setTimeout(follow, REFRESH_MS);
}

one("#who").value = local.dogsnapWho ?? "";
one("#who").addEventListener("change", () => { local.dogsnapWho = one("#who").value.trim(); });
one(".spans").addEventListener("change", refresh);
addEventListener("hashchange", begin); // another model, or a link that is opened where the page is open
begin();
setTimeout(follow, REFRESH_MS);
