// Line chart with several series and baselines. Mouse or arrow keys read values; dragging zooms.

import { button, freshId, h, put, s, say } from "../dom.js";
import { brief, score } from "../format.js";
import { table } from "../table.js";
import { axes, frame, tone } from "./frame.js";
import { extent, linear, padded, symlog } from "./scale.js";

const WIDE = 1000; // score ratio from which the scale is logarithmic
const MARGIN = { left: 58, right: 14, top: 20, bottom: 38 };
const MOST_POINTS = 1500; // drawn of one line

/**
 * A line chart.
 *
 * options: title, height, xLabel, yLabel, formatX, formatY, isLinear.
 * update(series): [{name, points: [[x, y], ...], step?, baseline?, soft?, main?, tone?}]; a soft series does not set the
 * range: distant values (such as means with failures) are clipped, and a note says so.
 */
export function lines(options) {
  const formatX = options.formatX ?? brief;
  const formatY = options.formatY ?? brief;
  const off = new Set();
  const clip = freshId("clip");
  let series = [];
  let zoom = null;
  let drawn = null;
  let reading = null;
  const view = frame({ ...options, alternative }, draw);
  const reset = button("Full range", () => { zoom = null; view.redraw(); }, { class: "quiet", hidden: true });
  const spoken = h("span", { class: "unseen", role: "status" });
  view.tools.append(reset);
  view.element.append(spoken);
  Object.entries({ tabindex: "0", "aria-roledescription": "line chart; arrow keys read its values" })
    .forEach(([name, value]) => view.svg.setAttribute(name, value));

  const rank = (each) => (each.soft ? 0 : each.main ? 2 : 1); // the last one drawn is on top
  const visible = () => series.filter((each) => !off.has(each.name));

  function draw(svg, width, height) {
    const box = { left: MARGIN.left, top: MARGIN.top, right: width - MARGIN.right, bottom: height - MARGIN.bottom };
    const shown = visible();
    const range = extent(shown.flatMap((each) => each.points.map(([x]) => x)));
    reset.hidden = zoom === null;
    if (!range) {
      put(svg, s("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "axis-name" }, "no data yet"));
      drawn = null;
      return;
    }
    const x = linear(zoom ?? (range[0] === range[1] ? [range[0] - 1, range[1] + 1] : range), [box.left, box.right]);
    const [y, isLog, isCut] = levels(shown, x.domain, box);
    say(view.note, [isLog ? "Logarithmic scale." : "", isCut ? "Some mean scores are outside the chart." : ""].filter(Boolean).join(" "));
    drawn = { x, y, box };
    put(svg, axes(box, x, y, { x: options.xLabel, y: options.yLabel, formatX, formatY }),
      s("clipPath", { id: clip }, s("rect", { x: box.left, y: box.top - 4, width: Math.max(0, box.right - box.left), height: box.bottom - box.top + 8 })),
      s("g", { "clip-path": `url(#${clip})` }, [...shown].sort((a, b) => rank(a) - rank(b)).map((each) => path(each, x, y))),
      s("g", { class: "reader" }));
    read(reading);
  }

  function levels(shown, [from, to], box) {
    const inside = (each) => each.points.filter(([x, value], place, all) => (x >= from && x <= to) || (each.step && all[place + 1]?.[0] > from && x < from)).map(([, value]) => value);
    const firm = shown.filter((each) => !each.soft);
    const soft = shown.filter((each) => each.soft);
    let range = extent((firm.length ? firm : soft).flatMap(inside)) ?? [0, 1];
    const wide = usual(soft.flatMap(inside));
    const room = range[1] - range[0] || Math.abs(range[1]) || 1;
    let isCut = false;
    if (wide && firm.length) {
      const low = Math.max(wide[1], range[0] - room);
      const high = Math.min(wide[2], range[1] + room);
      isCut = low > wide[0] || high < wide[3];
      range = [Math.min(range[0], low), Math.max(range[1], high)];
    }
    const sizes = extent(firm.flatMap(inside).filter(Boolean).map(Math.abs));
    const isLog = !options.isLinear && sizes !== null && sizes[1] / sizes[0] >= WIDE && range[0] !== range[1];
    const span = [box.bottom, box.top];
    if (isLog) return [symlog(range, span, Math.max(sizes[0], sizes[1] * 1e-12)), true, isCut];
    return [linear(padded(range), span), false, isCut];
  }

  function kindOf(each) {
    return `series ${tone(each.tone ?? series.indexOf(each))}${each.baseline ? " baseline" : ""}${each.soft ? " soft" : ""}${each.main ? " main" : ""}`;
  }

  function path(each, x, y) {
    const kind = kindOf(each);
    const points = thinned(each.points, x.domain).map(([a, b]) => [x.of(a), clamp(y.of(b))]);
    let d = "";
    points.forEach(([a, b], place) => {
      d += place === 0 ? `M${a.toFixed(1)} ${b.toFixed(1)}` : each.step ? `H${a.toFixed(1)}V${b.toFixed(1)}` : `L${a.toFixed(1)} ${b.toFixed(1)}`;
    });
    const dot = points.length === 1 ? s("circle", { cx: points[0][0], cy: points[0][1], r: 3, class: `${kind} dot` }) : null;
    return [s("path", { d, class: kind }), dot];
  }

  function read(at) {
    reading = at;
    const layer = view.svg.querySelector(".reader");
    if (!layer || !drawn) return;
    if (at === null) { put(layer); return; }
    const { x, y, box } = drawn;
    const found = visible().map((each) => [each, valueAt(each, at)]).filter(([, value]) => value !== null);
    const rows = found.slice(0, 12);
    const side = x.of(at) > (box.left + box.right) / 2 ? -1 : 1;
    const textX = x.of(at) + side * 10;
    put(layer, s("line", { x1: x.of(at), x2: x.of(at), y1: box.top, y2: box.bottom, class: "cross" }),
      found.map(([each, value]) => s("circle", { cx: x.of(at), cy: clamp(y.of(value)), r: 3.5, class: `dot ${tone(each.tone ?? series.indexOf(each))}` })),
      s("text", { x: textX, y: box.top + 4, "text-anchor": side < 0 ? "end" : "start", class: "reading" },
        [`${options.xLabel ?? "x"} ${formatX(at)}`, ...rows.map(([each, value]) => `${each.name}: ${score(value)}`)]
          .map((line, place) => s("tspan", { x: textX, dy: place ? 15 : 0 }, line))));
    say(spoken, `${options.xLabel ?? "x"} ${formatX(at)}: ${rows.map(([each, value]) => `${each.name} ${score(value)}`).join(", ")}`);
  }

  let from = null;
  const placeOf = (event) => {
    const bounds = view.svg.getBoundingClientRect();
    return Math.min(drawn.box.right, Math.max(drawn.box.left, event.clientX - bounds.left));
  };
  const snapped = (place) => nearest(visible(), drawn.x.back(place), drawn.x.domain);
  view.svg.addEventListener("pointerdown", (event) => { if (drawn && event.pointerType === "mouse") from = placeOf(event); });
  view.svg.addEventListener("pointermove", (event) => { if (drawn) read(snapped(placeOf(event))); });
  view.svg.addEventListener("pointerleave", () => { from = null; read(null); });
  view.svg.addEventListener("pointerup", (event) => {
    if (from !== null && drawn && Math.abs(placeOf(event) - from) > 12) {
      zoom = [drawn.x.back(from), drawn.x.back(placeOf(event))].sort((a, b) => a - b);
      view.redraw();
    }
    from = null;
  });
  view.svg.addEventListener("dblclick", () => { zoom = null; view.redraw(); });
  view.svg.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") { zoom = null; read(null); view.redraw(); }
    if (!way || !drawn) return;
    event.preventDefault();
    const width = (drawn.x.domain[1] - drawn.x.domain[0]) / 40;
    const next = Math.min(drawn.x.domain[1], Math.max(drawn.x.domain[0], (reading ?? drawn.x.domain[way > 0 ? 0 : 1]) + way * width));
    read(next);
  });

  function renderLegend() {
    put(view.legend, series.map((each, place) => button([s("svg", { class: "key", width: 30, height: 8, "aria-hidden": "true" }, s("line", { x2: 30, y1: 4, y2: 4, class: kindOf(each) })), each.name], () => {
      if (!off.delete(each.name)) off.add(each.name);
      renderLegend();
      view.redraw();
      view.legend.children[place]?.focus();
    }, { class: "key-button", "aria-pressed": String(!off.has(each.name)) })));
  }

  function alternative() {
    const rows = series.map((each) => ({ name: each.name, first: each.points[0], last: each.points.at(-1), range: extent(each.points.map(([, y]) => y)) }));
    const made = table(`${options.title}, values`, [
      { name: "series", cell: (row) => row.name },
      { name: "first", number: true, cell: (row) => score(row.first?.[1]) },
      { name: "lowest", number: true, cell: (row) => score(row.range?.[0]) },
      { name: "highest", number: true, cell: (row) => score(row.range?.[1]) },
      { name: "last", number: true, cell: (row) => score(row.last?.[1]) },
      { name: "at", title: options.xLabel ?? "at", number: true, cell: (row) => (row.last ? formatX(row.last[0]) : "–") },
    ]);
    made.update(rows);
    return made.element;
  }

  let names = "";
  return {
    element: view.element,
    update(next, labels) {
      series = next.filter((each) => each.points.length);
      if (labels) Object.assign(options, labels);
      const now = series.map((each) => `${each.name}${each.baseline}`).join("|");
      if (now !== names) { names = now; renderLegend(); }
      view.redraw();
    },
  };
}

