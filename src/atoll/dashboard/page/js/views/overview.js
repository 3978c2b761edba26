// Overview: score curves, budget and improvements.

import { button, field, h, put, select } from "../dom.js";
import { lines } from "../charts/lines.js";
import { count, duration, moment, percent, score, usd } from "../format.js";
import { facts, table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";

export default { mount };

const AXES = { evaluations: ["evaluations", count], cost_usd: ["cost in USD", usd], tokens: ["tokens", count], step: ["iterations", count] };

const NEWEST = 40; // improvements shown at first
const FEW = 5; // maximum number of islands with means by default

function mount(root, context) {
  let over = context.query.get("over") ?? "evaluations";
  let what = context.query.get("show");
  let curve = null;
  const problem = h("div", {});
  const chart = lines({ title: "Score by island", xLabel: AXES[over]?.[0], yLabel: "score", height: 320 });
  const used = h("div", { class: "card" }, h("h2", {}, "Budget"));
  const about = h("div", { class: "card" }, h("h2", {}, "The run"));
  const steps = improvementTable(context);
  const remember = () => { context.setQuery({ over, show: what }); draw(); };
  const shown = select([["both", "best and mean"], ["best", "best only"], ["mean", "mean only"], ["all", "run only"]], what ?? "both", (value) => { what = value; remember(); });
  const axis = select(Object.entries(AXES).map(([name, [label]]) => [name, label]), over, (value) => { over = value; remember(); });
  const controls = h("div", { class: "bar" },
    field("Over", axis),
    field("Show", shown));
  root.append(problem, h("div", { class: "card" }, controls, chart.element), h("div", { class: "cards" }, used, about),
    h("div", { class: "card" }, h("h2", {}, "Improvements, newest first"), steps.element));

  function draw() {
    if (!curve) return;
    const [label, formatX] = AXES[over] ?? AXES.evaluations;
    chart.update(seriesOf(curve, over, what, context.summary()?.baselines ?? []), { xLabel: label, formatX });
  }

  watch(context, () => context.get(context.ofRun("curve")), (data) => {
    curve = data;
    what ??= data.islands.length > FEW ? "best" : "both";
    for (const each of axis.options) each.disabled = !data.whole[each.value].some((x) => x > 0); // runs without an LLM have no cost
    if (axis.selectedOptions[0]?.disabled) axis.value = over = "evaluations";
    shown.value = what;
    draw();
  }, problem);
  watch(context, () => context.get(context.ofRun("improvements")), (data) => steps.update([...data.improvements].reverse()), problem);
  const show = (now) => { if (now) { put(used, h("h2", {}, "Budget"), budget(now)); put(about, h("h2", {}, "The run"), aboutRun(now)); draw(); } };
  const hear = (event) => { if (event.detail.id === context.run) show(event.detail); };
  document.addEventListener("atoll:summary", hear, { signal: context.signal });
  show(context.summary());
}

/** The lines of a curve; `over` names the column that is the axis. */
function seriesOf(curve, over, what, baselines) {
  const points = (line, value) => line[over].map((x, place) => [x, line[value][place]]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const found = [{ name: "best of all", step: true, main: true, tone: 0, points: points(curve.whole, "best") }];
  if (what !== "all") {
    curve.islands.forEach((each) => {
      if (what !== "mean") found.push({ name: `island ${each.island} best`, step: true, tone: 1 + (each.island % 9), points: points(each, "best") });
      if (what !== "best") found.push({ name: `island ${each.island} mean`, soft: true, tone: 1 + (each.island % 9), points: points(each, "mean") });
    });
  }
  const ends = found.flatMap((each) => [each.points[0]?.[0], each.points.at(-1)?.[0]]).filter(Number.isFinite);
  const [from, to] = [Math.min(...ends), Math.max(...ends)];
  baselines.forEach((each, place) => {
    const value = each.best_score;
    if (Number.isFinite(value) && ends.length) found.push({ name: each.title, baseline: true, tone: 8 - place, points: [[from, value], [to, value]] });
  });
  return found;
}

function budget(now) {
  const spent = { iterations: now.steps, evaluations: now.evaluations, calls: now.calls, tokens: now.tokens, usd: now.cost_usd, seconds: now.work_seconds };
  const limits = Object.entries(now.budget ?? {}).filter(([, limit]) => Number.isFinite(limit));
  if (!limits.length) return h("p", { class: "empty" }, "The run has no limits and runs until you stop it.");
  const rows = limits.map(([name, limit]) => {
    // The journal has the total worker time, but not the elapsed time.
    if (name === "seconds") return h("p", { class: "soft" }, `Time limit ${duration(limit)}; total worker time ${duration(spent.seconds)}.`);
    const share = Math.min(1, (spent[name] ?? 0) / (limit || 1));
    const label = name === "usd" ? `${usd(spent.usd ?? 0)} of ${usd(limit)}` : `${count(spent[name] ?? 0)} of ${count(limit)} ${name}`;
    return h("div", { class: "budget-row" }, h("span", {}, label), h("span", { class: "soft" }, percent(share)),
      h("div", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share) }, h("i", { class: share >= 1 ? "full" : "", style: { width: `${100 * share}%` } })));
  });
  return [rows, Number.isFinite(now.eta_seconds) ? h("p", { class: "soft" }, `About ${duration(now.eta_seconds)} left at this pace.`) : null];
}

function aboutRun(now) {
  return facts([
    ["system", now.system], ["task", inline(now.task, 120)], ["LLM", inline(now.llm, 80)], ["sandbox", inline(now.sandbox, 80)],
    ["started", moment(now.began)], ["initial", score(now.initial_score)], ["best", score(now.best_score)],
    ["failures", count(now.failures)], now.reason ? ["ended", inline(now.reason, 200)] : null,
  ]);
}

/** The newest improvements, and all of them on demand: a long run has thousands. */
function improvementTable(context) {
  let rows = [];
  let isAll = false;
  const list = table("Improvements", [
    { name: "candidate", cell: (each) => h("a", { href: context.link("candidate", { more: [each.id] }), class: "mono" }, each.id) },
    { name: "score", number: true, cell: (each) => score(each.score), sort: (each) => each.score },
    { name: "evaluations", number: true, cell: (each) => count(each.evaluations), sort: (each) => each.evaluations },
    { name: "island", number: true, cell: (each) => count(each.island), sort: (each) => each.island },
  ], { class: "tight", empty: "No improvement yet." });
  const more = button("", () => { isAll = true; show(); }, { class: "quiet" });

  function show() {
    more.hidden = isAll || rows.length <= NEWEST;
    more.textContent = `All ${count(rows.length)} improvements`;
    list.update(isAll ? rows : rows.slice(0, NEWEST));
  }

  return { element: h("div", {}, list.element, more), update(next) { rows = next; show(); } };
}
