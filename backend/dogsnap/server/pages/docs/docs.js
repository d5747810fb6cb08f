// The page to try the API: a form for each operation of /openapi.json, and what the server answered to it.
// It knows no path and no field of its own: everything shown comes from that document.

const SHOWN_CHARACTERS = 20000;

const one = (selector, root = document) => root.querySelector(selector);

/** An element with properties and children; texts are never read as HTML. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A part of the document, with what its references point to in their place. */
function resolve(part) {
  if (typeof part !== "object" || part === null) return part;
  if (part.$ref) {
    const names = part.$ref.split("/").slice(1);
    return resolve(names.reduce((parent, name) => parent[name], openapi));
  }
  if (Array.isArray(part)) return part.map(resolve);
  return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, resolve(value)]));
}

/** A JSON value to start from, of a schema: the one that it gives, else of its type. */
function example(schema = {}) {
  if (schema.examples) return schema.examples[0];
  if (schema.enum) return schema.enum[0];
  const type = [schema.type ?? (schema.properties ? "object" : "string")].flat()[0];
  if (type === "object") {
    const wanted = schema.required ?? Object.keys(schema.properties ?? {}).slice(-1);
    return Object.fromEntries(wanted.map((name) => [name, example(schema.properties?.[name])]));
  }
  if (type === "array") return schema.items?.type ? [example(schema.items)] : [];
  return { integer: 1, number: 1, boolean: false }[type] ?? "";
}

function field(parameter) {
  const choices = parameter.schema.enum;
  const input = choices
    ? make("select", {}, ...(parameter.required ? [] : [make("option")]), ...choices.map((each) => make("option", {}, each)))
    : make("input", { required: Boolean(parameter.required) });
  input.dataset.place = parameter.in;
  input.dataset.name = parameter.name;
  return make("label", {}, `${parameter.name} (${parameter.in})`, input);
}

/** Where a body is written or a file chosen, for each kind of body that the operation takes. */
function body(content) {
  const kinds = make("select", { name: "kind" }, ...Object.keys(content).map((kind) => make("option", {}, kind)));
  const text = make("textarea", { name: "text", spellcheck: false });
  const file = make("input", { name: "file", type: "file" });
  const textLabel = make("label", {}, "body", text);
  const fileLabel = make("label", {}, "file", file);
  const show = () => {
    const isJson = kinds.value === "application/json";
    textLabel.hidden = !isJson;
    fileLabel.hidden = isJson;
    if (isJson) text.value = JSON.stringify(example(content[kinds.value].schema), null, 2);
  };
  kinds.addEventListener("change", show);
  show();
  return [make("label", {}, "kind of body", kinds), textLabel, fileLabel];
}

function request(form, method, path) {
  const query = new URLSearchParams();
  let url = `.${path}`; // below the path of a proxy, too
  for (const input of form.querySelectorAll("[data-place]")) {
    if (input.dataset.place === "path") url = url.replace(`{${input.dataset.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.set(input.dataset.name, input.value);
  }
  const headers = new Headers();
  const key = one("#key").value.trim();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const options = { method: method.toUpperCase(), headers };
  const kind = form.elements.kind?.value;
  const file = form.elements.file?.files[0];
  if (kind === "application/json") {
    headers.set("Content-Type", kind);
    options.body = form.elements.text.value;
  } else if (kind === "multipart/form-data") {
    options.body = new FormData();
    if (file) options.body.append("image", file);
  } else if (kind) {
    headers.set("Content-Type", file?.type || "image/jpeg");
    options.body = file ?? "";
  }
  return [query.size ? `${url}?${query}` : url, options];
}

async function send(form, method, path, output) {
  const [url, options] = request(form, method, path);
  const begun = performance.now();
  output.hidden = false;
  output.textContent = "...";
  try {
    const response = await fetch(url, options);
    const text = await response.text();
    const milliseconds = Math.round(performance.now() - begun);
    output.textContent = `${response.status} in ${milliseconds} ms\n${text.slice(0, SHOWN_CHARACTERS)}`;
  } catch {
    output.textContent = "The server does not answer. Is it running?";
  }
}

function operation(path, method, described) {
  const output = make("pre", { hidden: true });
  output.setAttribute("aria-live", "polite");
  const fields = (described.parameters ?? []).map(field);
  const content = described.requestBody ? body(described.requestBody.content) : [];
  const form = make("form", {}, ...fields, ...content, make("button", {}, "Send"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, method, path, output);
  });
  const title = make("summary", {}, make("b", {}, `${method.toUpperCase()} ${path} `), make("span", {}, described.summary));
  const answer = described.responses["200"].content["application/json"]?.schema;
  const shown = answer ? [make("p", {}, "an answer: ", make("code", {}, JSON.stringify(example(answer))))] : [];
  return make("details", { id: described.operationId }, title, ...shown, form, output);
}

const openapi = await (await fetch("openapi.json")).json();
one("#limits").textContent = openapi.info.description.replaceAll("`", "");
const groups = new Map();
for (const [path, methods] of Object.entries(resolve(openapi.paths))) {
  for (const [method, described] of Object.entries(methods)) {
    const [group] = described.tags;
    if (!groups.has(group)) groups.set(group, [make("h2", {}, `For ${group}`)]);
    groups.get(group).push(operation(path, method, described));
  }
}
const main = one("#operations");
main.replaceChildren(...[...groups.values()].flat());
main.removeAttribute("aria-busy");