/** Returns minimum, 5 % and 95 % quantile, and maximum of values; null if empty. */
function usual(values) {
  if (!values.length) return null;
  const sorted = Float64Array.from(values).sort();
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  return [at(0), at(0.05), at(0.95), at(1)];
}

function clamp(place) {
  return Math.max(-1e5, Math.min(1e5, place));
}

/** Reduces points to the first, lowest, highest and last of each column. */
function thinned(points, [from, to]) {
  if (points.length <= MOST_POINTS) return points;
  const columns = Math.floor(MOST_POINTS / 4);
  const kept = [];
  let column = null;
  let group = [];
  const flush = () => {
    if (!group.length) return;
    const low = group.reduce((a, b) => (b[1] < a[1] ? b : a));
    const high = group.reduce((a, b) => (b[1] > a[1] ? b : a));
    const four = [...new Set([group[0], low, high, group.at(-1)])];
    kept.push(...four.sort((a, b) => a[0] - b[0]));
  };
  for (const point of points) {
    const now = Math.floor(((point[0] - from) / (to - from || 1)) * columns);
    if (now !== column) { flush(); group = []; column = now; }
    group.push(point);
  }
  flush();
  return kept;
}

/** Returns the value of a series at x: the last one before (step lines) or an interpolation. */
function valueAt(each, at) {
  const { points } = each;
  let low = 0;
  let high = points.length - 1;
  if (high < 0 || at < points[0][0]) return null;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (points[middle][0] <= at) low = middle;
    else high = middle - 1;
  }
  const [x0, y0] = points[low];
  const next = points[low + 1];
  if (each.step || each.baseline || !next || next[0] === x0) return y0;
  return y0 + ((at - x0) / (next[0] - x0)) * (next[1] - y0);
}

/** Returns the x of the nearest data point. */
function nearest(shown, at, [from, to]) {
  let best = null;
  for (const each of shown) {
    if (each.baseline) continue;
    for (const [x] of each.points) {
      if (x >= from && x <= to && (best === null || Math.abs(x - at) < Math.abs(best - at))) best = x;
    }
  }
  return best ?? at;
}
