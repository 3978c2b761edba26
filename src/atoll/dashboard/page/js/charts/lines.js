// Line chart with several series, dots, bands and baselines. Mouse or arrow keys read values of the data; dragging zooms.

import { button, freshId, h, put, s, say } from "../dom.js";
import { brief, count, score } from "../format.js";
import { table } from "../table.js";
import { axes, frame, tone } from "./frame.js";
import { extent, linear, padded, symlog } from "./scale.js";

const MARGIN = { left: 58, right: 14, top: 20, bottom: 38 };
const MOST_POINTS = 1500; // drawn of one line
const EARLY = 0.04; // share of the x axis whose low values do not set the range
const JUMP = 10; // a first jump this many times larger than the rest does not set the range
const JUMP_POINTS = 4; // if the curve has at least this many points
const REACH = 12; // pixels around the mouse that choose a dot

/**
 * A line chart.
 *
 * options: title, height, xLabel, yLabel, formatX, formatY, isLinear (no switches), onOpen(id) for points with an id.
 * update(series): [{name, points: [[x, y, id?], ...], step?, dots?, band?: [[x, low, high], ...], baseline?, soft?, main?,
 * tone?}]. Dots, soft series and the first few percent of a curve do not set the range; a note says what is outside.
 */
export function lines(options) {
  const off = new Set();
  const clip = freshId("clip");
  let series = [];
  let zoom = null;
  let isLog = false;
  let isAll = false;
  let drawn = null;
  let reading = null;
  const format = (axis) => (value) => (options[axis] ?? brief)(value);
  const view = frame({ ...options, alternative, rows }, draw);
  const toggle = (label, act, title) => button(label, act, { class: "quiet inline", "aria-pressed": "false", title });
  const reset = button("Reset zoom", () => setZoom(null), { class: "quiet inline", hidden: true });
  const log = toggle("Log scale", () => { isLog = !isLog; log.setAttribute("aria-pressed", String(isLog)); view.redraw(); }, "Logarithmic score axis");
  const all = toggle("All values", () => { isAll = !isAll; all.setAttribute("aria-pressed", String(isAll)); view.redraw(); }, "Include outliers");
  const spoken = h("span", { class: "unseen", role: "status" });
  view.tools.append(reset, ...(options.isLinear ? [] : [all, log]));
  view.element.append(spoken);
  Object.entries({ tabindex: "0", "aria-roledescription": "line chart; arrow keys read its values, + and - zoom" })
    .forEach(([name, value]) => view.svg.setAttribute(name, value));

  const rank = (each) => (each.dots ? 0 : each.soft ? 1 : each.main ? 3 : 2); // the last one drawn is on top
  const visible = () => series.filter((each) => !off.has(each.name));

  function setZoom(next) {
    zoom = next;
    view.redraw();
  }

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
    const [y, outside] = levels(shown, x.domain, box);
    say(view.note, [isLog ? "Logarithmic scale." : "", outside ? `${count(outside)} ${outside === 1 ? "value is" : "values are"} outside the chart; “All values” shows them.` : ""].filter(Boolean).join(" "));
    drawn = { x, y, box };
    put(svg, axes(box, x, y, { x: options.xLabel, y: options.yLabel, formatX: format("formatX"), formatY: format("formatY") }),
      s("clipPath", { id: clip }, s("rect", { x: box.left, y: box.top - 4, width: Math.max(0, box.right - box.left), height: box.bottom - box.top + 8 })),
      s("g", { "clip-path": `url(#${clip})` }, [...shown].sort((a, b) => rank(a) - rank(b)).map((each) => path(each, x, y))),
      s("g", { class: "reader" }));
    read(reading);
  }

  /** Returns the scale of the values and the number of values outside. */
  function levels(shown, [from, to], box) {
    const inside = (each) => each.points.filter(([x], place, list) => (x >= from && x <= to) || (each.step && list[place + 1]?.[0] > from && x < from)).map(([, value]) => value);
    const firm = shown.filter((each) => !each.soft && !each.dots);
    const every = shown.flatMap((each) => [...inside(each), ...(each.band ?? []).flatMap(([x, ...two]) => (x >= from && x <= to ? two : []))]);
    const start = from + EARLY * (to - from);
    const late = (each) => settled(each.step && !each.baseline ? [valueAt(each, Math.max(start, each.points[0][0])), ...each.points.filter(([x]) => x >= start && x <= to).map(([, value]) => value)] : inside(each));
    let range = extent(isAll || !firm.length ? every : firm.flatMap(late).filter((value) => value !== null)) ?? extent(every) ?? [0, 1];
    if (!isAll && firm.length) {
      // Room for dots near the curve, so that a typical candidate is visible.
      const dots = shown.filter((each) => each.dots || each.soft).flatMap(inside).sort((a, b) => a - b);
      const quarter = dots.length ? dots[Math.floor(dots.length / 4)] : range[0];
      const room = range[1] - range[0] || Math.abs(range[1]) * 0.1 || 1;
      range = [Math.min(range[0], Math.max(quarter, range[0] - 1.5 * room)), range[1]];
    }
    const [low, high] = padded(range);
    const outside = every.filter((value) => value < low || value > high).length;
    const span = [box.bottom, box.top];
    if (!isLog || range[0] === range[1]) return [linear([low, high], span), outside];
    const sizes = extent(every.filter((value) => value && value >= range[0] && value <= range[1]).map(Math.abs)) ?? [1, 1];
    return [symlog(range, span, Math.max(sizes[0], sizes[1] * 1e-12)), outside];
  }

  function kindOf(each) {
    return `series ${tone(each.tone ?? series.indexOf(each))}${each.baseline ? " baseline" : ""}${each.soft ? " soft" : ""}${each.main ? " main" : ""}`;
  }

  function path(each, x, y) {
    const kind = kindOf(each);
    if (each.dots) return each.points.filter(([at]) => at >= x.domain[0] && at <= x.domain[1]).map(([a, b]) => s("circle", { cx: x.of(a).toFixed(1), cy: clamp(y.of(b)).toFixed(1), r: 2.2, class: `cloud ${tone(each.tone ?? 0)}` }));
    const points = thinned(each.points, x.domain).map(([a, b]) => [x.of(a), clamp(y.of(b))]);
    let d = "";
    points.forEach(([a, b], place) => {
      d += place === 0 ? `M${a.toFixed(1)} ${b.toFixed(1)}` : each.step ? `H${a.toFixed(1)}V${b.toFixed(1)}` : `L${a.toFixed(1)} ${b.toFixed(1)}`;
    });
    const dot = points.length === 1 ? s("circle", { cx: points[0][0], cy: points[0][1], r: 3, class: `${kind} dot` }) : null;
    const marks = each.main && points.length <= 60 ? points.map(([a, b]) => s("circle", { cx: a.toFixed(1), cy: b.toFixed(1), r: 3, class: `dot ${tone(each.tone ?? 0)}` })) : null;
    return [each.band ? s("path", { d: bandPath(each.band, x, y), class: `band ${tone(each.tone ?? 0)}` }) : null, s("path", { d, class: kind }), dot, marks];
  }

  /** Shows the values at a data point: {x, near?: [series, point]}. */
  function read(at) {
    reading = at;
    const layer = view.svg.querySelector(".reader");
    if (!layer || !drawn) return;
    if (at === null) { put(layer); return; }
    const { x, y, box } = drawn;
    const found = visible().filter((each) => !each.dots).map((each) => [each, valueAt(each, at.x)]).filter(([, value]) => value !== null);
    const rows = found.slice(0, 10).map(([each, value]) => `${each.name}: ${score(value)}`);
    if (at.near) rows.unshift(`${at.near[1][2] ?? at.near[0].name}: ${score(at.near[1][1])}`);
    const side = x.of(at.x) > (box.left + box.right) / 2 ? -1 : 1;
    const textX = x.of(at.x) + side * 10;
    put(layer, s("line", { x1: x.of(at.x), x2: x.of(at.x), y1: box.top, y2: box.bottom, class: "cross" }),
      found.map(([each, value]) => s("circle", { cx: x.of(at.x), cy: clamp(y.of(value)), r: 3.5, class: `dot ${tone(each.tone ?? series.indexOf(each))}` })),
      at.near ? s("circle", { cx: x.of(at.x), cy: clamp(y.of(at.near[1][1])), r: 5, class: "ring" }) : null,
      s("text", { x: textX, y: box.top + 4, "text-anchor": side < 0 ? "end" : "start", class: "reading" },
        [`${options.xLabel ?? "x"} ${format("formatX")(at.x)}`, ...rows].map((line, place) => s("tspan", { x: textX, dy: place ? 15 : 0 }, line))));
    say(spoken, `${options.xLabel ?? "x"} ${format("formatX")(at.x)}: ${rows.join(", ")}`);
  }

  let from = null;
  const placeOf = (event) => {
    const bounds = view.svg.getBoundingClientRect();
    return [Math.min(drawn.box.right, Math.max(drawn.box.left, event.clientX - bounds.left)), event.clientY - bounds.top];
  };

  /** Returns the nearest data point: a dot near the mouse, else the nearest x of a line. */
  function nearest([placeX, placeY]) {
    let near = null;
    let least = REACH;
    let best = null;
    for (const each of visible()) {
      for (const point of each.points) {
        if (point[0] < drawn.x.domain[0] || point[0] > drawn.x.domain[1]) continue;
        const away = Math.abs(drawn.x.of(point[0]) - placeX);
        if (point[2] !== undefined && away < least) {
          const distance = Math.hypot(away, drawn.y.of(point[1]) - placeY);
          if (distance < least) { least = distance; near = [each, point]; }
        }
        if (!each.dots && !each.baseline && (best === null || away < Math.abs(drawn.x.of(best) - placeX))) best = point[0];
      }
    }
    if (near) return { x: near[1][0], near };
    return best === null ? null : { x: best };
  }

  view.svg.addEventListener("pointerdown", (event) => { if (drawn && event.pointerType === "mouse") [from] = placeOf(event); });
  view.svg.addEventListener("pointermove", (event) => { if (drawn) { const at = nearest(placeOf(event)); read(at); view.svg.classList.toggle("can-open", Boolean(at?.near && options.onOpen)); } });
  view.svg.addEventListener("pointerleave", () => { from = null; read(null); });
  view.svg.addEventListener("pointerup", (event) => {
    if (!drawn) return;
    const [to] = placeOf(event);
    if (from !== null && Math.abs(to - from) > 12) setZoom([drawn.x.back(from), drawn.x.back(to)].sort((a, b) => a - b));
    else if (reading?.near) options.onOpen?.(reading.near[1][2]);
    from = null;
  });
  view.svg.addEventListener("dblclick", () => setZoom(null));
  view.svg.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape" && (zoom || reading)) { event.stopPropagation(); setZoom(null); read(null); }
    if (!drawn) return;
    if (event.key === "+" || event.key === "-") {
      const [low, high] = drawn.x.domain;
      const middle = reading?.x ?? (low + high) / 2;
      const half = ((high - low) / 2) * (event.key === "+" ? 0.5 : 2);
      const whole = extent(visible().flatMap((each) => each.points.map(([x]) => x)));
      const next = [Math.max(whole[0], middle - half), Math.min(whole[1], middle + half)];
      setZoom(next[0] === whole[0] && next[1] === whole[1] ? null : next);
    }
    if (event.key === "Enter" && reading?.near) options.onOpen?.(reading.near[1][2]);
    if (!way) return;
    event.preventDefault();
    const main = visible().find((each) => each.main) ?? visible().find((each) => !each.dots && !each.baseline) ?? visible()[0];
    const points = main.points.filter(([x]) => x >= drawn.x.domain[0] && x <= drawn.x.domain[1]);
    if (!points.length) return;
    const now = reading ? points.findIndex(([x]) => x >= reading.x) : way > 0 ? -1 : points.length;
    const point = points[Math.max(0, Math.min(points.length - 1, now + way))];
    read({ x: point[0], near: point[2] === undefined ? undefined : [main, point] });
  });

  function renderLegend() {
    put(view.legend, series.map((each, place) => button([s("svg", { class: "key", width: 30, height: 8, "aria-hidden": "true" }, each.dots ? s("circle", { cx: 15, cy: 4, r: 3, class: `cloud ${tone(each.tone ?? 0)}` }) : s("line", { x2: 30, y1: 4, y2: 4, class: kindOf(each) })), each.name], () => {
      if (!off.delete(each.name)) off.add(each.name);
      renderLegend();
      view.redraw();
      view.legend.children[place]?.focus();
    }, { class: "key-button", "aria-pressed": String(!off.has(each.name)) })));
  }

  function alternative() {
    const list = series.map((each) => ({ name: each.name, first: each.points[0], last: each.points.at(-1), range: extent(each.points.map(([, y]) => y)) }));
    const made = table(`${options.title}, values`, [
      { name: "series", cell: (row) => row.name },
      { name: "first", number: true, cell: (row) => score(row.first?.[1]) },
      { name: "lowest", number: true, cell: (row) => score(row.range?.[0]) },
      { name: "highest", number: true, cell: (row) => score(row.range?.[1]) },
      { name: "last", number: true, cell: (row) => score(row.last?.[1]) },
      { name: "at", title: options.xLabel ?? "at", number: true, cell: (row) => (row.last ? format("formatX")(row.last[0]) : "–") },
    ]);
    made.update(list);
    return made.element;
  }

  function rows() {
    return [["series", options.xLabel ?? "x", options.yLabel ?? "y", "candidate"], ...series.flatMap((each) => each.points.map(([x, y, id]) => [each.name, x, y, id]))];
  }

  let names = "";
  return {
    element: view.element,
    update(next, labels) {
      series = next.filter((each) => each.points.length);
      if (labels) {
        if (labels.xLabel !== undefined && labels.xLabel !== options.xLabel) zoom = null;
        Object.assign(options, labels);
      }
      const now = series.map((each) => `${each.name}${each.baseline}`).join("|");
      if (now !== names) { names = now; renderLegend(); }
      view.redraw();
    },
  };
}

/** Leaves out the first values of a curve if the jump from them is many times larger than all that follows. */
function settled(values) {
  let first = 0;
  const rise = (place) => values.at(-1) - values[place];
  while (values.length - first >= JUMP_POINTS && rise(first + 1) > 0 && values[first + 1] - values[first] > JUMP * rise(first + 1)) first += 1;
  return values.slice(first);
}

function bandPath(band, x, y) {
  const point = ([a], value) => `${x.of(a).toFixed(1)} ${clamp(y.of(value)).toFixed(1)}`;
  const top = band.map((each) => point(each, each[2]));
  const bottom = band.map((each) => point(each, each[1])).reverse();
  return `M${[...top, ...bottom].join("L")}Z`;
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

/** Returns the value of a series at x: the last one so far of a step line, else only the value of a point at x. */
export function valueAt(each, at) {
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
  return each.step || each.baseline || x0 === at ? y0 : null;
}
