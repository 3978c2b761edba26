// Graph of worldlines: columns are generations, dots are worldlines, lines lead to parents.

import { h, put, s } from "../../dom.js";
import { score } from "../../format.js";
import { extent } from "../../charts/scale.js";

const COLUMN = 64;
const ROW = 22;
const EDGE = 30; // margin
const MOST_LINES = 6000;

/** options: onOpen(step). update(generations, chosen). */
export function graph(options) {
  const svg = s("svg", { class: "drawing worldline-graph", role: "img", "aria-label": "Worldlines by generation, with lines to their parents; the list below has the same content" });
  const element = h("div", {}, legend(), h("div", { class: "graph-frame", tabindex: "0", role: "region", "aria-label": "Graph of worldlines" }, svg));

  function update(generations, chosen) {
    const places = new Map();
    generations.forEach((each, column) => each.worldlines.forEach((line, row) => places.set(line.step, { line, x: EDGE + column * COLUMN, y: EDGE + 14 + row * ROW })));
    const rows = Math.max(1, ...generations.map((each) => each.worldlines.length));
    const [width, height] = [2 * EDGE + Math.max(1, generations.length - 1) * COLUMN, 2 * EDGE + rows * ROW];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const range = extent([...places.values()].map((each) => each.line.best).filter(Number.isFinite)) ?? [0, 1];
    const share = (value) => (range[0] === range[1] ? 1 : (value - range[0]) / (range[1] - range[0]));
    put(svg, generations.map((each, column) => s("text", { x: EDGE + column * COLUMN, y: 18, "text-anchor": "middle" }, each.generation)),
      s("g", { class: "graph-lines" }, lines(places, chosen)),
      [...places.values()].map(({ line, x, y }) => s("g", { class: line.step === chosen ? "graph-node chosen" : "graph-node", on: { click: () => options.onOpen(line.step) } },
        s("circle", { cx: x, cy: y, r: line.is_solved ? 8 : 6, class: line.is_solved ? "solved" : "", "fill-opacity": (0.15 + 0.85 * (Number.isFinite(line.best) ? share(line.best) : 0)).toFixed(2) }),
        s("title", {}, `worldline ${line.step}: ${score(line.best)}${line.is_solved ? ", solved" : ""}`))));
  }

  return { element, update };
}

/** Legend of columns, dots and lines. */
function legend() {
  const key = (text, ...marks) => h("li", {}, s("svg", { width: 34, height: 20, "aria-hidden": "true" }, marks), " ", text);
  const dot = (props, kind = "graph-node") => s("g", { class: kind }, s("circle", { cx: 17, cy: 10, r: 6, ...props }));
  return h("ul", { class: "graph-legend", "aria-label": "Legend of the graph" },
    h("li", {}, "a column: a generation"),
    key("worldline; darker means a better score", s("g", { class: "graph-node" }, s("circle", { cx: 9, cy: 10, r: 6, "fill-opacity": 0.15 }), s("circle", { cx: 25, cy: 10, r: 6 }))),
    key("solved: larger and green", dot({ r: 8, class: "solved" })),
    key("selected worldline", dot({}, "graph-node chosen")),
    key("parent", s("g", { class: "graph-lines" }, s("path", { d: "M2 10H32" }))),
    key("parent of the selected worldline", s("g", { class: "graph-lines" }, s("path", { d: "M2 10H32", class: "near" }))));
}

function lines(places, chosen) {
  const found = [];
  for (const { line, x, y } of places.values()) {
    for (const parent of new Set(line.parents.map((each) => Number(String(each).split(".")[0])))) {
      const from = places.get(parent);
      if (!from || found.length >= MOST_LINES) continue;
      const isNear = line.step === chosen || parent === chosen;
      const middle = (from.x + x) / 2;
      found.push(s("path", { d: `M${from.x} ${from.y}C${middle} ${from.y} ${middle} ${y} ${x} ${y}`, class: isNear ? "near" : null }));
    }
  }
  return found;
}
