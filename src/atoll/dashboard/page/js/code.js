// Syntax highlighting with a small scanner that creates text nodes. Unknown text stays plain.

import { h } from "./dom.js";
import { addVisible, block } from "./text.js";

const MOST = 200000; // highlighted characters; the rest is plain
const WORDS = {
  python: "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try type while with yield",
  other: "abstract async await break case catch class const continue default do else enum export extends false final finally fn for func function if impl import in int interface let match mod mut new null package private public pub return self static struct super switch this throw true try type use var void while with yield",
};
const SETS = Object.fromEntries(Object.entries(WORDS).map(([name, words]) => [name, new Set(words.split(" "))]));

// One alternative per kind. Strings and comments end at the line, except triple-quoted strings.
const PYTHON = /(#[^\n]*)|([rRbBfFuU]{0,2}(?:"""[\s\S]*?(?:"""|(?![\s\S]))|'''[\s\S]*?(?:'''|(?![\s\S]))|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))|(^[ \t]*@[\w.]+)|(\b\d[\w.]*)|([A-Za-z_]\w*)/gm;
const OTHER = /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|(?![\s\S]))|#[^\n]*)|("(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?)|(^[ \t]*@[\w.]+)|(\b\d[\w.]*)|([A-Za-z_]\w*)/gm;

/** Guesses the language of a text: "python", "json", "other" or "text". */
function languageOf(text) {
  const head = text.slice(0, 4000);
  if (/^\s*[[{]/.test(head) && /"\s*:|^\s*\[/.test(head)) return "json";
  if (/^\s*(def |class |import |from \w+ import |async def |@\w)/m.test(head)) return "python";
  if (/[;{]\s*$/m.test(head) && /\b(function|fn|int|const|let|var|struct|return)\b/.test(head)) return "other";
  return "text";
}

/** Returns pieces [kind, text] of a source, kinds being those of css/parts.css, or "". */
export function scan(text, language) {
  if (language === "text") return [["", text]];
  const pattern = language === "python" ? PYTHON : OTHER;
  const words = SETS[language === "python" ? "python" : "other"];
  const pieces = [];
  let last = 0;
  let isName = false;
  pattern.lastIndex = 0;
  for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
    if (found.index > last) pieces.push(["", text.slice(last, found.index)]);
    last = found.index + found[0].length;
    const [, comment, string, decorator, number, word] = found;
    const isWord = word !== undefined && words.has(word);
    const kind = comment !== undefined ? "comment" : string !== undefined ? "string" : decorator !== undefined ? "decorator"
      : number !== undefined ? "number" : isWord ? "keyword" : isName ? "name" : "";
    pieces.push([kind, found[0]]);
    isName = isWord && ["def", "class", "function", "fn", "func", "struct"].includes(word);
  }
  if (last < text.length) pieces.push(["", text.slice(last)]);
  return pieces;
}

/** Splits pieces at line ends: a list of lines, each a list of pieces. */
function byLine(pieces) {
  const lines = [[]];
  for (const [kind, text] of pieces) {
    text.split("\n").forEach((part, place) => {
      if (place) lines.push([]);
      if (part) lines.at(-1).push([kind, part]);
    });
  }
  return lines;
}

/** A block of highlighted source with line numbers. */
export function source(text, label, language = languageOf(text)) {
  if (language === "text" || text.length > MOST) return block(text, { label, numbered: true });
  const lines = byLine(scan(text, language));
  let place = -1;
  return block(text, {
    label,
    numbered: true,
    draw(node, line) {
      place += 1;
      const pieces = lines[place] ?? [];
      if (line === "\u00a0" || line.length !== pieces.reduce((sum, [, part]) => sum + part.length, 0)) { addVisible(node, line); return; }
      for (const [kind, part] of pieces) addVisible(node, part, kind ? `token-${kind}` : undefined);
    },
  });
}

/** Data as highlighted, indented JSON. */
export function data(value, label) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  return source(text, label, "json");
}

/** A details element that is filled when first opened. */
export function folded(title, make, props) {
  let isFilled = false;
  const node = h("details", { ...props, on: { toggle: () => { if (node.open && !isFilled) { isFilled = true; node.append(make()); } } } }, h("summary", {}, title));
  return node;
}
