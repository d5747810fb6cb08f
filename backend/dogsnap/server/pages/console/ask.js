// Asks the server, with the token that was entered, and makes elements of what it answers.

const TOKEN = "dogsnap-admin-token";
// What asks for the token; what else answers 401 asks for an API key.
const ADMINISTRATION = ["api/admin/", "console/"];

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// What a storage of the browser holds as JSON; where it allows none, or holds something else, there is nothing.
function read(storage, name) {
  try {
    return JSON.parse(window[storage].getItem(name));
  } catch {
    return null;
  }
}

function write(storage, name, value) {
  try {
    if (value) window[storage].setItem(name, JSON.stringify(value));
    else window[storage].removeItem(name);
  } catch { /* it is forgotten with the page */ }
}

let ofPage = null;
export const token = {
  get: () => ofPage ?? read("sessionStorage", TOKEN),
  set(text) {
    ofPage = text;
    write("sessionStorage", TOKEN, text);
  },
};
export const kept = { get: (name) => read("localStorage", name), set: (name, value) => write("localStorage", name, value) };

export class Refused extends Error {
  constructor(status, sentence, path) {
    super(sentence);
    this.isAway = status === 0;
    this.isLockedOut = status === 401 && ADMINISTRATION.some((start) => path.startsWith(start));
  }
}

export async function ask(path, options = {}) {
  const headers = new Headers(options.headers);
  if (token.get()) headers.set("Authorization", `Bearer ${token.get()}`);
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

export async function post(path, fields) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(fields) })).json();
}

export function say(sentence, bad = false) {
  const message = one("#message");
  message.textContent = sentence;
  message.classList.toggle("bad", bad);
  message.hidden = !sentence;
}

export function element(tag, content = "", properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...[content].flat());
  return made;
}

export const clock = (seconds, withSeconds = false) =>
  new Date(1000 * seconds).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(withSeconds && { second: "2-digit" }) });
export const capital = (sentence) => sentence.charAt(0).toUpperCase() + sentence.slice(1);
