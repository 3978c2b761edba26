// Bar chart: one value per name.

import { put, s } from "../dom.js";
import { score } from "../format.js";
import { table } from "../table.js";
import { frame, tone } from "./frame.js";
import { extent, linear } from "./scale.js";

const ROW = 26;

/** update(rows): [{name, value, tone?, note?}], drawn from top to bottom. */
export function bars(options) {
  let rows = [];
  const format = options.format ?? score;
  const view = frame({ height: ROW, ...options, alternative, rows: () => [["name", "value", "note"], ...rows.map((row) => [row.name, row.value, row.note])] }, draw);

  function draw(svg, width) {
    const height = Math.max(1, rows.length) * ROW + 6;
    view.place.style.setProperty("height", `${height}px`);
    svg.setAttribute("height", height);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const left = Math.min(170, width * 0.36);
    const range = extent([0, ...rows.map((row) => row.value)]) ?? [0, 1];
    const x = linear(range[0] === range[1] ? [0, 1] : range, [left + 8, width - (rows.some((row) => row.note) ? 130 : 70)]);
    put(svg, rows.map((row, place) => {
      const y = place * ROW + 4;
      const [from, to] = [x.of(0), x.of(row.value ?? 0)].sort((a, b) => a - b);
      return s("g", {},
        s("text", { x: left, y: y + 13, "text-anchor": "end" }, cut(row.name, left / 6.6)),
        s("rect", { x: from, y, width: Math.max(1.5, to - from), height: ROW - 9, rx: 2, class: `bar-mark ${tone(row.tone ?? options.tone ?? 0)}` }),
        s("text", { x: to + 6, y: y + 13 }, `${format(row.value)}${row.note ? ` · ${row.note}` : ""}`));
    }));
  }

  function alternative() {
    const made = table(options.title, [
      { name: "name", cell: (row) => row.name },
      { name: "value", number: true, cell: (row) => format(row.value), sort: (row) => row.value },
      { name: "note", cell: (row) => row.note ?? "" },
    ]);
    made.update(rows);
    return made.element;
  }

  return { element: view.element, update(next) { rows = next; view.redraw(); } };
}

function cut(text, most) {
  return text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text;
}

