// Pictures of what each version did: requests, errors and times, with the switches as marks.

import { all, ask, capital, clock, element, one } from "./ask.js";

const HEIGHT = 150, LEAST_SECONDS = 120;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]]; // by version, beside its colour
const errors = (v, i) => (v.requests[i] ? (100 * (v.refused[i] + v.failed[i])) / v.requests[i] : null);
const PLOTS = [
  { title: "Requests a second", unit: "", of: (v, i, seconds) => (seconds < 2 ? null : v.requests[i] / seconds), isStacked: true },
  { title: "Errors, of all requests", unit: " %", of: errors },
  { title: "Median time", unit: " ms", of: (v, i) => v.p50_ms[i] },
  { title: "95 of 100 within", unit: " ms", of: (v, i) => v.p95_ms[i] },
];
const library = import("../uplot.js").then((module) => module.default).catch(() => null);
const round = (value) => (value === null ? "–" : Number(value.toPrecision(value < 1000 ? 3 : 4)).toLocaleString());
// E.g. "12.5 ms", "1.2 s", "15 %".
const tell = (value, unit) => (unit === " ms" && value >= 1000 ? `${round(value / 1000)} s` : `${round(value)}${unit}`);

function colour(name) { // of a class of the style sheet, as a canvas takes it
  const swatch = document.body.appendChild(element("i", "", { className: name }));
  const found = getComputedStyle(swatch).backgroundColor;
  swatch.remove();
  return found;
}
const ofVersion = (version) => colour(`v${version % 8}`);

let drawn = "", plots = [], series = null;

// -- figures -----------------------------------------------------------------------------------------------------------

const numbers = () => Object.keys(series.versions).map(Number);
const lasts = (found, i) => (i < found.times.length - 1 ? found.step : found.now - found.times[i]);
const marks = () => all(".log li").map((item) => {
  const text = `${one(".author", item).textContent}: ${one(".what", item).textContent}`;
  return { at: new Date(one("time", item).dateTime) / 1000, text };
});

function dataOf(plot, found) {
  const values = Object.values(found.versions).map((each) => found.times.map((_, i) => plot.of(each, i, lasts(found, i))));
  for (let place = 1; plot.isStacked && place < values.length; place += 1) {
    values[place] = values[place].map((value, i) => (value === null ? null : value + values[place - 1][i]));
  }
  return [found.times, ...(plot.isStacked ? values.reverse() : values)];
}

// -- plots -------------------------------------------------------------------------------------------------------------

// `found` and `switches` are asked again at each drawing.
function make(Plot, plot, found, place, switches, onCursor) {
  const versions = Object.keys(found().versions).map(Number);
  const lines = plot.isStacked ? [...versions].reverse() : versions;
  const [soft, line] = [colour("soft"), colour("line")];
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
  const options = {
    width: place.clientWidth || 300, height: HEIGHT,
    cursor: { sync: { key: place.closest("[data-banner]") ? null : "console" }, drag: { x: false, y: false }, y: false },
    scales: { x: { time: true, range: () => [found().from, found().now] }, y: { range: (_, __, most) => [0, (most || 1) * 1.1] } },
    axes: [
      { ...axis, space: 100, values: (_, times, __, ___, step) => times.map((time) => clock(time, step < 60)) },
      { ...axis, size: 62, values: (_, values) => values.map((value) => tell(value, plot.unit)) },
    ],
    series: [
      { value: (_, __, ___, i) => (i === null ? "Just now" : clock(found().times[i], true)) },
      ...lines.map((version) => ({ label: `version ${version}`, ...lineOf(version, plot), value: (_, __, ___, i) => figure(plot, found(), version, i) })),
    ],
    hooks: { draw: [(drawing) => drawMarks(drawing, switches())], setCursor: [({ cursor }) => onCursor(cursor.idx)] },
  };
  return new Plot(options, dataOf(plot, found()), place);
}

// At a point, or at the last whole one.
function figure(plot, found, version, index) {
  const i = index ?? Math.max(0, found.times.length - 2);
  const value = found.times.length ? plot.of(found.versions[version], i, lasts(found, i)) : null;
  return value === null ? "–" : tell(value, plot.unit);
}

function lineOf(version, { isStacked }) {
  const stroke = ofVersion(version);
  if (isStacked) return { stroke, fill: stroke, width: 0, points: { show: false } };
  return { stroke, width: 2, dash: DASHES[version % 4], spanGaps: true, points: { show: true, size: 4 } };
}

