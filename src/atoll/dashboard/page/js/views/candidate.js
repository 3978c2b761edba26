// Candidates: a searchable list, and the details of one.

import { button, field, h, put, say, select } from "../dom.js";
import { count, plural, score } from "../format.js";
import { table } from "../table.js";
import { watch } from "../watch.js";
import { detail } from "./candidate_detail.js";

export default { mount };

const PAGE = 50;

function mount(root, context) {
  if (context.more.length) { one(root, context, context.more[0]); return; }
  const wanted = Object.fromEntries(["id", "sort", "island", "failed"].map((name) => [name, context.query.get(name) ?? ""]));
  wanted.sort ||= "best";
  let rows = [];
  let next = null;
  const problem = h("div", {});
  const told = h("p", { class: "soft", role: "status" });
  const list = candidateTable(context);
  const more = button("More", () => page(), { hidden: true });
  const search = h("input", { type: "search", value: wanted.id, placeholder: "id such as 12.0, iteration or version", on: { input: () => { wanted.id = search.value.trim(); restart(); } } });
  const change = (name) => (value) => { wanted[name] = value; restart(); };
  root.append(h("div", { class: "bar" },
    h("div", { class: "grow" }, field("Search", search)),
    field("Sort", select([["best", "best first"], ["worst", "worst first"], ["newest", "newest first"], ["oldest", "oldest first"]], wanted.sort, change("sort"))),
    field("Outcome", select([["", "all"], ["false", "with a score"], ["true", "without a score"]], wanted.failed, change("failed"))),
    field("Island", h("input", { type: "number", min: 0, step: 1, value: wanted.island, class: "narrow", on: { change: (event) => change("island")(event.target.value) } })),
    told), problem, h("div", { class: "card" }, list.element, more));

  const ask = (after, limit) => context.get(context.ofRun("candidates"), { ...wanted, after, limit });

  function show(found, isMore) {
    const items = found.candidates;
    rows = isMore ? [...rows, ...items] : items;
    next = found.next ?? null;
    more.hidden = next === null;
    list.update(rows);
    say(told, rows.length ? `${plural(rows.length, "candidate")} shown${next === null ? "" : ", more available"}` : "No matching candidates.");
  }

  async function page() {
    try { show(await ask(next, PAGE), true); } catch (error) { if (error.name !== "AbortError") put(problem, h("p", { class: "problem" }, error.message)); }
  }

  const refresh = watch(context, () => ask(null, Math.min(500, Math.max(PAGE, rows.length))), (found) => show(found, false), problem, { follow: () => rows.length <= PAGE });
  const restart = () => { rows = []; context.setQuery(wanted); refresh(); };
}

function candidateTable(context) {
  return table("Candidates", [
    { name: "candidate", cell: (row) => h("a", { href: context.link("candidate", { more: [row.id] }), class: "mono" }, row.id) },
    { name: "score", number: true, cell: (row) => score(row.score) },
    { name: "island", number: true, cell: (row) => count(row.island) },
    { name: "iteration", number: true, cell: (row) => count(row.step) },
    { name: "verdict", cell: (row) => row.verdict ?? (row.is_draft ? "trial" : "pending") },
    { name: "version", cell: (row) => row.version ?? "" },
  ], { class: "stacks tight", empty: "No matching candidates." });
}

function one(root, context, id) {
  root.querySelector("h1").textContent = `Candidate ${id}`;
  const problem = h("div", {});
  const place = h("div", {}, h("p", { class: "empty" }, "Loading …"));
  root.append(h("p", {}, h("a", { href: context.link("candidate") }, "← All candidates"), " · ", h("a", { href: context.link("lineage", { query: { id } }) }, "In the lineage")), problem, place);
  let shown = "";
  watch(context, () => context.get(context.ofRun("candidates", id)), (found) => {
    const now = JSON.stringify([found.verdict, found.score]);
    if (now === shown) return; // evaluated candidates do not change; keeps the scroll position
    shown = now;
    root.querySelector("h1").textContent = `Candidate ${found.id}`;
    put(place, detail(found, context));
  }, problem, { follow: () => shown.startsWith("[null") });
}
