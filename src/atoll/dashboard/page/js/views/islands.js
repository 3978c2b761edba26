// Islands: candidates, feature map, Pareto front, migrations and resets.

import { field, h, put, select } from "../dom.js";
import { heat } from "../charts/heat.js";
import { scatter } from "../charts/scatter.js";
import { count, moment, plural, score } from "../format.js";
import { table } from "../table.js";
import { watch } from "../watch.js";

const BINS = 10; // of each feature of the map

export default { mount };

function mount(root, context) {
  let data = { islands: [], features: [] };
  let chosen = context.query.get("island") ?? "";
  let pair = ["", ""];
  const problem = h("div", {});
  const open = (each) => each.id && context.open(each.id, data.islands.flatMap((island) => island.cells.map((cell) => cell.id)));
  const list = islandTable(context);
  const clusters = scatter({ title: "Scores by island", xLabel: "score", yLabel: "island", formatY: (value) => (Number.isInteger(value) ? String(value) : ""), onOpen: open, note: "A dot is a group of candidates with the same score; larger dots are larger groups." });
  const map = heat({ title: "MAP-Elites: the best of each cell", onOpen: open });
  const front = scatter({ title: "Pareto front", note: "The axes are the first two metrics; you can choose others. The line joins the candidates that no other dominates.", hasFront: true, onOpen: open });
  const moves = moveTable(context);
  const island = h("div", {});
  const axes = h("div", { class: "row" });
  const cards = { clusters: h("div", { class: "card" }, clusters.element), map: h("div", { class: "card" }, map.element), front: h("div", { class: "card" }, axes, front.element) };
  root.append(problem, h("div", { class: "card" }, list.element), h("div", { class: "bar" }, island), h("div", { class: "cards" }, cards.clusters, cards.map, cards.front),
    h("div", { class: "card" }, h("h2", {}, "Migrations and resets, newest first"), moves.element));

  function draw() {
    const here = data.islands.filter((each) => chosen === "" || String(each.island) === chosen);
    drawClusters(here);
    drawMap(here);
    drawFront(here);
  }

  function drawClusters(here) {
    const rows = here.flatMap((each) => each.clusters.map((cluster) => ({ x: cluster.score, y: each.island, id: cluster.id, tone: 1 + (each.island % 9), size: 3 + Math.min(7, Math.sqrt(cluster.size) - 1), label: `${cluster.id}, ${plural(cluster.size, "candidate")}` })));
    cards.clusters.hidden = rows.length === 0;
    clusters.update(rows);
  }

  function drawMap(here) {
    const cells = new Map();
    for (const each of here) {
      for (const cell of each.cells) {
        const key = `${cell.x},${cell.y}`;
        if (!(cells.get(key)?.value >= cell.score)) cells.set(key, { ...cell, value: cell.score });
      }
    }
    const all = [...cells.values()];
    cards.map.hidden = all.length === 0;
    const [rangeX, rangeY] = data.features.map(({ low, high }) => [low, high]);
    map.update({ cells: all, width: BINS, height: BINS, rangeX, rangeY }, { xLabel: data.features[0]?.name, yLabel: data.features[1]?.name });
  }

  function drawFront(here) {
    const members = here.flatMap((each) => each.front.map((point) => ({ ...point, tone: 1 + (each.island % 9) })));
    const names = [...new Set(members.flatMap((each) => Object.keys(each.metrics)))];
    cards.front.hidden = names.length < 2;
    if (names.length < 2) return;
    pair = pair.map((name, place) => (names.includes(name) ? name : names[place]));
    const choose = (place, label) => field(label, select(names.map((name) => [name, name]), pair[place], (value) => { pair[place] = value; draw(); }));
    if (axes.dataset.names !== names.join()) { axes.dataset.names = names.join(); put(axes, choose(0, "Across"), choose(1, "Upwards")); }
    front.update(members.map((each) => ({ x: each.metrics[pair[0]], y: each.metrics[pair[1]], id: each.id, tone: each.tone })).filter((each) => Number.isFinite(each.x) && Number.isFinite(each.y)), { xLabel: pair[0], yLabel: pair[1] });
  }

  function choose() {
    const names = data.islands.map((each) => [String(each.island), `island ${each.island}`]);
    if (island.dataset.names === names.join()) return;
    island.dataset.names = names.join();
    put(island, field("Show", select([["", "all islands"], ...names], chosen, (value) => { chosen = value; context.setQuery({ island: value }); draw(); })));
  }

  watch(context, () => context.get(context.ofRun("islands")), (found) => {
    data = found;
    list.update(data.islands);
    moves.update(found.moves);
    choose();
    draw();
  }, problem);
}

function islandTable(context) {
  const number = (name) => ({ name, number: true, cell: (each) => count(each[name]), sort: (each) => each[name] });
  return table("Islands", [
    { name: "island", cell: (each) => `island ${each.island}`, sort: (each) => each.island },
    { name: "best", cell: (each) => (each.best ? h("a", { href: context.link("candidate", { more: [each.best] }), class: "mono" }, each.best) : "–") },
    { name: "score", number: true, cell: (each) => score(each.best_score), sort: (each) => each.best_score },
    number("candidates"), { ...number("drafts"), title: "trials" }, number("accepted"), number("migrants"), number("resets"),
  ], { class: "stacks" });
}

function moveTable(context) {
  return table("Migrations and resets", [
    { name: "kind", cell: (each) => each.kind },
    { name: "time", cell: (each) => (each.at ? moment(each.at) : "–") },
    { name: "iteration", number: true, cell: (each) => count(each.step) },
    { name: "island", cell: (each) => (each.island >= 0 ? `island ${each.island}` : "all") },
    { name: "from", cell: (each) => (Number.isInteger(each.from) ? `island ${each.from}` : "") },
    { name: "candidates", cell: (each) => each.candidates.slice(0, 6).flatMap((id, place) => [place ? ", " : "", h("a", { href: context.link("candidate", { more: [id] }), class: "mono" }, id)]) },
    { name: "score", number: true, cell: (each) => score(each.score) },
  ], { empty: "No migrations or resets." });
}
