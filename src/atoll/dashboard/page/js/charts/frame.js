// Frame of all charts: title, resizable drawing, legend, downloads, and the data as an accessible table.

import { button, freshId, h, put, s } from "../dom.js";

/** Returns the class of the n-th color; css/charts.css has ten, each with its own dash. */
export function tone(place) {
  return `tone-${place % 10}`;
}

/**
 * Creates the frame of a chart; `draw(svg, width, height)` redraws it when its size or data change.
 *
 * options: title, height, note, alternative() -> node with the same data as a table, rows() -> [[...], ...] for the CSV
 * file, the first row being the header.
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
  const heading = h("h2", { id: titleId, class: "chart-title" }, options.title);
  const tools = h("div", { class: "chart-tools" });
  const foot = h("div", { class: "chart-foot" }, options.alternative ? details : null, downloads(options, svg));
  const element = h("figure", { class: "chart" }, h("div", { class: "chart-head" }, heading, tools), legend, place, note, foot);
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

/** Buttons that save a chart as an image or its data as a table. */
function downloads(options, svg) {
  const name = () => String(options.title ?? "chart").toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "") || "chart";
  const made = (label, act) => button(label, act, { class: "quiet inline", "aria-label": `Save ${options.title} as ${label}` });
  return h("span", { class: "downloads" }, "Save as ",
    options.rows ? made("CSV", () => save(new Blob([csv(options.rows())], { type: "text/csv" }), `${name()}.csv`)) : null,
    made("SVG", () => save(new Blob([drawing(svg)], { type: "image/svg+xml" }), `${name()}.svg`)),
    made("PNG", async () => save(await picture(svg), `${name()}.png`)));
}

/** Saves a blob as a file. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Formats rows as CSV. A text that a spreadsheet would run as a formula gets an apostrophe. */
export function csv(rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n").concat("\r\n");
}

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "font-size", "font-family", "font-weight", "text-anchor", "paint-order"];

/** Returns a drawing as the text of an SVG file, with its colors and fonts. */
function drawing(svg) {
  const copy = svg.cloneNode(true);
  const [from, to] = [[svg, ...svg.querySelectorAll("*")], [copy, ...copy.querySelectorAll("*")]];
  from.forEach((node, place) => {
    const style = getComputedStyle(node);
    for (const name of STYLES) {
      const value = style.getPropertyValue(name);
      if (value) to[place].setAttribute(name, value);
    }
    for (const name of ["class", "tabindex", "role", "aria-labelledby", "aria-roledescription"]) to[place].removeAttribute(name);
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.querySelector(".reader")?.remove();
  const ground = s("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor });
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

async function picture(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [svg.clientWidth * 2, svg.clientHeight * 2];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

/** Axes with a grid: `x` and `y` are scales over the box {left, top, right, bottom}. */
export function axes(box, x, y, labels) {
  const number = Math.max(2, Math.floor((box.right - box.left) / 90));
  const levels = Math.max(2, Math.floor((box.bottom - box.top) / 45));
  return s("g", { class: "axes" },
    distinct(y.ticks(levels), labels.formatY).map(([value, text]) => {
      const at = y.of(value);
      return [s("line", { x1: box.left, x2: box.right, y1: at, y2: at, class: "grid" }),
        s("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, text)];
    }),
    distinct(x.ticks(number), labels.formatX).map(([value, text]) => {
      const at = x.of(value);
      return [s("line", { x1: at, x2: at, y1: box.bottom, y2: box.bottom + 4, class: "tick" }),
        s("text", { x: at, y: box.bottom + 17, "text-anchor": at > box.right - 24 ? "end" : "middle" }, text)];
    }),
    s("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "base" }),
    s("text", { x: box.right, y: box.bottom + 32, "text-anchor": "end", class: "axis-name" }, labels.x ?? ""),
    s("text", { x: 2, y: box.top - 7, class: "axis-name" }, labels.y ?? ""));
}

/** Returns [value, text] of ticks; adds digits until all texts differ. */
export function distinct(values, format) {
  values = values.filter((value) => format(value) !== "");
  const texts = values.map((value) => format(value));
  if (new Set(texts).size === values.length) return values.map((value, place) => [value, texts[place]]);
  for (let digits = 4; digits <= 15; digits += 1) {
    const longer = values.map((value) => String(Number(value.toPrecision(digits))).replace(/^-/, "−"));
    if (new Set(longer).size === values.length) return values.map((value, place) => [value, longer[place]]);
  }
  return values.slice(0, 1).map((value, place) => [value, texts[place]]);
}
