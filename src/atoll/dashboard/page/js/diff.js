// Line diff of two texts (Myers), folded to the changes and their context.

import { h } from "./dom.js";
import { block } from "./text.js";
import { plural } from "./format.js";

const MOST_LINES = 20000; // lines per side; beyond that the middle counts as replaced
const MOST_EDITS = 2000;
const AROUND = 3;

/** Returns [sign, line] for each line: " ", "-" or "+". */
export function compare(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = edits(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return [...a.slice(0, start).map((line) => [" ", line]), ...middle, ...a.slice(a.length - end).map((line) => [" ", line])];
}

function edits(a, b) {
  const replaced = () => [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  if (!a.length || !b.length || a.length > MOST_LINES || b.length > MOST_LINES) return replaced();
  const trace = search(a, b);
  return trace ? back(a, b, trace) : replaced();
}

/** Returns the furthest points on each diagonal by number of edits; null if there are too many edits. */
function search(a, b) {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const reach = new Map([[1, 0]]);
  const trace = [];
  for (let d = 0; d <= most; d += 1) {
    trace.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) ?? 0 : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return trace;
    }
    if (d * d > 4e6) return null; // size of the traces
  }
  return null;
}

function back(a, b, trace) {
  const found = [];
  let x = a.length;
  let y = b.length;
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const reach = trace[d];
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : reach.get(fromK) ?? 0;
    const fromY = fromX - fromK;
    while (x > Math.max(0, fromX) && y > Math.max(0, fromY) && a[x - 1] === b[y - 1]) { x -= 1; y -= 1; found.push([" ", a[x]]); }
    if (d === 0) break;
    if (down) { y -= 1; found.push(["+", b[y]]); } else { x -= 1; found.push(["-", a[x]]); }
  }
  return found.reverse();
}

/** Omits lines far from any change. */
function near(lines) {
  const keep = new Uint8Array(lines.length);
  lines.forEach(([sign], place) => {
    if (sign === " ") return;
    for (let each = Math.max(0, place - AROUND); each <= Math.min(lines.length - 1, place + AROUND); each += 1) keep[each] = 1;
  });
  const found = [];
  let gap = 0;
  lines.forEach((line, place) => {
    if (keep[place]) {
      if (gap) found.push(["@", `… ${plural(gap, "line")} alike`]);
      gap = 0;
      found.push(line);
    } else gap += 1;
  });
  if (gap && found.length) found.push(["@", `… ${plural(gap, "line")} alike`]);
  return found;
}

/** A block with the diff of two texts. */
export function diff(before, after, label) {
  const lines = near(compare(before, after));
  const added = lines.filter(([sign]) => sign === "+").length;
  const removed = lines.filter(([sign]) => sign === "-").length;
  if (!lines.length) return h("p", { class: "empty" }, "No changes.");
  return h("div", {}, h("p", { class: "soft" }, `${plural(added, "line")} added, ${removed} removed`), patch(lines.map(([sign, line]) => `${sign === "@" ? "@@" : sign} ${line}`).join("\n"), label));
}

/** A block with an existing patch. */
export function patch(text, label) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  return block(text, { label, kind: (line) => (/^(---|\+\+\+) /.test(line) ? "place" : kinds[line[0]]) });
}
