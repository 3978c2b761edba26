// Worldlines: generations, conversations, and review of git branches.

import { h, put, select, field } from "../dom.js";
import { count, plural, score } from "../format.js";
import { facts, table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";
import { conversation } from "./worldlines/conversation.js";
import { graph } from "./worldlines/graph.js";
import { reviews } from "./worldlines/reviews.js";

export default {
  mount(root, context) {
    const problem = h("div", {});
    const bar = h("div", { class: "bar" });
    const about = h("div", {});
    const list = h("div", { class: "tall" });
    const chosen = context.more[0] === undefined ? null : Number(context.more[0]);
    const island = Number(context.query.get("island") ?? 0) || 0;
    const open = (step) => context.go(context.link("worldlines", { more: [String(step)], query: { island } }));
    const drawing = graph({ onOpen: open });
    const said = h("div", {});
    const review = h("div", {});
    const index = table("Problems", [
      { name: "problem", wrap: true, cell: (row) => h("a", { href: context.link("worldlines", { query: { island: row.islands[0] } }), "aria-current": row.islands.includes(island) ? "true" : null }, inline(row.problem, 120)), sort: (row) => row.problem },
      { name: "solved", cell: (row) => h("b", { class: row.is_solved ? "good" : "" }, row.is_solved ? "✓ solved" : "not yet"), sort: (row) => Number(row.is_solved) },
      { name: "best", number: true, cell: (row) => score(row.best, 4), sort: (row) => row.best },
      { name: "plan", cell: (row) => h("a", { href: context.link("candidate", { more: [row.candidate] }), class: "mono", on: { click: (event) => { if (!event.ctrlKey && !event.metaKey) { event.preventDefault(); context.open(row.candidate, [row.candidate]); } } } }, row.candidate) },
      { name: "islands", cell: (row) => row.islands.slice(0, 12).join(", ") },
    ], { class: "stacks", rowClass: (row) => (row.islands.includes(island) ? "chosen" : null) });
    const problems = h("div", { class: "card", hidden: true }, h("h2", {}, "Problems"), h("div", { class: "tall" }, index.element));
    root.append(problem, problems, bar, said, h("div", { class: "card" }, about, drawing.element), h("div", { class: "card" }, h("h2", {}, "As a list"), list), review);
    let drawn = "";
    let islands = "";
    watch(context, () => context.get(context.ofRun("worldlines"), { island }), (found) => {
      if (islands !== String(found.islands)) {
        islands = String(found.islands);
        put(bar, field("Island", select(found.islands.map((each) => [each, `island ${each}`]), island, (each) => context.go(context.link("worldlines", { query: { island: each } })))));
      }
      problems.hidden = found.problems.length < 2 || found.kind === "workspace";
      index.update(found.problems);
      const state = JSON.stringify(found.generations.map((each) => [each.generation, each.worldlines.length, each.best]));
      if (state === drawn) return;
      drawn = state;
      put(about, h("h2", {}, `Worldlines of island ${island}`, found.islands.length > 1 ? h("span", { class: "soft" }, `, one of ${found.islands.length}; select another above`) : null), facts([["kind", found.kind], ["strategy", found.strategy], ["generations", count(found.generations.length)],
        ["worldlines", count(found.generations.reduce((sum, each) => sum + each.worldlines.length, 0))],
        ["fitness", Object.entries(found.weights).map(([name, weight]) => `${weight} ${name.replaceAll("_", " ")}`).join(" + ") || "–"]]),
      found.is_cut ? h("p", { class: "warn" }, "Only the first part is shown. 'atoll tree' prints all of it.") : null);
      drawing.update(found.generations, chosen);
      put(list, found.generations.map((each) => generation(each, context, island, chosen)));
    }, problem);
    if (chosen !== null) conversation(said, context, chosen, island);
    reviews(review, context);
  },
};

function generation(each, context, island, chosen) {
  const isOpen = each.worldlines.some((line) => line.step === chosen);
  const link = (line) => context.link("worldlines", { more: [String(line.step)], query: { island } });
  return h("details", { open: isOpen }, h("summary", {}, `generation ${each.generation}: ${plural(each.worldlines.length, "worldline")}, best ${score(each.best, 4)}, mean ${score(each.mean, 4)}`),
    h("ul", { class: "plain-list" }, each.worldlines.map((line) => h("li", {},
      h("a", { href: link(line), "aria-current": line.step === chosen ? "true" : null }, `worldline ${line.step}`),
      ` from ${line.parents.join(", ") || "no parent"}; ${plural(line.turns, "turn")}, best ${score(line.best, 4)} `, h("span", { class: "soft" }, inline(line.summary, 160))))));
}