function drawMarks({ ctx, bbox, valToPos, scales }, switches) {
  ctx.save();
  ctx.strokeStyle = colour("ink");
  ctx.setLineDash([3, 3]);
  for (const { at } of switches.filter(({ at }) => at >= scales.x.min && at <= scales.x.max)) {
    const x = Math.round(valToPos(at, "x", true)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

// -- the section -------------------------------------------------------------------------------------------------------

export const seconds = () => Number(one("[name=span]:checked").value);

export async function showPictures(model) {
  one("#pictures").hidden = !model;
  if (!model) return;
  const asked = seconds();
  let found;
  try {
    found = await fetchSeries(model, asked);
  } catch (error) { // what is drawn stays
    one("#began").textContent = error.message;
    return;
  }
  if (asked !== seconds()) return; // another one was chosen meanwhile
  series = found;
  const since = `The server has counted since ${clock(series.began)}, when it started; what was before is not known.`;
  one("#began").textContent = series.isShort ? since : "";
  tellMark(null);
  if (one("#all-figures").open) fillTable();
  const Plot = await library;
  if (!Plot) {
    const why = "There are no pictures: the app was not built (make setup). The table has the figures.";
    return one("#plots").replaceChildren(element("p", why, { className: "note" }));
  }
  const key = JSON.stringify([model, asked, numbers(), matchMedia("(prefers-color-scheme: dark)").matches]);
  if (key === drawn) return plots.forEach((plot, place) => plot.setData(dataOf(PLOTS[place], series)));
  drawn = key;
  plots.forEach((plot) => plot.destroy());
  const places = PLOTS.map(({ title }) => element("figure", element("figcaption", title)));
  one("#plots").replaceChildren(...places);
  plots = PLOTS.map((plot, place) => make(Plot, plot, () => series, places[place], marks, tellMark));
}

async function fetchSeries(model, seconds, until) {
  const query = new URLSearchParams({ model, seconds, ...(until && { until: Math.round(until) }) });
  const found = await (await ask(`api/admin/series?${query}`)).json();
  const end = Math.min(until ?? found.now, found.now), from = end - seconds, isShort = found.began > from;
  return { ...found, now: end, isShort, from: isShort ? Math.min(found.began, end - LEAST_SECONDS) : from };
}

// Which switch the cursor is at.
function tellMark(index) {
  const at = series.times[index];
  const near = marks().find((mark) => mark.at >= at - series.step && mark.at < at + 2 * series.step);
  const help = marks().some((mark) => mark.at > series.from) ? "Dashed lines are switches; point at one, and this line says which." : "";
  one("#mark").textContent = near ? `${clock(near.at, true)}, ${near.text}` : help;
}

function fillTable() {
  const heads = ["Time", "Version", "Requests", "Refused", "Failed", "Median", "95 of 100 within"].map((text) => element("th", text, { scope: "col" }));
  const rows = [];
  for (const [i, at] of series.times.entries()) {
    for (const [number, { requests, refused, failed, p50_ms, p95_ms }] of Object.entries(series.versions)) {
      const cells = [number, requests[i], refused[i], failed[i], tell(p50_ms[i], " ms"), tell(p95_ms[i], " ms")];
      const head = element("th", clock(at, true), { scope: "row" });
      if (requests[i]) rows.unshift(element("tr", [head, ...cells.map((text) => element("td", String(text)))]));
    }
  }
  const caption = element("caption", `Points of ${series.step} seconds with requests, the newest first`);
  one("#all-figures .wide").replaceChildren(element("table", [caption, element("thead", element("tr", heads)), element("tbody", rows)]));
}

// What the version did when the guard took it back.
export async function drawBanner(banner) {
  const { model, at, slower } = banner.dataset, end = new Date(at) / 1000;
  const reason = one(".reason", banner);
  reason.textContent = capital(reason.textContent);
  const place = one(".then", banner), note = (text) => place.replaceChildren(element("p", text, { className: "note" }));
  const [Plot, found] = await Promise.all([library, fetchSeries(model, 900, end + 30).catch(() => null)]);
  if (!found?.times.length || !Object.keys(found.versions).length) return note("There is no picture of that time: the server was started after it.");
  const plot = PLOTS[slower === "True" ? 2 : 1];
  const picture = element("figure", element("figcaption", plot.title));
  place.replaceChildren(picture);
  if (Plot) make(Plot, plot, () => found, picture, () => [{ at: end }], () => {});
}

// -- events ------------------------------------------------------------------------------------------------------------

one("#all-figures").addEventListener("toggle", () => series && one("#all-figures").open && fillTable());
one("#plots").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || !plots.length) return;
  event.preventDefault();
  const last = series.times.length - 1, index = Math.min(last, Math.max(0, (plots[0].cursor.idx ?? last) + step));
  for (const plot of plots) plot.setCursor({ left: plot.valToPos(series.times[index], "x"), top: 0 });
});
new ResizeObserver(() => {
  for (const plot of plots) plot.setSize({ width: plot.root.parentElement.clientWidth, height: HEIGHT });
}).observe(one("#plots"));
