// Candidates: a searchable list, and the details of one.

import { button, field, h, put, say, select } from "../dom.js";
import { ago, count, moment, plural, score, usd } from "../format.js";
import { inline } from "../text.js";
import { table } from "../table.js";
import { watch } from "../watch.js";
import { detail } from "./candidate_detail.js";

export default { mount };

const PAGE = 50;

function mount(root, context) {
  if (context.more.length) { one(root, context, context.more[0]); return; }
  const wanted = Object.fromEntries(["id", "q", "sort", "island", "failed", "drafts"].map((name) => [name, context.query.get(name) ?? ""]));
  wanted.sort ||= "best";
  if (!context.query.has("drafts")) wanted.drafts = "false";
  let rows = [];
  let next = null;
  const problem = h("div", {});
  const told = h("p", { class: "soft", role: "status" });
  const list = candidateTable(context, () => rows.map((row) => row.id));
  const more = button("More", () => page(), { hidden: true });
  const isId = (text) => /^\d+(\.d?\d*)?$/.test(text) || /@\d+$/.test(text);
  const search = h("input", { type: "search", value: wanted.id || wanted.q, placeholder: "id such as 12.0, or text in the program, change, feedback or failure", on: { input: () => { const text = search.value.trim(); [wanted.id, wanted.q] = isId(text) ? [text, ""] : ["", text]; restart(); } } });
  const reasons = h("div", {});
  const change = (name) => (value) => { wanted[name] = value; restart(); };
  root.append(h("div", { class: "bar" },
    h("div", { class: "grow" }, field("Search", search)),
    field("Sort", select([["best", "best first"], ["worst", "worst first"], ["newest", "newest first"], ["oldest", "oldest first"]], wanted.sort, change("sort"))),
    field("Outcome", select([["", "all"], ["false", "with a score"], ["true", "failed"]], wanted.failed, change("failed"))),
    field("Trials", select([["false", "hidden"], ["all", "shown"], ["true", "only"]], wanted.drafts, change("drafts"))),
    field("Island", h("input", { type: "number", min: 0, step: 1, value: wanted.island, class: "narrow", on: { change: (event) => change("island")(event.target.value) } })),
    told), problem, reasons, h("div", { class: "card" }, list.element, more));

  const ask = (after, limit) => context.get(context.ofRun("candidates"), { ...wanted, drafts: wanted.drafts === "all" || wanted.id ? null : wanted.drafts, after, limit });

  function show(found, isMore) {
    const items = found.candidates;
    rows = isMore ? [...rows, ...items] : items;
    next = found.next ?? null;
    more.hidden = next === null;
    list.update(rows);
    say(told, rows.length ? `${plural(rows.length, "candidate")} shown${next === null ? "" : ", more available"}` : next === null ? "No matching candidates." : "Nothing found so far.");
    more.textContent = found.is_done === false && wanted.q ? "Search further" : "More";
    if (wanted.failed === "true") showReasons();
    else put(reasons);
  }

  /** Failures by reason; proposals without a candidate are not in the list below. */
  async function showReasons() {
    if (reasons.hasChildNodes()) return;
    const found = await context.get(context.ofRun("answer")).catch(() => null);
    if (!found?.failures.length || wanted.failed !== "true") return;
    const made = table("Failures by reason", [
      { name: "count", number: true, cell: (row) => count(row.count), sort: (row) => row.count },
      { name: "where", cell: (row) => ({ proposal: "no candidate proposed", evaluation: "evaluation failed", gate: "rejected by a gate" })[row.source] },
      { name: "reason", wide: true, cell: (row) => inline(row.text || "no reason given", 300) },
    ], { class: "stacks" });
    made.update(found.failures.slice(0, 20));
    put(reasons, h("div", { class: "card" }, h("h2", {}, `Failures by reason (${count(found.num_failures)})`), made.element));
  }

  async function page() {
    try { show(await ask(next, PAGE), true); } catch (error) { if (error.name !== "AbortError") put(problem, h("p", { class: "problem" }, error.message)); }
  }

  const refresh = watch(context, () => ask(null, Math.min(500, Math.max(PAGE, rows.length))), (found) => show(found, false), problem, { follow: () => rows.length <= PAGE });
  const restart = () => { rows = []; context.setQuery(wanted); refresh(); };
}

function candidateTable(context, ids) {
  const link = (id, label = id) => h("a", { href: context.link("candidate", { more: [id] }), class: "mono", on: { click: (event) => { if (!event.ctrlKey && !event.metaKey) { event.preventDefault(); context.open(id, ids()); } } } }, label);
  const verdicts = { accept: "accepted", reject: "rejected", hold: "held" };
  return table("Candidates", [
    { name: "candidate", cell: (row) => link(row.id) },
    { name: "score", number: true, cell: (row) => (row.failed ? h("span", { class: "problem" }, "failed") : h("span", { class: row.warning ? "warn" : null }, score(row.score))) },
    { name: "island", number: true, minor: true, cell: (row) => count(row.island) },
    { name: "decision", cell: (row) => verdicts[row.verdict] ?? (row.is_draft ? "trial" : "pending") },
    { name: "parent", cell: (row) => row.parents.filter(Boolean).slice(-2).flatMap((id, place) => [place ? ", " : "", link(id)]) },
    { name: "LLM", minor: true, wrap: true, cell: (row) => inline(row.model || row.mutator, 40) },
    { name: "change", wrap: true, cell: (row) => inline(row.change, 120) },
    { name: "cost", minor: true, number: true, cell: (row) => (row.cost_usd > 0 ? usd(row.cost_usd) : row.num_llm_calls ? "unknown" : "–") },
    { name: "reason", wide: true, cell: (row) => h("span", { class: row.failed ? "problem" : "warn" }, inline(row.why || row.warning, 160)) },
    { name: "time", number: true, cell: (row) => (row.at ? h("time", { title: moment(row.at) }, ago(row.at)) : "–") },
  ], { class: "stacks", empty: "No matching candidates." });
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
