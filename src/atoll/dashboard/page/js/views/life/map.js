// The agent's map: known cells, feared cells and its path. The list has the same content.

import { h, put, s } from "../../dom.js";
import { count, percent } from "../../format.js";
import { inline } from "../../text.js";

const KNOWN = [[/water|pool|river|spring/i, 6], [/bush|tree|grass|leaf|plant|berry/i, 3], [/lava|fire|pit|gas|thorn/i, 7], [/stone|rock|wall|mountain|iron|coal/i, 8], [/wolf|beast|zombie|skeleton|hunter|spider/i, 4], [/sand|path|table|nest|shelter/i, 5]];
const SIGNS = ["arrow", "comb", "cross", "hook", "ring", "spiral", "star", "triangle", "wave"]; // the agent learns their meaning
const SIGN_TONES = [0, 1, 2, 3, 4, 5, 9, 7, 8];
const DASHES = [[], [6, 2], [3, 2], [1.5, 1.5], [6, 2, 2, 2], [1, 3], [9, 3], [4, 4], [4, 2, 1, 2]]; // of their frames, in this order
const SPENT = /^(bare|dry) /i;
const PLAIN = /^(ground|floor|empty|grass)$/i;

/** Returns the color class of a cell type; it is the same everywhere. */
function tone(look) {
  if (sign(look) >= 0) return `tone-${SIGN_TONES[sign(look)]}`;
  const known = KNOWN.find(([pattern]) => pattern.test(look));
  if (known) return `tone-${known[1]}`;
  let sum = 0;
  for (const letter of look) sum = (sum * 31 + letter.codePointAt(0)) % 997;
  return `tone-${[0, 1, 2, 9][sum % 4]}`;
}

/** Returns the index of a sign, which sets its color and dash; -1: not a sign. */
function sign(look) {
  return SIGNS.indexOf(/^sign (\w+)$/i.exec(look)?.[1]);
}

export function lifeMap() {
  const canvas = h("canvas", { role: "img", "aria-label": "The agent's map; the list next to it has the same content" });
  const legend = h("ul", { class: "plain-list map-legend", tabindex: "0", "aria-label": "Legend of the map" });
  const probe = h("span", { class: "unseen" });
  const place = h("div", { class: "map-place" }, canvas);
  const element = h("div", { class: "map" }, place, h("div", {}, h("h3", {}, "Legend"), legend), probe);
  let story = null;

  function colors() {
    const of = (name) => { probe.className = `unseen ${name}`; return getComputedStyle(probe).color; };
    const plain = getComputedStyle(element);
    return { of, text: plain.color, ground: getComputedStyle(place).backgroundColor };
  }

  function draw() {
    if (!story || !canvas.isConnected) return;
    const cells = [...story.cells.values()];
    const side = Math.max(160, Math.min(place.clientWidth, 460));
    const ratio = window.devicePixelRatio || 1;
    canvas.width = side * ratio;
    canvas.height = side * ratio;
    canvas.style.setProperty("width", `${side}px`);
    canvas.style.setProperty("height", `${side}px`);
    const paper = canvas.getContext("2d");
    paper.scale(ratio, ratio);
    paper.clearRect(0, 0, side, side);
    if (!cells.length) return;
    const [xs, ys] = [cells.map((each) => each.x), cells.map((each) => each.y)];
    const [left, top] = [Math.min(...xs), Math.min(...ys)];
    const size = side / Math.max(Math.max(...xs) - left + 1, Math.max(...ys) - top + 1);
    const at = ([x, y]) => [(x - left) * size, (y - top) * size];
    const color = colors();
    for (const cell of cells) fill(paper, cell, at([cell.x, cell.y]), size, color);
    way(paper, story.path, at, size, color);
  }

  function fill(paper, cell, [x, y], size, color) {
    const isPlain = PLAIN.test(cell.look);
    paper.globalAlpha = isPlain ? 0.12 : SPENT.test(cell.look) ? 0.35 : 0.75;
    paper.fillStyle = isPlain ? color.text : color.of(tone(cell.look));
    paper.fillRect(x + 0.5, y + 0.5, size - 1, size - 1);
    if (sign(cell.look) >= 0) {
      paper.globalAlpha = 1;
      paper.strokeStyle = color.text;
      paper.lineWidth = 1.5;
      paper.setLineDash(DASHES[sign(cell.look)]);
      paper.strokeRect(x + 2, y + 2, size - 4, size - 4);
      paper.setLineDash([]);
    }
    const risk = story.fears[cell.look] ?? 0;
    if (risk > 0.2) { // a cross marks feared cells, so that color is not the only sign
      paper.globalAlpha = Math.min(1, 0.3 + risk);
      paper.strokeStyle = color.text;
      paper.lineWidth = 1.5;
      paper.beginPath();
      paper.moveTo(x + size * 0.25, y + size * 0.25);
      paper.lineTo(x + size * 0.75, y + size * 0.75);
      paper.moveTo(x + size * 0.75, y + size * 0.25);
      paper.lineTo(x + size * 0.25, y + size * 0.75);
      paper.stroke();
    }
    paper.globalAlpha = 1;
  }

  function way(paper, path, at, size, color) {
    const middle = (spot) => at(spot).map((each) => each + size / 2);
    const recent = path.slice(-60);
    paper.strokeStyle = color.text;
    paper.globalAlpha = 0.45;
    paper.lineWidth = Math.max(1, size / 12);
    paper.beginPath();
    recent.forEach((spot, place) => { const [x, y] = middle(spot); if (place) paper.lineTo(x, y); else paper.moveTo(x, y); });
    paper.stroke();
    paper.globalAlpha = 1;
    const [x, y] = middle(path.at(-1));
    paper.fillStyle = color.text;
    paper.beginPath();
    paper.arc(x, y, Math.max(3, size * 0.32), 0, 2 * Math.PI);
    paper.fill();
  }

  function swatch(look) {
    const kind = PLAIN.test(look) ? "plain-cell" : `cell ${tone(look)}${SPENT.test(look) ? " spent" : ""}`;
    return s("svg", { width: 20, height: 20, "aria-hidden": "true" }, s("rect", { x: 1, y: 1, width: 18, height: 18, class: kind }),
      sign(look) >= 0 ? s("rect", { x: 2.5, y: 2.5, width: 15, height: 15, class: "sign-frame", "stroke-dasharray": DASHES[sign(look)].join(" ") || null }) : null);
  }

  function list() {
    const counts = new Map();
    for (const { look } of story.cells.values()) counts.set(look, (counts.get(look) ?? 0) + 1);
    const rows = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 40);
    const here = story.path.at(-1);
    put(legend, here ? h("li", {}, h("b", {}, "● "), `the agent, at ${here[0]},${here[1]}`) : null,
      rows.map(([look, number]) => h("li", {}, swatch(look), " ", inline(look, 40), h("span", { class: "soft" }, ` ${count(number)}`), story.fears[look] > 0.2 ? h("span", { class: "warn" }, ` feared ${percent(story.fears[look])}`) : null)));
  }

  new ResizeObserver(draw).observe(place);
  document.addEventListener("atoll:theme", draw);
  return { element, update(next) { story = next; list(); draw(); } };
}
