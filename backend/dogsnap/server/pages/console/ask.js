// Asks the server, with the token that was entered, and makes elements of what it answers.

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

export let session = {}, local = {};
try {
  ({ sessionStorage: session, localStorage: local } = window);
} catch { /* the browser keeps nothing: it is forgotten with the page */ }

const TIMEOUT_MS = 20000; // of what is read; a switch may take as long as its versions take to load

export async function ask(path, options = {}) {
  const login = session.dogsnapToken && { Authorization: `Bearer ${session.dogsnapToken}` };
  const signal = options.method ? null : AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetch(path, { signal, ...options, headers: { ...options.headers, ...login } }).catch(() => null);
  if (!response) throw new Error("The server does not answer. Is it running?");
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw Object.assign(new Error(error ?? `The server answered with status ${response.status}.`), { status: response.status });
}

export async function post(path, fields) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(fields) })).json();
}

// The model that the page shows: its name and path, and its newest switch that the page knows of.
// One that somebody else has made since is told, and nothing is changed.
export const shown = () => one("#model-title")?.dataset ?? {};

export function switchTo(path, fields) {
  return post(`api/admin/${path}`, { by: one("#who").value.trim() || "console", seen: Number(shown().seen), ...fields });
}

export function element(tag, content = [], properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...[content].flat());
  return made;
}

export const clock = (seconds, timeStyle = "medium") => new Date(1000 * seconds).toLocaleTimeString([], { timeStyle });
