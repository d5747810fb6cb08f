// The console's page: takes the parts that the server renders, and sends switches.
// It holds no state of the models: after every switch the server is asked again.

import { all, ask, clock, local, one, post, session, shown, switchTo } from "./ask.js";
import { openChange } from "./change.js";

const REFRESH_MS = 5000;
const NEAR = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

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
let asks = 0, shownAt, timer;

async function refresh() {
  const number = ++asks, query = new URLSearchParams({ model: asked("model"), seconds: one("[name=span]:checked").value });
  try {
    const response = await ask(`console/models?${query}`), html = await response.text();
    if (number !== asks) return; // another one was asked for meanwhile
    shownAt = (Date.parse(response.headers.get("Date")) || Date.now()) / 1000; // a proxy may spoil it
    show(html);
    one("#away").textContent = "";
  } catch (error) {
    if (error.status === 401) return fail(error);
    const since = shownAt ? ` What you see is from ${clock(shownAt)}.` : "";
    one("#away").textContent = `${error.message}${since}`;
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, REFRESH_MS);
}

function show(html) {
  // The server's own template, with every value escaped; the content security policy lets no script in it run anyway.
  const focused = document.activeElement.id, { path } = shown();
  for (const part of all("[data-part]", new DOMParser().parseFromString(html, "text/html"))) {
    const place = document.getElementById(part.id), { value } = place;
    if (received[part.id] === part.innerHTML) continue; // what was chosen or drawn in it stays
    received[part.id] = place.innerHTML = part.innerHTML;
    if (shown().path === path) place.value = value; // of a list; if that is gone, nothing is chosen until somebody does
    if (place.selectedIndex < 0) place.dispatchEvent(new Event("input", { bubbles: true }));
  }
  if (shown().path !== path) one("#change").close(); // it is about the model that was shown
  if (document.activeElement === document.body) document.getElementById(focused)?.focus();
  one("#login").hidden = true;
  all("[data-banner]").filter((banner) => local[banner.dataset.banner]).forEach((banner) => banner.remove());
  all("time").forEach(tellTime);
  dispatchEvent(new Event("shown"));
}

// How long ago that is by the server's clock, and the time in the zone of whoever looks.
function tellTime(each) {
  const at = new Date(each.dateTime), minutes = Math.round((at / 1000 - shownAt) / 60);
  const near = each.closest("table") ? clock(at / 1000) : NEAR.format(minutes, "minute");
  each.title = at.toLocaleString();
  each.textContent = Math.abs(minutes) < 60 ? near : at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

// Also after a refusal the page follows: somebody may have been first.
async function makeSwitch(path, fields) {
  const { switch: made } = await switchTo(path, fields).finally(refresh);
  say(made ? `${made.text} (switch ${made.id})` : "Nothing to do: it is so already.");
}

addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (event.detail > 1) return event.preventDefault(); // the second click of two
  const { post: path, fields, change, close } = button.dataset;
  if (path) makeSwitch(path, JSON.parse(fields)).catch(fail);
  if (change) openChange(button, { makeSwitch, fail });
  if (close) {
    local[close] = "closed";
    button.closest(".banner").remove();
  }
});

function logOut() {
  asks += 1; // what was asked before is not shown
  delete session.dogsnapToken;
  for (const part of all("[data-part]")) received[part.id] = part.innerHTML = "";
  one("#away").textContent = ""; // it answers
  one("#change").close();
  one("#login").hidden = false;
}

one("#login").addEventListener("submit", (event) => {
  event.preventDefault();
  session.dogsnapToken = one("#token").value;
  event.target.reset();
  say("");
  refresh();
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

one("#forget").addEventListener("click", () => { logOut(); location.reload(); }); // no photo that was tried stays
one("#who").value = local.dogsnapWho ?? "";
one("#who").addEventListener("change", () => { local.dogsnapWho = one("#who").value.trim(); });
one(".spans").addEventListener("change", refresh);
addEventListener("resize", () => { delete received.plots; }); // they are drawn again as wide as they are
addEventListener("hashchange", begin); // another model, or a link that is opened where the page is open
begin();
