// Pictures of what each version did: requests, errors and times, with the switches as marks.

import { all, ask, clock, element, local, one, shown } from "./ask.js";

const HEIGHT = 160;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]]; // by version, beside its colour
const errors = (v, i) => (v.requests[i] ? (100 * (v.refused[i] + v.failed[i])) / v.requests[i] : null);
const PLOTS = [
  { title: "Requests a second", of: (v, i, seconds) => v.requests[i] / Math.max(2, seconds), isStacked: true },
  { title: "Errors, % of all requests", of: errors },
  { title: "Median time, ms", of: (v, i) => v.p50_ms[i] },
  { title: "95 of 100 within, ms", of: (v, i) => v.p95_ms[i] },
];
const library = import("../uplot.js").then((module) => module.default).catch(() => null); // the page does not wait for it
const hint = one("#mark").textContent;

let series, plots = [], drawn = "";

const tell = (value) => (value === null ? "–" : Number(value.toPrecision(3)).toLocaleString());

async function fetchSeries(model, seconds, until) {
  const query = new URLSearchParams({ model, seconds, ...(until && { until }) });
  const found = await (await ask(`api/admin/series?${query}`)).json(), end = until ?? found.now;
  return { ...found, end, from: Math.max(end - seconds, found.began - 60) };
}

// What a version did at a point, or at the last whole one.
function valueAt(plot, found, version, index) {
  const i = index ?? Math.max(0, found.times.length - 2);
  return plot.of(found.versions[version], i, Math.min(found.step, found.now - found.times[i]));
}

function dataOf(plot, found) {
  const lines = Object.keys(found.versions).map((version) => found.times.map((_, i) => valueAt(plot, found, version, i)));
  for (let place = 1; plot.isStacked && place < lines.length; place += 1) {
    lines[place] = lines[place].map((value, i) => value + lines[place - 1][i]);
  }
  return [found.times, ...lines];
}

function lookOf(version, isStacked) {
  const place = Number(BigInt(version) % 8n);
  const swatch = document.body.appendChild(element("i", [], { className: `v${place}` }));
  const stroke = getComputedStyle(swatch).backgroundColor; // as a canvas takes it
  swatch.remove();
  if (isStacked) return { stroke, fill: stroke, width: 0, points: { show: false } };
  return { stroke, width: 2, dash: DASHES[place % 4], spanGaps: true, points: { show: true, size: 4 } };
}

// `found` and `switches` are asked again at each drawing.
function make(Plot, plot, found, switches, place, onCursor = () => {}) {
  const versions = Object.keys(found().versions);
  const stroke = getComputedStyle(place).color, lines = { stroke: "#8884", width: 1 };
  const axis = { stroke, grid: lines, ticks: lines };
  const options = {
    width: place.clientWidth, height: HEIGHT,
    drawOrder: ["series", "axes"], // marks lie on the stack
    cursor: { sync: { key: place.parentElement.id || null }, drag: { x: false }, y: false },
    scales: { x: { range: () => [found().from, found().end] }, y: { range: (_, __, most) => [0, (most || 1) * 1.1] } },
    axes: [
      { ...axis, size: 30, space: 100, values: (_, times, __, ___, step) => times.map((time) => clock(time, step < 60)) },
      axis,
      { // a mark for each switch
        scale: "x", side: 0, size: 16, gap: 0, stroke, ticks: { show: false }, grid: { stroke, dash: [3, 3] },
        splits: (_, __, from, to) => switches().map(({ at }) => at).filter((at) => at > from && at < to),
        values: (_, times) => times.map(() => "▾"),
      },
    ],
    series: [
      { label: "Time", value: (_, __, ___, i) => (i === null ? "just now" : clock(found().times[i], true)) },
      ...versions.map((version) => ({
        ...lookOf(version, plot.isStacked),
        label: `version ${version}`,
        value: (_, __, ___, i) => tell(valueAt(plot, found(), version, i)),
      })),
    ],
    bands: plot.isStacked ? versions.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : [],
    hooks: { setCursor: [onCursor] },
  };
  return new Plot(options, dataOf(plot, found()), place);
}

export const seconds = () => Number(one("[name=span]:checked").value);

export async function showPictures(model) {
  if (!model) return;
  const span = seconds(), fetched = await fetchSeries(model, span);
  if (span !== seconds() || model !== shown().model) return; // others were asked for meanwhile
  series = fetched;
  fillTable();
  const Plot = await library;
  if (!Plot) return; // the page says so
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const key = [model, seconds(), innerWidth, isDark, ...Object.keys(series.versions)].join();
  if (key === drawn) return plots.forEach((plot, place) => plot.setData(dataOf(PLOTS[place], series)));
  drawn = key;
  plots.forEach((plot) => plot.destroy());
  const places = PLOTS.map(({ title }) => element("figure", element("figcaption", title)));
  one("#plots").replaceChildren(...places);
  plots = PLOTS.map((plot, place) => make(Plot, plot, () => series, marks, places[place], tellMark));
}

const marks = () => all(".log li").map((item) => {
  const text = `${one(".author", item).textContent}: ${one(".what", item).textContent}`;
  return { at: new Date(one("time", item).dateTime) / 1000, text };
});

// Which switch the cursor is at.
function tellMark({ cursor: { idx } }) {
  const at = series.times[idx];
  const near = marks().find((mark) => mark.at >= at - series.step && mark.at < at + 2 * series.step);
  one("#mark").textContent = near ? `${clock(near.at, true)}, ${near.text}` : hint;
}

function fillTable() {
  const rows = [];
  for (const [i, at] of series.times.entries()) {
    for (const [version, { requests, refused, failed, p50_ms, p95_ms }] of Object.entries(series.versions)) {
      const cells = [version, requests[i], refused[i], failed[i], tell(p50_ms[i]), tell(p95_ms[i])];
      const head = element("th", clock(at, true), { scope: "row" });
      if (requests[i]) rows.unshift(element("tr", [head, ...cells.map((text) => element("td", text))]));
    }
  }
  one("#step").textContent = `Points of ${series.step} seconds with requests, the newest first`;
  one("#figures").replaceChildren(...rows);
}

// What the version did when the server went back by itself; where it does not know, the banner says so. It stays until
// somebody closes it in this browser.
export async function drawBanner(banner) {
  const { banner: name, model, at, plot: number } = banner.dataset, end = new Date(at) / 1000, plot = PLOTS[number];
  if (local[name]) return banner.remove();
  const [Plot, found] = await Promise.all([library, fetchSeries(model, 900, Math.round(end + 30)).catch(() => null)]);
  if (!Plot || !(found?.began < end)) return;
  const place = one("figure", banner);
  place.replaceChildren(element("figcaption", plot.title));
  make(Plot, plot, () => found, () => [{ at: end }], place);
}

one("#plots").addEventListener("keydown", ({ key }) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key], last = series.times.length - 1;
  if (!step || !plots.length) return;
  const index = Math.min(last, Math.max(0, (plots[0].cursor.idx ?? last) + step));
  plots[0].setCursor({ left: plots[0].valToPos(series.times[index], "x"), top: 0 }, true, true);
});
