// Reliability diagram: predicted against observed frequency; perfect forecasts lie on the diagonal.

import { put, s } from "../dom.js";
import { count, percent } from "../format.js";
import { table } from "../table.js";
import { axes, frame } from "./frame.js";
import { linear } from "./scale.js";

/** update(groups): [{foretold, came, number}], shares from 0 to 1. */
export function reliability(options) {
  let groups = [];
  const view = frame({ height: 280, ...options, alternative }, draw);

  function draw(svg, width, height) {
    const side = Math.min(width - 72, height - 58);
    const box = { left: 56, top: 20, right: 56 + side, bottom: 20 + side };
    const x = linear([0, 1], [box.left, box.right]);
    const y = linear([0, 1], [box.bottom, box.top]);
    const most = Math.max(1, ...groups.map((each) => each.number ?? 1));
    const drawn = groups.filter((each) => Number.isFinite(each.came));
    put(svg, axes(box, x, y, { x: options.xLabel ?? "foretold", y: options.yLabel ?? "came", formatX: percent, formatY: percent }),
      s("line", { x1: box.left, y1: box.bottom, x2: box.right, y2: box.top, class: "cross" }),
      s("path", { d: drawn.map((each, place) => `${place ? "L" : "M"}${x.of(each.foretold).toFixed(1)} ${y.of(each.came).toFixed(1)}`).join(""), class: "series tone-0" }),
      drawn.map((each) => s("circle", { cx: x.of(each.foretold), cy: y.of(each.came), r: 3 + 6 * Math.sqrt((each.number ?? 1) / most), class: "dot tone-0" },
        s("title", {}, `foretold ${percent(each.foretold)}, came ${percent(each.came)}, ${count(each.number)} times`))));
  }

  function alternative() {
    const made = table(options.title, [
      { name: "foretold", number: true, cell: (each) => percent(each.foretold, 1) },
      { name: "came", number: true, cell: (each) => percent(each.came, 1) },
      { name: "times", number: true, cell: (each) => count(each.number) },
    ]);
    made.update(groups);
    return made.element;
  }

  return { element: view.element, update(next) { groups = next; view.redraw(); } };
}
