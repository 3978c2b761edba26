// Line diff of two texts (Myers), folded to the changes and their context.

import { button, h } from "./dom.js";
import { addVisible, block } from "./text.js";
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

const WORD = /[A-Za-z_]\w*|\d[\w.]*|\s+|[^\w\s]/g;
const MOST_WORDS = 400; // per line

/** Returns pieces [isChanged, text] of two lines that replace each other. */
export function words(before, after) {
  const [a, b] = [before.match(WORD) ?? [], after.match(WORD) ?? []];
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return [[[true, before]], [[true, after]]];
  const found = [[], []];
  for (const [sign, word] of edits(a, b)) {
    if (sign !== "+") join(found[0], sign === "-", word);
    if (sign !== "-") join(found[1], sign === "+", word);
  }
  return found;
}

function join(pieces, isChanged, text) {
  if (pieces.at(-1)?.[0] === isChanged) pieces.at(-1)[1] += text;
  else pieces.push([isChanged, text]);
}

/** Pairs removed and added lines: [[before or null, after or null, kind], ...]; kind is " ", "~", "-", "+" or "@". */
export function paired(lines) {
  const rows = [];
  for (let place = 0; place < lines.length;) {
    const [sign, text] = lines[place];
    if (sign === " " || sign === "@") { rows.push([text, text, sign]); place += 1; continue; }
    const removed = [];
    const added = [];
    for (; lines[place]?.[0] === "-"; place += 1) removed.push(lines[place][1]);
    for (; lines[place]?.[0] === "+"; place += 1) added.push(lines[place][1]);
    for (let n = 0; n < Math.max(removed.length, added.length); n += 1) {
      const [old, now] = [removed[n] ?? null, added[n] ?? null];
      rows.push([old, now, old === null ? "+" : now === null ? "-" : "~"]);
    }
  }
  return rows;
}

/** Reads a unified diff of the server into [sign, line] pairs, without its header. */
export function parsePatch(text) {
  return text.split("\n").filter((line) => !/^(---|\+\+\+) /.test(line)).map((line) => (line.startsWith("@@") ? ["@", line] : [line[0] ?? " ", line.slice(1)]));
}

/** A diff with marked words, in one column or side by side; the choice is remembered. */
export function wordDiff(text, label) {
  const rows = paired(parsePatch(text));
  const place = h("div", {});
  const choice = button("", () => { remember(!isSplit()); show(); }, { class: "quiet inline" });
  const added = rows.filter(([, , kind]) => kind === "+" || kind === "~").length;
  const removed = rows.filter(([, , kind]) => kind === "-" || kind === "~").length;

  function show() {
    choice.textContent = isSplit() ? "Show in one column" : "Show side by side";
    place.replaceChildren(isSplit() ? columns(rows, label) : unified(rows, label));
  }

  show();
  return h("div", {}, h("p", { class: "soft" }, `${plural(added, "line")} added, ${removed} removed `, choice), place);
}

const SPLIT = "atoll.diff";
let split = null;
function isSplit() {
  if (split === null) try { split = localStorage.getItem(SPLIT) === "split"; } catch { split = false; }
  return split;
}
function remember(value) {
  split = value;
  try { localStorage.setItem(SPLIT, value ? "split" : "one"); } catch { /* storage is switched off */ }
}

const MOST_ROWS = 1500; // shown of a diff

function marked(pieces, tag) {
  return pieces.map(([isChanged, text]) => addVisible(h(isChanged ? tag : "span", {}), text));
}

function unified(rows, label) {
  const line = (kind, sign, inside) => h("span", { class: `line ${kind}`, dir: "ltr" }, h("span", { class: "sign" }, sign), inside);
  const found = [];
  const flush = (pairs) => {
    for (const [old, now] of pairs) found.push(line("removed", "−", marked(words(old, now)[0], "del")));
    for (const [old, now] of pairs) found.push(line("added", "+", marked(words(old, now)[1], "ins")));
  };
  let pairs = [];
  for (const [old, now, kind] of rows.slice(0, MOST_ROWS)) {
    if (kind === "~") { pairs.push([old, now]); continue; }
    flush(pairs);
    pairs = [];
    if (kind === "@") found.push(line("place", "", old));
    else if (kind === "-") found.push(line("removed", "−", addVisible(h("span", {}), old)));
    else if (kind === "+") found.push(line("added", "+", addVisible(h("span", {}), now)));
    else found.push(line("", " ", addVisible(h("span", {}), old)));
  }
  flush(pairs);
  return h("pre", { class: "block diff", tabindex: "0", role: "region", "aria-label": label }, h("code", { class: "lines" }, found), rest(rows));
}

function columns(rows, label) {
  const cell = (text, kind, tag, pieces) => h("td", { class: kind }, text === null ? "" : pieces ? marked(pieces, tag) : addVisible(h("span", {}), text));
  return h("div", { class: "block diff split", tabindex: "0", role: "region", "aria-label": label }, h("table", {}, h("tbody", {}, rows.slice(0, MOST_ROWS).map(([old, now, kind]) => {
    if (kind === "@") return h("tr", {}, h("td", { colspan: 2, class: "place" }, old));
    const two = kind === "~" ? words(old, now) : [null, null];
    return h("tr", {}, cell(old, kind === "-" || kind === "~" ? "removed" : "", "del", two[0]), cell(now, kind === "+" || kind === "~" ? "added" : "", "ins", two[1]));
  }))), rest(rows));
}

function rest(rows) {
  return rows.length > MOST_ROWS ? h("p", { class: "note" }, `The first ${MOST_ROWS} rows of ${rows.length}.`) : null;
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
