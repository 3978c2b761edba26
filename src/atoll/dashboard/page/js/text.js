// Untrusted text: shown unchanged, with hidden characters visible and limited lengths.

import { add, button, h } from "./dom.js";
import { bytes, count } from "./format.js";

const NAMES = {
  "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\u200e": "LRM", "\u200f": "RLM", "\u061c": "ALM",
  "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO",
  "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI", "\u2060": "WJ", "\ufeff": "BOM",
  "\u001b": "ESC", "\u0000": "NUL", "\u0007": "BEL", "\u0008": "BS", "\r": "CR", "\u007f": "DEL", "\u00ad": "SHY",
};
// Control characters except tab and line end, direction marks, zero-width characters, tags, lone surrogates.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\uffff]|\udb40[\udc00-\udfff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const LINE_LIMIT = 2000; // characters of one line
const LINES_SHOWN = 400; // lines at once
const MOST_LINES = 20000; // maximum on demand

function nameOf(character) {
  return NAMES[character] ?? `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Appends text to a node; hidden characters become labeled boxes, repeated ones with a count. */
export function addVisible(node, text, kind) {
  let last = 0;
  const plain = (from, to) => {
    if (from < to) node.append(kind ? h("span", { class: kind }, text.slice(from, to)) : text.slice(from, to));
  };
  HIDDEN.lastIndex = 0;
  for (let found = HIDDEN.exec(text); found; found = HIDDEN.exec(text)) {
    const each = found[0];
    let end = found.index + each.length;
    let times = 1;
    while (text.startsWith(each, end)) { times += 1; end += each.length; }
    plain(last, found.index);
    const name = nameOf(each);
    node.append(h("span", { class: "hidden-mark", title: `hidden character ${name}` }, times > 1 ? `${name}×${times}` : name));
    last = end;
    HIDDEN.lastIndex = end;
  }
  plain(last, text.length);
  return node;
}

/** One line of untrusted text, truncated at `most`, with isolated direction. */
export function inline(text, most = 200) {
  const whole = String(text ?? "");
  const cut = whole.length > most ? `${whole.slice(0, most - 1)}…` : whole;
  return addVisible(h("bdi", { class: "untrusted" }), cut.replace(/[\t\n]+/g, " "));
}

/** Yields the lines of a text one by one. */
export function* linesOf(text) {
  let from = 0;
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
    yield text.slice(from, end);
    from = end + 1;
  }
  if (from < text.length || from === 0) yield text.slice(from); // a final line end does not start a line
}

/**
 * A block of untrusted text: shows some lines, and more on demand; long lines are truncated in the same way.
 *
 * options: label (for screen readers), draw(node, line) to highlight a line, numbered, lines (at first), kind(line).
 */
export function block(text, options = {}) {
  const whole = String(text ?? "");
  const lines = linesOf(whole);
  const body = h("code", { class: options.numbered ? "lines numbered" : "lines", dir: "ltr" });
  const pre = h("pre", { class: "block", tabindex: "0", role: "region", "aria-label": options.label ?? "text" }, body);
  const foot = h("div", { class: "block-foot" });
  let shown = 0;
  let waiting = lines.next();

  function more(most) {
    const part = document.createDocumentFragment();
    for (let n = 0; n < most && !waiting.done && shown < MOST_LINES; n += 1) {
      part.append(line(waiting.value, options));
      shown += 1;
      waiting = lines.next();
    }
    body.append(part);
    renderFoot();
  }

  function renderFoot() {
    foot.replaceChildren();
    if (waiting.done) return;
    const told = `${count(shown)} lines shown of ${bytes(whole.length)}. `;
    add(foot, shown >= MOST_LINES ? [told, "Use 'atoll export' for the rest."] : [told, button("Show more lines", () => more(LINES_SHOWN * 4), { class: "quiet" })]);
  }

  more(options.lines ?? LINES_SHOWN);
  return h("div", { class: "text-block" }, whole === "" ? h("p", { class: "empty" }, "empty") : pre, foot);
}

/**
 * A text of the server, {text, size, truncated}, with a button that loads the rest.
 *
 * load(offset): a promise of the next piece; without it the rest is only mentioned.
 */
export function piece(found, options = {}, load = null) {
  if (found === null || found === undefined) return h("p", { class: "empty" }, "none");
  const { text, size, truncated } = typeof found === "string" ? { text: found, size: found.length, truncated: false } : found;
  const place = h("div", {}, options.show?.(text) ?? block(text, options));
  if (!truncated) return place;
  let at = text.length;
  const foot = h("p", { class: "block-foot" });
  const more = load ? button("Load more", () => next(), { class: "quiet" }) : null;

  async function next() {
    more.disabled = true;
    try {
      const part = await load(at);
      at = part ? at + part.length : size;
      foot.before(block(part, { ...options, label: `${options.label ?? "text"}, continued` }));
    } catch (error) {
      if (error.name !== "AbortError") foot.append(` ${error.message}`);
    }
    tell();
  }

  function tell() {
    const isDone = at >= size;
    foot.replaceChildren(isDone ? "Complete. " : `The first ${count(at)} of ${count(size)} characters. `, ...(more && !isDone ? [more] : []));
    if (more) more.disabled = false;
  }

  tell();
  place.append(foot);
  return place;
}

function line(text, options) {
  const kind = options.kind?.(text);
  const node = h("span", { class: kind ? `line ${kind}` : "line", dir: options.numbered ? "ltr" : "auto" });
  const draw = options.draw ?? addVisible;
  if (text.length <= LINE_LIMIT) {
    draw(node, text === "" ? "\u00a0" : text);
    return node;
  }
  let at = LINE_LIMIT;
  node.classList.add("long");
  draw(node, text.slice(0, at));
  const grow = button("", () => {
    const next = Math.min(text.length, at + LINE_LIMIT * 8);
    const part = document.createDocumentFragment();
    addVisible(part, text.slice(at, next));
    grow.before(part);
    at = next;
    label();
  }, { class: "quiet inline" });
  const label = () => {
    if (at >= text.length || at >= LINE_LIMIT * 100) grow.replaceWith(at < text.length ? ` … ${count(text.length - at)} more characters` : "");
    else grow.textContent = `… ${count(text.length - at)} more characters`;
  };
  label();
  node.append(grow);
  return node;
}
