// Scatter plot of two metrics with the Pareto front.

import { h, put, s, say } from "../dom.js";
import { brief, count, score } from "../format.js";
import { table } from "../table.js";
import { axes, frame, tone } from "./frame.js";
import { extent, linear, padded } from "./scale.js";

const MARGIN = { left: 58, right: 14, top: 20, bottom: 38 };
const MOST = 3000; // points drawn

/** Returns the Pareto front; higher is better in both metrics. */
function front(points) {
  const found = [];
  let high = -Infinity;
  for (const point of [...points].sort((a, b) => b.x - a.x || b.y - a.y)) {
    if (point.y > high) { found.push(point); high = point.y; }
  }
  return found.reverse();
}

/** update(points, {xLabel, yLabel}): [{x, y, id?, tone?, label?}]; options: title, note, onOpen(point), hasFront, isSquare (equal axes with a
 * diagonal), legend: [[tone, name], ...]. */
export function scatter(options) {
  let points = [];
  const view = frame({ height: 300, ...options, alternative, rows: () => [["candidate", options.xLabel ?? "x", options.yLabel ?? "y"], ...points.map((each) => [each.label ?? each.id, each.x, each.y])] }, draw);
  say(view.note, options.note ?? "");

  function draw(svg, width, height) {
    const box = { left: MARGIN.left, top: MARGIN.top, right: width - MARGIN.right, bottom: height - MARGIN.bottom };
    const shown = points.slice(0, MOST);
    const [rangeX, rangeY] = [extent(shown.map((each) => each.x)), extent(shown.map((each) => each.y))];
    if (!rangeX || !rangeY) {
      put(svg, s("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no data yet"));
      return;
    }
    const both = extent([...rangeX, ...rangeY]);
    const x = linear(padded(options.isSquare ? both : rangeX), [box.left, box.right]);
    const y = linear(padded(options.isSquare ? both : rangeY), [box.bottom, box.top]);
    const edge = options.hasFront ? front(points) : [];
    put(svg, axes(box, x, y, { x: options.xLabel, y: options.yLabel, formatX: brief, formatY: options.formatY ?? brief }),
      options.isSquare ? s("line", { x1: x.of(both[0]), y1: y.of(both[0]), x2: x.of(both[1]), y2: y.of(both[1]), class: "diagonal" }) : null,
      edge.length ? s("path", { d: stairs(edge, x, y), class: "series tone-1" }) : null,
      shown.map((each) => s("circle", {
        cx: x.of(each.x), cy: y.of(each.y), r: each.size ?? (edge.includes(each) ? 4.5 : 3), class: `dot ${tone(edge.includes(each) ? 1 : each.tone ?? 0)}`,
        on: { click: () => options.onOpen?.(each), pointerenter: () => tell(each) },
      })));
    if (points.length > MOST) say(view.note, `${count(MOST)} of ${count(points.length)} points are shown.`);
  }

  function tell(each) {
    say(view.note, `${each.label ?? each.id ?? "point"}: ${options.xLabel ?? "x"} ${score(each.x)}, ${options.yLabel ?? "y"} ${score(each.y)}`);
  }

  function alternative() {
    const made = table(options.title, [
      { name: "id", title: "candidate", cell: (each) => each.label ?? each.id ?? "" },
      { name: "x", title: options.xLabel ?? "x", number: true, cell: (each) => score(each.x), sort: (each) => each.x },
      { name: "y", title: options.yLabel ?? "y", number: true, cell: (each) => score(each.y), sort: (each) => each.y },
    ]);
    made.update((options.hasFront ? front(points) : points).slice(0, 300));
    return made.element;
  }

  return {
    element: view.element,
    update(next, labels) {
      Object.assign(options, labels);
      points = next;
      if (options.legend) put(view.legend, options.legend.map(([place, name]) => h("span", { class: "note" }, s("svg", { width: 12, height: 10, "aria-hidden": "true" }, s("circle", { cx: 6, cy: 5, r: 4, class: `dot ${tone(place)}` })), ` ${name} `)));
      view.redraw();
    },
  };
}

/** Draws the front as a staircase; points below and left of it are dominated. */
function stairs(edge, x, y) {
  return edge.map((each, place) => (place === 0 ? `M${x.of(each.x).toFixed(1)} ${y.of(each.y).toFixed(1)}` : `V${y.of(each.y).toFixed(1)}H${x.of(each.x).toFixed(1)}`)).join("");
}
