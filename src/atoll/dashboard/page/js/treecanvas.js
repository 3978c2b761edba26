// Canvas of the lineage; mouse, touch and keys pan and zoom. Stays smooth with many thousand nodes.

import { h } from "./dom.js";
import { layout, line } from "./tree.js";

const UNIT = 14; // pixels of a row at zoom 1
const REACH = 14; // pixels around the mouse that select a node
const CURVED = 3000; // maximum number of nodes with curved links; straight lines cost a third
const SETTLE_MS = 90; // after a zoom, until it is painted sharply

export class TreeCanvas {
  #canvas = h("canvas", { tabindex: "0", role: "application", "aria-roledescription": "tree" });
  #nodes = [];
  #tree = null;
  #by = "tree";
  #view = { x: 0, y: 0, zoom: 1, stretch: 1 };
  #selected = -1;
  #line = new Set();
  #isDue = false;
  #isFitted = false;
  #colors = null;
  #painted = null; // {sheet, view, by}: last painting and its view
  #later = null;
  #moves = [];
  #options;

  /** options: label, signal (when to end), onSelect(node, place), onOpen(node). */
  constructor(options) {
    this.#options = options;
    this.#canvas.setAttribute("aria-label", options.label);
    this.element = h("div", { class: "canvas-place" }, this.#canvas);
    new ResizeObserver(() => { if (!this.#isFitted) this.fit(); else this.#draw(); }).observe(this.element);
    document.addEventListener("atoll:theme", () => { this.#colors = null; this.#draw(); }, { signal: options.signal });
    options.signal.addEventListener("abort", () => this.#drop());
    this.#listen();
  }

  get selected() {
    return this.#nodes[this.#selected] ?? null;
  }

  /** Shows nodes in order of creation; the thick line leads to the node with the id `best`. */
  update(nodes, by, best, moves = []) {
    if (moves.length !== this.#moves.length) this.#painted = null;
    this.#moves = moves;
    const kept = this.selected?.id;
    const isNew = by !== this.#by || !this.#nodes.length;
    this.#nodes = nodes;
    this.#by = by;
    this.#tree = layout(nodes, by);
    this.#selected = this.#tree.index.get(kept) ?? -1;
    const top = this.#tree.index.get(best) ?? -1;
    this.#line = new Set(top < 0 ? [] : line(this.#tree, top));
    if (isNew) this.#isFitted = false;
    if (this.#isFitted) this.#draw();
    else this.fit();
  }

  /** Returns the path from the best to the initial candidate. */
  bestLine() {
    return [...this.#line].map((place) => this.#nodes[place]);
  }

  children(node) {
    return (this.#tree.children[this.#tree.index.get(node.id)] ?? []).map((place) => this.#nodes[place]);
  }

  select(id, isCentred = true) {
    const place = this.#tree?.index.get(id) ?? -1;
    if (place < 0) return;
    this.#selected = place;
    if (isCentred) this.#centre(place);
    this.#draw();
    this.#options.onSelect?.(this.#nodes[place], place);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (!this.#tree || !width) return;
    const room = 30;
    const rows = Math.max(1, this.#tree.height) * UNIT;
    const columns = Math.max(1, this.#tree.width) * UNIT;
    this.#view.zoom = Math.max(1e-4, Math.min(1.6, (height - 2 * room) / rows));
    // There are few generations and many rows, so each axis has its own scale, and the column width is limited.
    const isLanes = this.#by === "lanes";
    this.#view.stretch = Math.min((width - 2 * room - (isLanes ? 70 : 0)) / columns, 110 / UNIT) / this.#view.zoom;
    this.#view.x = isLanes ? room + 70 : room;
    this.#view.y = Math.max(room, (height - rows * this.#view.zoom) / 2);
    this.#isFitted = true;
    this.#draw();
  }

  zoom(factor, atX = this.#canvas.clientWidth / 2, atY = this.#canvas.clientHeight / 2) {
    const next = Math.max(1e-4, Math.min(8, this.#view.zoom * factor));
    const real = next / this.#view.zoom;
    this.#view.x = atX - (atX - this.#view.x) * real;
    this.#view.y = atY - (atY - this.#view.y) * real;
    this.#view.zoom = next;
    this.#draw();
  }

  #placeX(place) { return this.#view.x + this.#tree.x[place] * UNIT * this.#view.stretch * this.#view.zoom; }
  #placeY(place) { return this.#view.y + this.#tree.y[place] * UNIT * this.#view.zoom; }

  #centre(place) {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const [x, y] = [this.#placeX(place), this.#placeY(place)];
    if (x < 30 || x > width - 30) this.#view.x += width / 2 - x;
    if (y < 30 || y > height - 30) this.#view.y += height / 2 - y;
  }

  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => { this.#isDue = false; if (this.#tree && this.element.isConnected) this.#paint(); });
  }

  /** Moves or scales the painting to the view, and repaints it when it no longer covers the view. */
  #paint() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const ratio = window.devicePixelRatio || 1;
    fitted(this.#canvas, width * ratio, height * ratio);
    if (!this.#painted || !this.#covers(width, height, ratio)) this.#repaint(width, height, ratio);
    const { view, sheet } = this.#painted;
    const scale = this.#view.zoom / view.zoom;
    const pen = this.#canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    const [x, y] = [this.#view.x - view.x * scale, this.#view.y - view.y * scale];
    pen.drawImage(sheet, x * ratio, y * ratio, sheet.width * scale, sheet.height * scale);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.#by === "lanes") this.#paintLanes(pen, this.#palette(), width);
    this.#paintSelected(pen, this.#palette(), this.#nodeSize());
    clearTimeout(this.#later);
    if (scale !== 1) this.#later = setTimeout(() => { this.#painted = null; this.#draw(); }, SETTLE_MS);
  }

  /** Checks that the painting covers the canvas; during a zoom it may be smaller. */
  #covers(width, height, ratio) {
    const { view, sheet, by } = this.#painted;
    const scale = this.#view.zoom / view.zoom;
    if (by.nodes !== this.#nodes || by.by !== this.#by || by.colors !== this.#colors || by.ratio !== ratio || by.stretch !== this.#view.stretch) return false;
    if (scale !== 1) return scale > 0.4 && scale < 2.5;
    const [x, y] = [this.#view.x - view.x, this.#view.y - view.y];
    return x <= 0 && y <= 0 && x + sheet.width / ratio >= width && y + sheet.height / ratio >= height;
  }

  /** Paints half a canvas beyond each side, so that panning is cheap. */
  #repaint(width, height, ratio) {
    const sheet = this.#painted?.sheet ?? document.createElement("canvas");
    fitted(sheet, width * 2 * ratio, height * 2 * ratio);
    const shown = { ...this.#view };
    this.#view.x += width / 2;
    this.#view.y += height / 2;
    const pen = sheet.getContext("2d");
    const colors = this.#palette();
    const size = this.#nodeSize();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width * 2, height * 2);
    this.#paintLinks(pen, colors, width * 2, height * 2, size);
    if (this.#by === "lanes") this.#paintMoves(pen, colors);
    this.#paintNodes(pen, colors, width * 2, height * 2, size);
    this.#paintLine(pen, colors, size);
    Object.assign(this.#view, shown);
    const by = { nodes: this.#nodes, by: this.#by, colors: this.#colors, ratio, stretch: shown.stretch };
    this.#painted = { sheet, by, view: { x: shown.x + width / 2, y: shown.y + height / 2, zoom: shown.zoom } };
  }

  /** Names the lanes and their score axes at the left edge. */
  #paintLanes(pen, colors, width) {
    const rowY = (row) => this.#view.y + row * UNIT * this.#view.zoom;
    pen.font = "11px system-ui, sans-serif";
    pen.lineWidth = 1;
    for (const lane of this.#tree.lanes) {
      const [top, bottom] = [rowY(lane.top), rowY(lane.bottom)];
      pen.strokeStyle = colors.link;
      pen.globalAlpha = 0.25;
      pen.strokeRect(86, top - 3, width - 90, bottom - top + 6);
      pen.globalAlpha = 1;
      pen.fillStyle = colors.text;
      pen.fillText(lane.name, 6, (top + bottom) / 2 + 4);
      if (lane.high === undefined || bottom - top < 30) continue;
      pen.fillStyle = colors.link;
      pen.textAlign = "right";
      pen.fillText(short(lane.high), 82, top + 6);
      pen.fillText(short(lane.low), 82, bottom + 2);
      pen.textAlign = "left";
    }
  }

  /** Draws migrations from a candidate to the lane of another island, and resets as marks. */
  #paintMoves(pen, colors) {
    const { laneOf, laneTop, laneHeight, share, index } = this.#tree;
    const atX = (step) => this.#view.x + step * UNIT * this.#view.stretch * this.#view.zoom;
    const rowY = (row) => this.#view.y + row * UNIT * this.#view.zoom;
    pen.strokeStyle = pen.fillStyle = colors.warn;
    pen.lineWidth = 1.2;
    pen.setLineDash([4, 3]);
    for (const move of this.#moves) {
      const lane = laneOf.get(move.island);
      if (lane === undefined) continue;
      const from = index.get(move.candidates[0]);
      const y = rowY(laneTop(lane) + (1 - share(move.score ?? -Infinity)) * laneHeight);
      if (move.kind !== "migrated") { pen.fillText("↺", atX(move.step) - 5, rowY(laneTop(lane)) + 10); continue; }
      if (from === undefined) continue;
      pen.beginPath();
      pen.moveTo(this.#placeX(from), this.#placeY(from));
      pen.lineTo(atX(move.step), y);
      pen.stroke();
    }
    pen.setLineDash([]);
  }

  /** Frees the canvas memory at once, since browsers free it late. */
  #drop() {
    clearTimeout(this.#later);
    for (const canvas of [this.#canvas, this.#painted?.sheet]) if (canvas) fitted(canvas, 0, 0);
    this.#painted = this.#tree = null;
  }

  #nodeSize() {
    const size = UNIT * this.#view.zoom * 0.34;
    if (this.#by === "lanes") return Math.max(this.#nodes.length > 2000 ? 1.4 : 3.4, Math.min(7, size)); // lanes are high
    return Math.max(1.1, Math.min(6, size));
  }

  #isNear(y, y2, height) { return Math.max(y, y2) >= -20 && Math.min(y, y2) <= height + 20; }

  #paintLinks(pen, colors, width, height, size) {
    pen.strokeStyle = colors.link;
    pen.globalAlpha = this.#by === "lanes" ? 0.22 : 0.4;
    pen.lineWidth = size > 2 ? 1 : 0.5;
    pen.beginPath();
    const isCurved = this.#by === "tree" && size > 2 && this.#nodes.length < CURVED;
    for (let place = 0; place < this.#nodes.length; place += 1) {
      const above = this.#tree.parent[place];
      if (above < 0) continue;
      const [x, y, x2, y2] = [this.#placeX(above), this.#placeY(above), this.#placeX(place), this.#placeY(place)];
      if (x > width || x2 < 0 || !this.#isNear(y, y2, height)) continue;
      pen.moveTo(x, y);
      if (isCurved) pen.bezierCurveTo((x + x2) / 2, y, (x + x2) / 2, y2, x2, y2);
      else pen.lineTo(x2, y2);
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** Draws one path per color, which is faster than one per node. */
  #paintNodes(pen, colors, width, height, size) {
    const groups = new Map();
    for (let place = 0; place < this.#nodes.length; place += 1) {
      const [x, y] = [this.#placeX(place), this.#placeY(place)];
      if (x < -8 || x > width + 8 || y < -8 || y > height + 8) continue;
      const node = this.#nodes[place];
      const key = Number.isFinite(node.score) ? colors.tones[(node.island ?? 0) % 10] : colors.bad;
      let path = groups.get(key);
      if (!path) groups.set(key, (path = new Path2D()));
      const own = this.#tree.size ? size * (0.55 + 0.75 * this.#tree.size[place]) : size;
      if (own < 1.5) path.rect(x - own, y - own, 2 * own, 2 * own);
      else { path.moveTo(x + own, y); path.arc(x, y, own, 0, 7); }
    }
    for (const [color, path] of groups) { pen.fillStyle = color; pen.fill(path); }
  }

  #paintLine(pen, colors, size) {
    pen.strokeStyle = colors.accent;
    pen.lineWidth = Math.max(1.5, size * 0.6);
    pen.beginPath();
    for (const place of this.#line) {
      const above = this.#tree.parent[place];
      if (above < 0) continue;
      const [x, y, x2, y2] = [this.#placeX(above), this.#placeY(above), this.#placeX(place), this.#placeY(place)];
      pen.moveTo(x, y);
      if (this.#by === "tree" && size > 2) pen.bezierCurveTo((x + x2) / 2, y, (x + x2) / 2, y2, x2, y2);
      else pen.lineTo(x2, y2);
    }
    pen.stroke();
    const top = this.#line.values().next().value;
    if (top === undefined) return;
    pen.fillStyle = colors.accent;
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillText("★", this.#placeX(top) - 5.5, this.#placeY(top) - size - 3);
  }

  #paintSelected(pen, colors, size) {
    if (this.#selected < 0) return;
    const [x, y] = [this.#placeX(this.#selected), this.#placeY(this.#selected)];
    pen.strokeStyle = colors.text;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, size + 4, 0, 7);
    pen.stroke();
  }

  #palette() {
    if (this.#colors) return this.#colors;
    const probe = h("i", {});
    this.element.append(probe);
    const read = (name) => { probe.style.setProperty("color", `var(--${name})`); return getComputedStyle(probe).color; };
    this.#colors = { link: read("soft"), text: read("text"), bad: read("bad"), accent: read("accent"), warn: read("warn") };
    probe.style.removeProperty("color");
    this.#colors.tones = Array.from({ length: 10 }, (_, place) => { probe.className = `tone-${place}`; return getComputedStyle(probe).color; });
    probe.remove();
    return this.#colors;
  }

  #nearest(x, y) {
    let found = -1;
    let least = REACH * REACH;
    for (let place = 0; place < this.#nodes.length; place += 1) {
      const distance = (this.#placeX(place) - x) ** 2 + (this.#placeY(place) - y) ** 2;
      if (distance < least) { least = distance; found = place; }
    }
    return found;
  }

  #listen() {
    const pointers = new Map();
    let moved = 0;
    const at = (event) => { const box = this.#canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const spread = () => { const [[a, b], [c, d]] = [...pointers.values()]; return [Math.hypot(a - c, b - d), (a + c) / 2, (b + d) / 2]; };
    this.#canvas.addEventListener("pointerdown", (event) => { this.#canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, at(event)); moved = 0; });
    this.#canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = at(event);
      const [wide] = pointers.size === 2 ? spread() : [0];
      pointers.set(event.pointerId, now);
      moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
      if (pointers.size === 2) { const [wider, x, y] = spread(); this.zoom(wider / (wide || 1), x, y); return; }
      this.#view.x += now[0] - before[0];
      this.#view.y += now[1] - before[1];
      this.#draw();
    });
    const end = (event) => {
      if (!pointers.delete(event.pointerId) || moved > 4 || event.type !== "pointerup") return;
      const found = this.#tree ? this.#nearest(...at(event)) : -1;
      if (found >= 0) this.select(this.#nodes[found].id, false);
    };
    for (const kind of ["pointerup", "pointercancel"]) this.#canvas.addEventListener(kind, end);
    this.#canvas.addEventListener("dblclick", () => this.selected && this.#options.onOpen?.(this.selected));
    this.#canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY * 0.0015), ...at(event)); }, { passive: false });
    this.#canvas.addEventListener("keydown", (event) => { if (this.#tree && !event.ctrlKey && !event.metaKey && !event.altKey) this.#key(event); });
  }

  #key(event) {
    const actions = {
      "+": () => this.zoom(1.3), "=": () => this.zoom(1.3), "-": () => this.zoom(1 / 1.3), 0: () => this.fit(), Home: () => this.fit(),
      Enter: () => this.selected && this.#options.onOpen?.(this.selected),
      b: () => this.#walkTo([...this.#line][0] ?? -1),
      ArrowLeft: () => this.#walkTo(this.#selected < 0 ? 0 : this.#tree.parent[this.#selected]),
      ArrowRight: () => this.#walkTo(this.#selected < 0 ? 0 : this.#child()),
      ArrowUp: () => this.#walkTo(this.#sibling(-1)), ArrowDown: () => this.#walkTo(this.#sibling(1)),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  #walkTo(place) {
    if (place >= 0 && this.#nodes[place]) this.select(this.#nodes[place].id);
  }

  #child() {
    const own = this.#tree.children[this.#selected];
    return own.find((place) => this.#line.has(place)) ?? own[0] ?? -1;
  }

  #sibling(step) {
    if (this.#selected < 0) return 0;
    const above = this.#tree.parent[this.#selected];
    const own = above < 0 ? this.#nodes.map((_, place) => place).filter((place) => this.#tree.parent[place] < 0) : this.#tree.children[above];
    return own[own.indexOf(this.#selected) + step] ?? -1;
  }
}

/** A short number for an axis. */
function short(value) {
  return Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(4)));
}

/** Resizes a canvas if needed, which also clears it. */
function fitted(canvas, width, height) {
  const [wide, high] = [Math.round(width), Math.round(height)];
  if (canvas.width !== wide || canvas.height !== high) Object.assign(canvas, { width: wide, height: high });
}
