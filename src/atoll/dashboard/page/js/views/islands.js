// Islands: what lives on each, the cells of its map, the front of its measures, who swam across and when one began anew.

import { field, h, put, select } from "../dom.js";
import { bars } from "../charts/bars.js";
import { heat } from "../charts/heat.js";
import { scatter } from "../charts/scatter.js";
import { count, score } from "../format.js";
import { table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";

export default { title: "Islands", path: "islands", scope: "run", mount };

function mount(root, context) {
  let data = { islands: [] };
  let chosen = context.query.get("island") ?? "";
  let pair = ["", ""];
  const problem = h("div", {});
  const open = (each) => each.id && context.go(context.link("candidate", { more: [each.id] }));
  const list = islandTable(context);
  const clusters = bars({ title: "Clusters by score" });
  const map = heat({ title: "MAP-Elites: the best of each cell", onOpen: open });
  const front = scatter({ title: "Pareto front", hasFront: true, onOpen: open });
  const moves = moveTable(context);
  const island = h("div", {});
  const axes = h("div", { class: "row" });
  const cards = { clusters: h("div", { class: "card" }, clusters.element), map: h("div", { class: "card" }, map.element), front: h("div", { class: "card" }, axes, front.element) };
  root.append(problem, h("div", { class: "card" }, list.element), h("div", { class: "bar" }, island), h("div", { class: "cards" }, Object.values(cards)),
    h("div", { class: "card" }, h("h2", {}, "Migrations and resets, newest first"), moves.element));

  function draw() {
    const here = data.islands.filter((each) => chosen === "" || String(each.island) === chosen);
    drawClusters(here);
    drawMap(here);
    drawFront(here);
  }

  function drawClusters(here) {
    const rows = here.flatMap((each) => (each.clusters ?? []).map((cluster) => ({ name: `${here.length > 1 ? `island ${each.island} · ` : ""}${cluster.name ?? score(cluster.score, 4)}`, value: cluster.size ?? cluster.members, tone: each.island + 1, note: `best ${score(cluster.score, 4)}`, score: cluster.score })));
    cards.clusters.hidden = rows.length === 0;
    clusters.update(rows.sort((a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity)).slice(0, 30));
  }

  function drawMap(here) {
    const cells = new Map();
    for (const each of here) {
      for (const cell of each.cells ?? []) {
        const [x, y] = [cell.x ?? cell.bins?.[0], cell.y ?? cell.bins?.[1] ?? 0];
        const key = `${x},${y}`;
        if (Number.isFinite(x) && !(cells.get(key)?.value >= cell.score)) cells.set(key, { x, y, value: cell.score, id: cell.id });
      }
    }
    const all = [...cells.values()];
    cards.map.hidden = all.length === 0;
    const features = data.features ?? [];
    map.update({ cells: all, width: Math.max(0, ...all.map((cell) => cell.x)) + 1, height: Math.max(0, ...all.map((cell) => cell.y)) + 1 }, { xLabel: features[0]?.name ?? features[0] ?? "first feature", yLabel: features[1]?.name ?? features[1] ?? "second feature" });
  }

  function drawFront(here) {
    const members = here.flatMap((each) => (each.front ?? each.pareto ?? []).map((point) => ({ ...point, tone: each.island + 1 })));
    const names = [...new Set(members.flatMap((each) => Object.keys(each.metrics ?? {})))];
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
    data = { ...found, islands: found.islands ?? found.items ?? [] };
    list.update(data.islands);
    moves.update([...(found.moves ?? [])].slice(0, 300));
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
    number("candidates"), number("accepted"), number("migrants"), number("resets"),
  ], { class: "stacks" });
}

function moveTable(context) {
  return table("Migrations and resets", [
    { name: "kind", cell: (each) => each.kind },
    { name: "step", number: true, cell: (each) => count(each.step) },
    { name: "island", cell: (each) => (each.island >= 0 ? `island ${each.island}` : "all") },
    { name: "from", cell: (each) => (each.from === undefined || each.from === null ? "" : `island ${each.from}`) },
    { name: "candidates", cell: (each) => (each.candidates ?? each.ids ?? []).slice(0, 6).flatMap((id, place) => [place ? ", " : "", h("a", { href: context.link("candidate", { more: [id] }), class: "mono" }, id)]) },
    { name: "why", cell: (each) => inline(each.why ?? "", 120) },
  ], { empty: "Nobody swam, and no island began anew." });
}
