// Frame of all charts: title, resizable drawing, legend, and the data as an accessible table.

import { freshId, h, put, s } from "../dom.js";

/** Returns the class of the n-th color; css/charts.css has ten, each with its own dash. */
export function tone(place) {
  return `tone-${place % 10}`;
}

/**
 * Creates the frame of a chart; `draw(svg, width, height)` redraws it when its size or data change.
 *
 * options: title, height, note, alternative() -> node with the same data as a table.
 */
export function frame(options, draw) {
  const titleId = freshId("chart");
  const svg = s("svg", { class: "drawing", role: "img", "aria-labelledby": titleId });
  const place = h("div", { class: "drawing-place", style: { height: `${options.height ?? 260}px` } }, svg);
  const legend = h("div", { class: "legend" });
  const note = h("p", { class: "note" });
  const told = h("div", { class: "told" });
  const details = h("details", { class: "as-table", on: { toggle: () => details.open && put(told, options.alternative?.() ?? null) } },
    h("summary", {}, "As a table"), told);
  const heading = h("h3", { id: titleId }, options.title);
  const tools = h("div", { class: "chart-tools" });
  const element = h("figure", { class: "chart" }, h("div", { class: "chart-head" }, heading, tools), legend, place, note, options.alternative ? details : null);
  let isDue = false;

  function redraw() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      const width = place.clientWidth;
      if (!width || !element.isConnected) return;
      const height = options.height ?? 260;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("width", width);
      svg.setAttribute("height", height);
      draw(svg, width, height);
      if (details.open) put(told, options.alternative());
    });
  }

  new ResizeObserver(redraw).observe(place);
  return { element, svg, place, legend, note, tools, heading, redraw };
}

/** Axes with a grid: `x` and `y` are scales over the box {left, top, right, bottom}. */
export function axes(box, x, y, labels) {
  const number = Math.max(2, Math.floor((box.right - box.left) / 90));
  const levels = Math.max(2, Math.floor((box.bottom - box.top) / 45));
  return s("g", { class: "axes" },
    y.ticks(levels).map((value) => {
      const at = y.of(value);
      return [s("line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "grid" }),
        s("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, labels.formatY(value))];
    }),
    x.ticks(number).map((value) => {
      const at = x.of(value);
      return [s("line", { x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4, class: "tick" }),
        s("text", { x: at, y: box.bottom + 17, "text-anchor": "middle" }, labels.formatX(value))];
    }),
    s("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "base" }),
    s("text", { x: box.right, y: box.bottom + 32, "text-anchor": "end", class: "axis-name" }, labels.x ?? ""),
    s("text", { x: 2, y: box.top - 7, class: "axis-name" }, labels.y ?? ""));
}
