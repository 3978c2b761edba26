// Sortable tables with a caption; untrusted text is isolated in its cells.

import { button, h, put } from "./dom.js";

/**
 * A table whose rows can be replaced.
 *
 * columns: {name, title?, number?, cell(row) -> node or text, sort?(row) -> value, wide?, wrap?, minor?}; minor columns are
 * hidden on phones. options: sort: [name, descending], class, empty, rowClass(row). The caption is for screen readers.
 */
export function table(caption, columns, options = {}) {
  let rows = [];
  const data = new WeakMap(); // of each row element, as JSON
  let [sortBy, isDown] = options.sort ?? [null, false];
  const head = h("tr", {});
  const body = h("tbody", {});
  const element = h("div", { class: "table-frame" },
    h("table", { class: options.class ?? "" }, h("caption", { class: "unseen" }, caption), h("thead", {}, head), body));

  function heading(column) {
    const isSorted = column.name === sortBy;
    const kind = column.number ? "number" : null;
    const label = column.title ?? column.name;
    if (!column.sort) return h("th", { scope: "col", class: kind }, label);
    const arrow = isSorted ? (isDown ? " ↓" : " ↑") : "";
    return h("th", { scope: "col", class: kind, "aria-sort": isSorted ? (isDown ? "descending" : "ascending") : "none" },
      button(label + arrow, () => order(column.name), { class: "heading" }));
  }

  function order(name) {
    isDown = name === sortBy ? !isDown : columns.find((each) => each.name === name).number === true;
    sortBy = name;
    put(head, columns.map(heading));
    render();
    head.querySelectorAll("button").forEach((each, place) => {
      if (columns.filter((column) => column.sort)[place]?.name === name) each.focus();
    });
  }

  function sorted() {
    const column = columns.find((each) => each.name === sortBy);
    if (!column?.sort) return rows;
    const sign = isDown ? -1 : 1;
    return [...rows].sort((a, b) => sign * compare(column.sort(a), column.sort(b), sign));
  }

  function render() {
    const shown = sorted();
    const focused = nameOf(body.contains(document.activeElement) ? document.activeElement : null);
    const next = shown.length ? shown.map(rowOf) : [h("tr", {}, h("td", { colspan: columns.length, class: "empty" }, options.empty ?? "none yet"))];
    const old = [...body.children];
    // A row that stays the same keeps its element, so that a click or a selection in it is not lost.
    next.forEach((row, place) => {
      if (place >= old.length) body.append(row);
      else if (!isSame(old[place], row)) old[place].replaceWith(row);
    });
    old.slice(next.length).forEach((row) => row.remove());
    // Keeps the keyboard focus, though the row is a new element.
    if (focused && nameOf(document.activeElement) !== focused) [...body.querySelectorAll("a, button, input, select, summary")].find((each) => nameOf(each) === focused)?.focus({ preventScroll: true });
  }

  function rowOf(row) {
    const cells = columns.map((column) => {
      const kind = [column.number ? "number" : "", column.wide ? "wide" : "", column.wrap ? "wrap" : "", column.minor ? "minor" : ""].join(" ").trim() || null;
      return h("td", { class: kind, "data-label": column.title ?? column.name }, column.cell(row));
    });
    const tr = h("tr", { class: options.rowClass?.(row) }, cells);
    data.set(tr, JSON.stringify(row));
    return tr;
  }

  /** Returns whether a row looks as before and its controls act on the same data. */
  function isSame(old, row) {
    const boxes = old.querySelectorAll("input");
    return data.get(old) === data.get(row) && old.isEqualNode(row)
      && [...row.querySelectorAll("input")].every((box, place) => box.checked === boxes[place].checked && box.value === boxes[place].value);
  }

  // A table that scrolls must be reachable with the keyboard.
  new ResizeObserver(() => {
    const isScrolling = element.scrollWidth > element.clientWidth + 1;
    for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": caption })) {
      if (isScrolling) element.setAttribute(name, value);
      else element.removeAttribute(name);
    }
  }).observe(element);
  put(head, columns.map(heading));
  render();
  return { element, update(next) { rows = next; render(); } };
}

/** Returns a key of a control: its target or its label. */
function nameOf(control) {
  return control && (control.getAttribute("href") ?? control.getAttribute("aria-label") ?? control.textContent);
}

function compare(a, b, sign) {
  const missing = (each) => each === null || each === undefined || Number.isNaN(each);
  if (missing(a) || missing(b)) return missing(a) === missing(b) ? 0 : sign * (missing(a) ? 1 : -1); // always last
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Name and value pairs. */
export function facts(pairs, props) {
  return h("dl", { class: "facts", ...props }, pairs.filter(Boolean).map(([name, ...value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
