// Pictures of what each version did. Where the app was not built, uPlot is missing and this script alone does not run.

import { all, clock, element, one } from "./ask.js";
import Plot from "../uplot.js";

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]]; // by version, beside its colour
const hint = one("#mark").textContent;

let plots = [], pointed;

const tell = (value) => (value == null ? "–" : Number(value.toPrecision(3)).toLocaleString());

function lookOf(version, isStacked, figure) {
  const place = Number(BigInt(version) % 8n);
  figure.className = `v${place}`;
  const stroke = getComputedStyle(figure).fill; // as a canvas takes it
  if (isStacked) return { stroke, fill: stroke, width: 0, points: { show: false } };
  return { stroke, width: 2, dash: DASHES[place % 4], spanGaps: true, points: { show: true, size: 4 } };
}

function draw(figure, { lines, tops }, { times, step, versions, marks }) {
  const stroke = getComputedStyle(figure).color, grid = { stroke: "#8884", width: 1 };
  const axis = { stroke, grid, ticks: grid };
  const options = {
    width: figure.clientWidth, height: 160,
    drawOrder: ["series", "axes"], // marks lie on the stack
    cursor: { sync: { key: figure.closest("#plots")?.id ?? null }, drag: { x: false }, y: false },
    scales: {
      x: { range: () => [times[0] - step, times.at(-1) + step] },
      y: { range: (_, __, most) => [0, (most || 1) * 1.1] },
    },
    axes: [
      { ...axis, size: 30, space: 100, values: (_, at) => at.map((time) => clock(time, step > 60 ? "short" : "medium")) },
      axis,
      { // a mark for each switch
        scale: "x", side: 0, size: 16, gap: 0, stroke, ticks: { show: false }, grid: { stroke, dash: [3, 3] },
        splits: (_, __, from, to) => marks.map(({ at }) => at).filter((at) => at > from && at < to),
        values: (_, at) => at.map(() => "▾"),
      },
    ],
    series: [
      { label: "Time", value: (_, at) => (at === null ? "just now" : clock(at)) },
      ...lines.map((line, of) => ({
        ...lookOf(versions[of], tops, figure),
        label: `version ${versions[of]}`,
        value: (_, __, ___, i) => tell(line[i ?? Math.max(0, times.length - 2)]), // the last point is not whole yet
      })),
    ],
    bands: tops?.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })),
    hooks: { setCursor: [({ cursor: { idx } }) => point(times[idx], step, marks)] },
  };
  const plot = new Plot(options, [times, ...(tops ?? lines)], figure);
  if (times.includes(pointed)) moveTo(plot, pointed);
  return plot;
}

// Which switch the cursor is at.
function point(at, step, marks) {
  const near = marks.find((mark) => mark.at >= at - step && mark.at < at + 2 * step);
  one("#mark").textContent = near ? `${clock(near.at)}, ${near.text}` : hint;
  pointed = at;
}

const moveTo = (plot, time) => plot.setCursor({ left: plot.valToPos(time, "x"), top: 0 }, true, true);

// Those that the server has sent since the last time.
function drawAll() {
  for (const place of all("[data-pictures]")) {
    const found = JSON.parse(place.dataset.pictures);
    delete place.dataset.pictures;
    const figures = found.pictures.map(({ title }) => element("figure", element("figcaption", title)));
    place.replaceChildren(...figures); // all of them, before the first is measured
    plots.push(...figures.map((figure, i) => draw(figure, found.pictures[i], found)));
  }
  plots.filter(({ root }) => !root.isConnected).forEach((plot) => plot.destroy());
  plots = plots.filter(({ root }) => root.isConnected);
}

one("#plots").addEventListener("keydown", ({ key }) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[key], plot = plots.find(({ root }) => root.closest("#plots"));
  if (!step || !plot) return;
  const [times] = plot.data, last = times.length - 1;
  moveTo(plot, times[Math.min(last, Math.max(0, (plot.cursor.idx ?? last) + step))]);
});
addEventListener("shown", drawAll);
drawAll();
