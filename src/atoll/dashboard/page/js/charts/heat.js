// Heat map: a grid of cells; darker is better. Arrow keys move between cells.

import { h, put, s, say } from "../dom.js";
import { score } from "../format.js";
import { table } from "../table.js";
import { frame } from "./frame.js";
import { brief } from "../format.js";
import { extent } from "./scale.js";

const SHADES = 5; // of the scale
const MARGIN = { left: 62, right: 24, top: 22, bottom: 36 };

/**
 * A heat map.
 *
 * options: title, xLabel, yLabel, onOpen(cell). update({cells: [{x, y, value, id?, label?}], width, height}): x and y
 * are whole numbers from 0.
 */
export function heat(options) {
  let grid = { cells: [], width: 0, height: 0 };
  let byPlace = new Map();
  let at = null;
  const view = frame({ height: 340, ...options, alternative, rows: () => [["x", "y", "score", "candidate", "candidates"], ...grid.cells.map((cell) => [cell.x, cell.y, cell.value, cell.id, cell.size])] }, draw);
  const spoken = h("p", { class: "note", role: "status" });
  view.element.append(spoken);
  view.svg.setAttribute("tabindex", "0");
  view.svg.setAttribute("aria-roledescription", "heat map; arrow keys move, Enter opens");

  function draw(svg, width, height) {
    const box = { left: MARGIN.left, top: MARGIN.top, right: width - MARGIN.right, bottom: height - MARGIN.bottom };
    if (!grid.cells.length) {
      put(svg, s("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no cells yet"));
      put(view.legend);
      return;
    }
    const side = Math.min((box.right - box.left) / grid.width, (box.bottom - box.top) / grid.height, 64);
    const range = extent(grid.cells.map((cell) => cell.value)) ?? [0, 1];
    const share = (value) => (range[0] === range[1] ? 1 : (value - range[0]) / (range[1] - range[0]));
    put(view.legend, scale(range));
    const placeX = (x) => box.left + x * side;
    const placeY = (y) => box.bottom - (y + 1) * side;
    const [everyX, everyY] = [Math.ceil(44 / side), Math.ceil(16 / side)]; // space for labels
    put(svg,
      s("rect", { x: box.left, y: placeY(grid.height - 1), width: side * grid.width, height: side * grid.height, class: "heat-ground" }),
      s("g", { class: "heat-empty" }, upTo(grid.width).flatMap((x) => upTo(grid.height).filter((y) => !byPlace.has(`${x},${y}`)).map((y) => s("path", { d: `M${placeX(x) + side * 0.35} ${placeY(y) + side * 0.65}l${side * 0.3} ${-side * 0.3}` })))),
      s("g", { class: "heat" }, grid.cells.map((cell) => s("rect", {
        x: placeX(cell.x), y: placeY(cell.y), width: side, height: side, "fill-opacity": shade(share(cell.value)),
        class: at && at[0] === cell.x && at[1] === cell.y ? "chosen" : null,
        on: { click: () => options.onOpen?.(cell), pointerenter: () => tell(cell) },
      }))),
      edges(grid.width, everyX, grid.rangeX).map(([x, text]) => s("text", { x: placeX(x), y: box.bottom + 15, "text-anchor": "middle" }, text)),
      edges(grid.height, everyY, grid.rangeY).map(([y, text]) => s("text", { x: box.left - 6, y: placeY(y - 1) + 4, "text-anchor": "end" }, text)),
      s("text", { x: placeX(grid.width), y: box.bottom + 31, "text-anchor": "end", class: "axis-name" }, `${options.xLabel ?? "x"} →`),
      s("text", { x: 2, y: placeY(grid.height - 1) - 8, class: "axis-name" }, `${options.yLabel ?? "y"} ↑`));
  }

  function tell(cell) {
    say(spoken, `${options.xLabel ?? "x"} ${interval(cell.x, grid.rangeX, grid.width)}, ${options.yLabel ?? "y"} ${interval(cell.y, grid.rangeY, grid.height)}: ${score(cell.value)}${cell.id ? `, candidate ${cell.id}` : ""}${cell.size > 1 ? `, best of ${cell.size}` : ""}`);
  }

  view.svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (event.key === "Enter" && at && byPlace.has(String(at))) options.onOpen?.(byPlace.get(String(at)));
    if (!step || !grid.cells.length) return;
    event.preventDefault();
    at = at === null ? [grid.cells[0].x, grid.cells[0].y] : [clip(at[0] + step[0], grid.width), clip(at[1] + step[1], grid.height)];
    const cell = byPlace.get(String(at));
    if (cell) tell(cell);
    else say(spoken, `${options.xLabel ?? "x"} ${at[0]}, ${options.yLabel ?? "y"} ${at[1]}: empty`);
    view.redraw();
  });

  function alternative() {
    const made = table(options.title, [
      { name: "x", title: options.xLabel ?? "x", number: true, cell: (cell) => cell.x, sort: (cell) => cell.x },
      { name: "y", title: options.yLabel ?? "y", number: true, cell: (cell) => cell.y, sort: (cell) => cell.y },
      { name: "score", number: true, cell: (cell) => score(cell.value), sort: (cell) => cell.value },
      { name: "candidate", cell: (cell) => cell.id ?? "" },
    ], { sort: ["score", true] });
    made.update(grid.cells.slice(0, 400));
    return made.element;
  }

  return {
    element: view.element,
    update(next, labels) {
      Object.assign(options, labels);
      grid = next;
      byPlace = new Map(next.cells.map((cell) => [`${cell.x},${cell.y}`, cell]));
      view.redraw();
    },
  };
}

function shade(share) {
  return (0.12 + 0.88 * share).toFixed(3);
}

/** Returns the interval of a cell as text. */
function interval(place, range, number) {
  if (!range) return place;
  const at = (n) => score(range[0] + (n * (range[1] - range[0])) / number, 4);
  return range[0] === range[1] ? at(0) : `${at(place)} to ${at(place + 1)}`;
}

/** Legend of the shades, from the lowest to the highest score. */
function scale([low, high]) {
  if (low === high) return h("span", { class: "note" }, `all cells ${score(low, 4)}`);
  const steps = upTo(SHADES).map((place) => h("i", { class: "shade", style: { opacity: shade(place / (SHADES - 1)) } }));
  return h("span", { class: "note" }, `score ${score(low, 4)} `, steps, ` ${score(high, 4)} · `, h("i", { class: "shade empty-shade" }), " empty");
}

function upTo(number) {
  return Array.from({ length: number }, (_, place) => place);
}

/** Returns [edge, text] of the edges between cells: their values, with enough digits to tell them apart. */
function edges(number, every, range) {
  const places = upTo(number + 1).filter((place) => place % every === 0 || place === number);
  const values = places.map((place) => (range ? range[0] + (place * (range[1] - range[0])) / number : place));
  for (let digits = 3; digits <= 12; digits += 1) {
    const texts = values.map((value) => brief(Number(value.toPrecision(digits))) === brief(value) && digits < 5 ? brief(Number(value.toPrecision(digits))) : String(Number(value.toPrecision(digits))).replace(/^-/, "−"));
    if (new Set(texts).size === texts.length) return places.map((place, n) => [place, texts[n]]);
  }
  return [[0, brief(values[0])]]; // all candidates have the same value
}

function clip(value, number) {
  return Math.max(0, Math.min(number - 1, value));
}
