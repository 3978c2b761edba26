// Lineage: parents and children as a tree or over time, with the path to the best.

import { button, field, h, put, say, select } from "../dom.js";
import { count, plural, score } from "../format.js";
import { table } from "../table.js";
import { TreeCanvas } from "../treecanvas.js";
import { watch } from "../watch.js";

const MOST = 5000; // nodes at once

export default { mount };

const KEYS = "Arrow keys select the parent, a child or a neighbor; + and − zoom, 0 shows all, b goes to the best, Enter opens.";

function mount(root, context) {
  let by = ["time", "tree"].includes(context.query.get("by")) ? context.query.get("by") : "lanes";
  let moves = [];
  let nodes = [];
  let path = [];
  let first = context.query.get("first");
  let isFirst = true;
  const problem = h("div", {});
  const told = h("p", { class: "soft", role: "status" });
  const chosen = h("div", { class: "card chosen-node", role: "status", "aria-label": "Chosen candidate" }, h("p", { class: "empty" }, "Choose a candidate in the drawing."));
  const from = h("input", { type: "number", min: 0, step: 1, class: "narrow", placeholder: "newest", value: first ?? "", on: { change: () => { first = from.value === "" ? null : from.value; refresh(); } } });
  const open = (node) => context.open(node.id, path.some((each) => each.id === node.id) ? path.map((each) => each.id) : [node.id]);
  const canvas = new TreeCanvas({ signal: context.signal, label: `Lineage of the run. ${KEYS}`, onOpen: open, onSelect: (node) => put(chosen, about(node, canvas, context)) });
  const line = table("Path from the best to the initial candidate", [
    { name: "candidate", cell: (node) => h("a", { href: context.link("candidate", { more: [node.id] }), class: "mono" }, node.id) },
    { name: "score", number: true, cell: (node) => score(node.score) },
    { name: "gain", number: true, cell: (node) => (Number.isFinite(node.gain) ? score(node.gain, 3) : "") },
    { name: "island", number: true, cell: (node) => count(node.island) },
    { name: "iteration", number: true, cell: (node) => count(node.step) },
  ]);
  root.append(
    h("div", { class: "bar" },
      field("Drawn", select([["lanes", "islands and scores over iterations"], ["tree", "as a tree"], ["time", "score rank over iterations"]], by, (value) => { by = value; context.setQuery({ by: by === "lanes" ? "" : by, first }); canvas.update(nodes, by, path[0]?.id, moves); })),
      field("From iteration", from),
      h("div", { class: "row" }, button("+", () => canvas.zoom(1.4), { "aria-label": "Zoom in" }), button("−", () => canvas.zoom(1 / 1.4), { "aria-label": "Zoom out" }), button("Fit", () => canvas.fit()), button("★ Best", () => choose(path[0]))),
      told),
    problem, canvas.element, h("p", { class: "note" }, `${KEYS} Colors are islands, larger dots have better scores. Red candidates failed. Dashed lines are migrations, ↺ is a reset. The thick line leads to the best.`),
    h("div", { class: "cards lineage-cards" }, chosen, h("div", { class: "card" }, h("h2", {}, "From best to initial"), line.element)));

  function choose(node) {
    if (node) canvas.select(node.id);
  }

  const refresh = watch(context, () => load(context, first), (data) => {
    ({ nodes, path } = data);
    canvas.update(nodes, by, path[0]?.id, moves);
    line.update(path.map((node, place) => ({ ...node, gain: node.score - path[place + 1]?.score })));
    const isWhole = data.first === 0 && data.next === null && data.last >= data.total_steps;
    say(told, isWhole ? plural(nodes.length, "candidate") : `${plural(nodes.length, "candidate")} of iterations ${count(data.first)} to ${count(data.last)} of ${count(data.total_steps)}`);
    if (isFirst && context.query.get("id")) canvas.select(context.query.get("id"));
    isFirst = false;
  }, problem);
  // Migrations need the islands, which take longer in a long run.
  watch(context, () => context.get(context.ofRun("islands")), (data) => { moves = data.moves; if (by === "lanes" && nodes.length) canvas.update(nodes, by, path[0]?.id, moves); }, h("div", {}));
}

/** Merges the nodes of the window and of the path, in the order of their iterations. */
async function load(context, first) {
  const found = await context.get(context.ofRun("lineage"), { first, limit: MOST });
  const rows = (nodes) => nodes.ids.map((id, n) => ({ id, parents: nodes.parents[n], score: nodes.scores[n], island: nodes.islands[n], step: nodes.steps[n], verdict: nodes.verdicts[n] }));
  const path = rows(found.path);
  const nodes = rows(found.nodes);
  const there = new Set(nodes.map((node) => node.id));
  const others = path.filter((node) => !there.has(node.id));
  return { ...found, path, nodes: others.length ? [...others, ...nodes].sort((a, b) => a.step - b.step) : nodes };
}

function about(node, canvas, context) {
  const own = canvas.children(node);
  return [
    h("h2", {}, h("a", { href: context.link("candidate", { more: [node.id] }), class: "mono" }, node.id), " ", button("Open", () => context.open(node.id, [node.id]), { class: "quiet inline" })),
    h("p", {}, `score ${score(node.score)} · island ${count(node.island)} · iteration ${count(node.step)} · ${plural(own.length, "child", "children")}`),
    h("p", { class: "soft" }, `parents: ${(node.parents ?? []).join(", ") || "none"}${node.verdict ? ` · ${node.verdict}` : ""}`),
  ];
}
