// Runs: all runs of the store with their status, and a chart that compares several.

import { button, field, h, put, select } from "../dom.js";
import { lines } from "../charts/lines.js";
import { ago, count, leaf, moment, plural, score, usd } from "../format.js";
import { badge } from "../header.js";
import { link } from "../route.js";
import { table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";
import { ofRun } from "../api.js";

const EVERY = 4000; // milliseconds; the stream covers one run only
const MOST = 8; // runs in one chart

export default { mount };

function mount(root, context) {
  const chosen = new Set((context.query.get("compare") ?? "").split(",").filter(Boolean));
  const wanted = { q: context.query.get("q") ?? "", status: context.query.get("status") ?? "" };
  let all = [];
  const problem = h("div", {});
  const number = h("p", { class: "soft", role: "status" });
  const search = h("input", { type: "search", value: wanted.q, placeholder: "run, system, task or LLM", on: { input: () => { wanted.q = search.value; render(); } } });
  const statuses = ["running", "paused", "done", "stopped", "interrupted", "failed", "crashed"];
  const status = select([["", "all"], ...statuses.map((each) => [each, each])], wanted.status, (value) => { wanted.status = value; render(); });
  const comparison = compareCard(context, chosen, () => { render(); remember(); });
  const list = runTable(chosen, () => { remember(); comparison.update(all); render(); });
  root.append(h("div", { class: "bar" }, h("div", { class: "grow" }, field("Search", search)), field("Status", status), number), problem, comparison.element, h("div", { class: "card" }, list.element));

  function remember() {
    context.setQuery({ compare: [...chosen].join(","), q: wanted.q, status: wanted.status });
  }

  function render() {
    const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = all.filter((run) => (!wanted.status || run.status === wanted.status) && words.every((word) => textOf(run).includes(word)));
    number.textContent = shown.length === all.length ? plural(all.length, "run") : `${count(shown.length)} of ${plural(all.length, "run")}`;
    list.update(shown);
  }

  watch(context, () => context.get("api/runs", { limit: 500 }), (data) => {
    all = data.runs;
    comparison.update(all);
    render();
  }, problem, { every: EVERY });
}

function textOf(run) {
  return [run.id, run.system, run.task, run.llm, run.status].join(" ").toLowerCase();
}

function runTable(chosen, onChoose) {
  return table("Runs of the store", [
    { name: "choose", title: "compare", cell: (run) => h("input", { type: "checkbox", "aria-label": `Compare ${run.id}`, checked: chosen.has(run.id), on: { change: (event) => { toggle(chosen, run.id, event.target.checked); onChoose(); } } }) },
    { name: "run", cell: (run) => h("a", { href: link("overview", { run: run.id }), class: "mono" }, run.id), sort: (run) => run.id },
    { name: "status", cell: (run) => badge(run.status), sort: (run) => run.status },
    { name: "system", minor: true, cell: (run) => run.system, sort: (run) => run.system },
    { name: "task", wrap: true, cell: (run) => [inline(leaf(run.task), 60), run.baseline_of ? h("span", { class: "soft" }, ` baseline of ${run.baseline_of}`) : null], sort: (run) => leaf(run.task) },
    { name: "LLM", minor: true, cell: (run) => inline(run.llm, 50), sort: (run) => run.llm },
    { name: "initial", minor: true, number: true, cell: (run) => score(run.initial_score), sort: (run) => run.initial_score },
    { name: "best", number: true, cell: (run) => h("b", {}, score(run.best_score)), sort: (run) => run.best_score },
    { name: "evaluations", number: true, cell: (run) => count(run.evaluations), sort: (run) => run.evaluations },
    { name: "cost", number: true, cell: (run) => usd(run.cost_usd), sort: (run) => run.cost_usd },
    { name: "created", number: true, cell: (run) => h("time", { datetime: run.began, title: moment(run.began) }, ago(run.began)), sort: (run) => run.began },
  ], { class: "stacks", sort: ["created", true], empty: "No runs yet. './atoll demo' creates one in a minute.", rowClass: (run) => (chosen.has(run.id) ? "chosen" : null) });
}

function toggle(chosen, run, isIn) {
  if (!isIn) chosen.delete(run);
  else if (chosen.size < MOST) chosen.add(run);
}

/** The chart of the selected runs. */
function compareCard(context, chosen, onClear) {
  const chart = lines({ title: "Best score of the selected runs", xLabel: "evaluations", yLabel: "best score" });
  const verdict = h("p", { class: "soft" });
  const clear = button("Clear", () => { chosen.clear(); element.hidden = true; onClear(); }, { class: "quiet" });
  const element = h("section", { class: "card", hidden: true, "aria-label": "Comparison" }, chart.element, h("div", { class: "row" }, verdict, clear));
  let asked = 0;

  async function update(all) {
    const runs = [...chosen];
    element.hidden = runs.length === 0;
    if (!runs.length) return;
    asked += 1;
    const mine = asked;
    const curves = await Promise.all(runs.map((run) => context.get(ofRun(run, "improvements")).catch(() => null)));
    if (mine !== asked || context.signal.aborted) return;
    const used = (run) => all.find((each) => each.id === run)?.evaluations ?? 0;
    chart.update(runs.map((run, place) => ({ name: run, step: true, tone: place, points: bestPoints(curves[place], used(run)) })));
    const tasks = new Set(runs.map((run) => all.find((each) => each.id === run)).map((run) => `${run?.system} ${run?.task}`));
    put(verdict, runs.length === 1 ? "Select another run to compare." : tasks.size > 1 ? "The runs have different tasks, so their scores are not comparable." : "");
  }

  return { element, update };
}

function bestPoints(found, evaluations) {
  const rows = found?.improvements ?? [];
  const points = rows.map((each) => [each.evaluations, each.score]);
  return points.length ? [...points, [Math.max(evaluations, points.at(-1)[0]), points.at(-1)[1]]] : [];
}
