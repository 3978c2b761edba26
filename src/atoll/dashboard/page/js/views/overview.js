// Overview: the answer of a run, its best candidate, one chart, budget, failures and settings.

import { ofRun } from "../api.js";
import { source } from "../code.js";
import { wordDiff } from "../diff.js";
import { button, field, h, put, select } from "../dom.js";
import { lines } from "../charts/lines.js";
import { scatter } from "../charts/scatter.js";
import { cost, count, duration, moment, percent, plural, score, usd } from "../format.js";
import { openPanel } from "../panel.js";
import { facts, table } from "../table.js";
import { inline, piece } from "../text.js";
import { watch } from "../watch.js";

export default { mount };

const AXES = {
  evaluations: ["evaluations", count], calls: ["LLM calls", count], cost_usd: ["cost in USD", usd], seconds: ["time", duration],
  tokens: ["tokens", count], step: ["iterations", count],
};
const COUNTING = 1000; // milliseconds between requests while the server still reads a long journal
const NEWEST = 15; // improvements shown at first
const FEW = 8; // failures and settings shown at first
const IMPORTANT = /^(run\.(seed|llm|target|iterations|budget|workers)$|system$|folder$|[a-z]+\.(preset|num_islands|policy|pattern|episodes)$)/;

function mount(root, context) {
  const problem = h("div", {});
  const said = h("section", { class: "card answer-card", "aria-label": "Answer" }, h("p", { class: "empty" }, "Loading …"));
  const result = h("div", {});
  const best = h("section", { class: "card", "aria-label": "Best candidate", hidden: true });
  const used = h("div", { class: "card" }, h("h2", {}, "Budget"));
  const about = h("div", { class: "card" }, h("h2", {}, "The run"));
  const failures = h("section", { class: "card", "aria-label": "Failures", hidden: true });
  const settings = h("section", { class: "card", "aria-label": "Settings", hidden: true });
  const progress = new Progress(context);
  const steps = improvementTable(context, progress);
  root.append(problem, h("div", { class: "cards lead" }, said, best), result, progress.element, h("div", { class: "cards" }, used, about), failures,
    h("div", { class: "card" }, h("h2", {}, "Improvements, newest first"), steps.element), settings);
  progress.onUpdate = (data) => steps.update(data);

  let drawn = "";
  const load = () => context.get(context.ofRun("answer")).catch((error) => {
    if (!drawn) put(said, h("p", { class: "empty" }, "There is no answer yet; see the message above."));
    throw error;
  });
  watch(context, load, (found) => {
    const now = JSON.stringify(found);
    if (now === drawn) return; // keeps open parts and the selection
    const hadBest = drawn && JSON.parse(drawn).best?.id === found.best?.id;
    drawn = now;
    put(said, ...answer(found));
    put(result, ...results(found, context));
    if (!hadBest) drawBest(best, found, context);
    progress.metrics(found.metrics);
    drawFailures(failures, found, context);
    drawSettings(settings, found);
  }, problem, { every: (found) => (found.is_counted ? 10000 : COUNTING) });
  const show = (now) => { if (now) { put(used, h("h2", {}, "Budget"), budget(now)); put(about, h("h2", {}, "The run"), aboutRun(now)); progress.summary(now); } };
  const hear = (event) => { if (event.detail.asked === context.run) show(event.detail); };
  document.addEventListener("atoll:summary", hear, { signal: context.signal });
  show(context.summary());
}

function answer(found) {
  return [
    h("p", { class: "headline" }, inline(found.headline, 500)),
    h("ul", { class: "plain-list" }, found.details.map((line) => h("li", {}, inline(line, 500)))),
    found.next_steps.length ? h("details", { class: "next", open: true }, h("summary", {}, "What to do next"), h("ul", {}, found.next_steps.map((step) => h("li", {}, inline(step.text, 500), step.command ? [" ", h("code", { class: "command" }, inline(step.command, 300)), copy(step.command)] : null)))) : null,
    h("p", { class: "share" }, h("a", { href: `/api/runs/${encodeURIComponent(found.run)}/page`, download: "" }, "Save this run as an HTML file")),
  ];
}

function copy(text) {
  const made = button("Copy", async () => {
    try { await navigator.clipboard.writeText(text); made.textContent = "Copied"; } catch { made.textContent = "Cannot copy"; }
  }, { class: "quiet inline", "aria-label": `Copy the command ${text}` });
  return made;
}

/** What the system found: problems, lives or a law. */
function results(found, context) {
  const { result } = found;
  if (Array.isArray(result.instances)) return [problems(result, context)];
  if (Number.isFinite(result.episodes)) return [lives(result, context)];
  if (typeof result.law === "string") return [law(result)];
  return [];
}

function problems(result, context) {
  const list = table("Problems", [
    { name: "problem", cell: (row) => inline(row.id, 80), sort: (row) => row.id },
    { name: "solved", cell: (row) => h("b", { class: row.solved ? "good" : "problem" }, row.solved ? "✓ solved" : "not solved"), sort: (row) => Number(row.solved) },
    { name: "score", number: true, cell: (row) => score(row.score), sort: (row) => row.score },
    { name: "evaluations", number: true, cell: (row) => count(row.evaluations), sort: (row) => row.evaluations },
    { name: "calls", number: true, cell: (row) => count(row.calls), sort: (row) => row.calls },
    { name: "plan", cell: (row) => candidateLink(context, row.candidate, result.instances.map((each) => each.candidate).filter(Boolean)) },
    { name: "end", title: "how it ended", wrap: true, cell: (row) => inline(row.solved && row.ended === "the run ended first" ? "solved; the run ended before the search for a better plan" : row.ended, 160) },
  ], { class: "stacks", sort: ["solved", false] });
  list.update(result.instances.slice(0, 500));
  return h("section", { class: "card", "aria-label": "Problems" }, h("h2", {}, `${result.solved} of ${plural(result.total, "problem")} solved`),
    h("div", { class: "squares", role: "img", "aria-label": `${result.solved} of ${result.total} solved` }, result.instances.slice(0, 200).map((row) => h("i", { class: row.solved ? "yes" : "no", title: `${row.id}: ${row.solved ? "solved" : "not solved"}` }))), list.element);
}

function lives(result, context) {
  const causes = Object.entries(result.death_causes ?? {});
  return h("section", { class: "card", "aria-label": "Lives" }, h("h2", {}, `${plural(result.episodes, "life", "lives")}`),
    facts([["survived", count(result.episodes - (result.deaths ?? 0))], ["mean ticks", score(result.mean_ticks, 4)], ["best score", score(result.best_score)], ["mean reward", score(result.mean_reward, 3)],
      ["map seen", percent(result.coverage)], ["damage avoided", percent(result.avoidance_rate)], ["forecast AUROC", score(result.auroc, 3)]]),
    causes.length ? h("p", {}, h("span", { class: "soft" }, "Causes of death: "), causes.map(([name, number], place) => [place ? ", " : "", inline(name, 40), ` ${number}`])) : null,
    h("p", {}, h("a", { href: context.link("life") }, "Watch the lives"), " · ", h("a", { href: context.link("playbook") }, "Read the playbook")));
}

function law(result) {
  const chart = scatter({ title: "Predicted against measured", xLabel: `measured ${result.target ?? ""}`, yLabel: "predicted", height: 280, isSquare: true });
  const splits = Object.entries(result.predictions ?? {});
  const names = { train: "training data", test_id: "held-out data", test_ood: "outside the training range" };
  const list = table("Errors by split", [
    { name: "split", title: "data", cell: ([name]) => names[name] ?? inline(name, 40) },
    { name: "nmse", title: "relative squared error", number: true, cell: ([, value]) => score(value, 3) },
    { name: "r2", title: "R²", number: true, cell: ([, value]) => (Number.isFinite(value) ? rSquared(value) : "–") },
  ]);
  list.update(Object.entries(result.nmse ?? {}));
  chart.update(splits.flatMap(([name, points], place) => points.map(([measured, predicted]) => ({ x: measured, y: predicted, tone: place, label: names[name] ?? name }))), { legend: splits.map(([name], place) => [place, names[name] ?? name]) });
  const other = (result.runners_up ?? []).length ? h("p", { class: "soft" }, `${plural(result.runners_up.length, "other law")} fit almost as well.`) : null;
  return h("section", { class: "card", "aria-label": "Law" }, h("h2", {}, "The law"),
    h("pre", { class: "law" }, h("code", {}, inline(`${result.target ?? "y"} = ${result.law}`, 2000))),
    h("div", { class: "cards" }, h("div", {}, list.element, other, result.extrapolation ? h("p", { class: "note" }, inline(Object.values(result.extrapolation).join("; "), 400)) : null), splits.length ? chart.element : h("p", { class: "empty" }, "No predictions are stored with this run.")));
}

/** R² with as many nines as it has. */
function rSquared(nmse) {
  const value = 1 - nmse;
  return nmse > 0 && nmse < 1e-3 ? `1 − ${score(nmse, 2)}` : score(value, 4);
}

function candidateLink(context, id, ids) {
  if (!id) return "–";
  return h("a", { href: context.link("candidate", { more: [id] }), class: "mono", on: { click: (event) => { if (!event.ctrlKey && !event.metaKey) { event.preventDefault(); openPanel(context.run, id, ids); } } } }, id);
}

function drawBest(card, found, context) {
  const { best } = found;
  card.hidden = best === null;
  if (best === null) return;
  const place = h("div", {});
  const isDiff = Boolean(best.diff?.diff) && !found.result.law;
  const parts = { diff: () => wordDiff(best.diff.diff, "Diff to the initial candidate"), text: () => piece(best.text, { label: "Text of the best candidate", numbered: true, show: (text) => source(text, "Text of the best candidate") }) };
  const isSimilar = isDiff && /^ /m.test(best.diff.diff) && best.diff.diff.length < best.text.text.length * 3; // else the whole text says more
  let shown = isSimilar ? "diff" : "text";
  const choice = isDiff ? select([["diff", "changes to the initial candidate"], ["text", "whole text"]], shown, (value) => { shown = value; put(place, parts[shown]()); }, { "aria-label": "Show the best candidate as" }) : null;
  put(place, parts[shown]());
  put(card, h("h2", {}, (found.result.total ?? 1) > 1 ? "One of the plans " : found.result.law ? "Best candidate on the training data " : "Best candidate ", candidateLink(context, best.id, [best.id]), h("span", { class: "soft" }, ` ${found.result.instances ? "fitness" : "score"} ${score(best.score)}`)),
    best.warning ? h("p", { class: "warn" }, inline(best.warning, 400)) : null,
    h("div", { class: "row" }, choice, button("Details", () => openPanel(context.run, best.id, [best.id]), { class: "quiet" })), place);
}

/** The chart of the best score so far with dots for candidates, and its controls. */
class Progress {
  #context;
  #over;
  #metric;
  #data = null;
  #baselines = new Map();
  #islands = null;
  #problem = h("div", {});
  #metricField = h("div", {});
  #axis;
  #show;
  #chart;

  onUpdate = () => {};

  constructor(context) {
    this.#context = context;
    this.#over = context.query.get("over") ?? "evaluations";
    this.#metric = context.query.get("metric") ?? "score";
    let what = context.query.get("show") ?? "all";
    const remember = () => context.setQuery({ over: this.#over, metric: this.#metric === "score" ? "" : this.#metric, show: what === "all" ? "" : what });
    this.#chart = lines({ title: "Best so far", xLabel: AXES[this.#over]?.[0], yLabel: this.#metric, height: 320, onOpen: (id) => openPanel(context.run, id, this.#data?.dots.ids ?? []) });
    this.#axis = select(Object.entries(AXES).map(([name, [label]]) => [name, label]), this.#over, (value) => { this.#over = value; remember(); this.#draw(); });
    this.#show = select([["all", "run and candidates"], ["best", "run only"], ["islands", "islands"]], what, (value) => { what = value; remember(); this.#refresh(); });
    this.what = () => what;
    this.element = h("section", { class: "card", "aria-label": "Progress" }, this.#problem,
      h("div", { class: "bar" }, field("Over", this.#axis), this.#metricField, field("Show", this.#show)), this.#chart.element);
    this.#refresh = watch(context, () => this.#load(), (data) => { this.#data = data; this.onUpdate(data); this.#draw(); }, this.#problem,
      { every: (data) => (data.isCounted ? null : COUNTING) });
    this.remember = remember;
  }

  #refresh = () => {};

  async #load() {
    const metric = this.#metric === "score" ? null : this.#metric;
    const [found, dots, curve] = await Promise.all([
      this.#context.get(this.#context.ofRun("improvements"), { metric }), this.what() === "all" ? this.#context.get(this.#context.ofRun("dots"), { metric }) : null,
      this.what() === "islands" ? this.#context.get(this.#context.ofRun("curve")) : null,
    ]);
    this.#islands = curve?.islands ?? null;
    return { improvements: found.improvements, dots: dots ?? { ids: [], values: [] }, isCounted: found.is_counted && (dots?.is_counted ?? true) };
  }

  /** Offers the metrics of the evaluator. */
  metrics(names) {
    if (this.#metricField.dataset.names === names.join()) return;
    this.#metricField.dataset.names = names.join();
    if (!names.length) return;
    put(this.#metricField, field("Metric", select([["score", "score"], ...names.filter((name) => name !== "score").map((name) => [name, name])], this.#metric, (value) => { this.#metric = value; this.remember(); this.#refresh(); })));
  }

  /** Takes the totals and the baselines from the header of the run. */
  async summary(now) {
    this.now = now;
    for (const each of now.baselines ?? []) {
      if (this.#baselines.has(each.run)) continue;
      this.#baselines.set(each.run, null);
      this.#context.get(ofRun(each.run, "improvements")).then((found) => { this.#baselines.set(each.run, { ...each, improvements: found.improvements }); this.#draw(); }, () => {});
    }
    this.#draw();
  }

  #draw() {
    if (!this.#data) return;
    const { improvements, dots, isCounted } = this.#data;
    for (const each of this.#axis.options) each.disabled = !improvements.some((row) => row[each.value] > 0) && !(dots[each.value] ?? []).some((x) => x > 0); // runs without an LLM have no cost
    if (isCounted && this.#axis.querySelector(`option[value="${CSS.escape(this.#over)}"]`)?.disabled) this.#over = "evaluations";
    const over = isCounted ? this.#over : "step"; // the other axes need the whole journal
    this.#axis.disabled = !isCounted;
    this.#axis.value = over;
    const now = this.now;
    const end = now ? { evaluations: now.evaluations, calls: now.calls, cost_usd: now.cost_usd, tokens: now.tokens, seconds: now.seconds, step: now.steps }[over] : null;
    const series = [{ name: this.#metric === "score" ? "best so far" : `${this.#metric} of the best`, step: true, main: true, tone: 0, points: curve(improvements, over, end) }];
    if (dots.ids.length && dots[over]) series.push({ name: dots.is_sample ? "candidates (a sample)" : "candidates", dots: true, tone: 8, points: dots.ids.map((id, place) => [dots[over][place], dots.values[place], id]).filter(([x]) => Number.isFinite(x)) });
    for (const each of this.#islands ?? []) series.push({ name: `island ${each.island} best`, step: true, tone: 1 + (each.island % 9), points: (each[over] ?? []).map((x, place) => [x, each.best[place]]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)) });
    if (this.#metric === "score") [...this.#baselines.values()].filter(Boolean).forEach((each, place) => series.push({ name: each.title, baseline: true, step: true, tone: 8 - place, points: curve(each.improvements, over, over === "evaluations" ? each.evaluations : null).map(([x, y]) => [x, y]) }));
    const [label, formatX] = AXES[over] ?? AXES.evaluations;
    this.#chart.update(series, { xLabel: label, yLabel: this.#metric, formatX });
  }
}

/** Points of a best-so-far line up to the end of the run. */
function curve(improvements, over, end) {
  const points = improvements.map((row) => [row[over], row.value ?? row.score, row.id]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  return points.length && end > points.at(-1)[0] ? [...points, [end, points.at(-1)[1]]] : points;
}

function budget(now) {
  const spent = { iterations: now.steps, evaluations: now.evaluations, calls: now.calls, tokens: now.tokens, usd: now.cost_usd, seconds: now.seconds };
  const limits = Object.entries(now.budget ?? {}).filter(([, limit]) => Number.isFinite(limit));
  if (!limits.length) return h("p", { class: "empty" }, "The run has no limits and runs until you stop it.");
  const rows = limits.map(([name, limit]) => {
    if (name === "seconds" && !Number.isFinite(spent.seconds)) return h("p", { class: "soft" }, `Time limit ${duration(limit)}. The records of this run have no times.`);
    const share = Math.min(1, (spent[name] ?? 0) / (limit || 1));
    const label = name === "usd" ? `${now.calls > 0 ? cost(now) : usd(0)} of ${usd(limit)}` : name === "seconds" ? `${duration(Math.min(spent.seconds, limit))} of ${duration(limit)}` : `${count(spent[name] ?? 0)} of ${count(limit)} ${name}`;
    return h("div", { class: "budget-row" }, h("span", {}, label), h("span", { class: "soft" }, percent(share)),
      h("div", { class: "meter", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * share) }, h("i", { class: share >= 1 ? "full" : "", style: { width: `${100 * share}%` } })));
  });
  const isOver = !["running", "paused"].includes(now.status);
  return [rows, Number.isFinite(now.eta_seconds) ? h("p", {}, `About ${duration(now.eta_seconds)} left until the first limit.`) : isOver && now.reason ? h("p", { class: "soft" }, inline(`Ended: ${now.reason}.`, 200)) : null];
}

function aboutRun(now) {
  return facts([
    ["system", now.system], ["task", inline(now.task, 120)], ["LLM", inline(now.llm, 80)], Number.isInteger(now.seed) ? ["seed", String(now.seed)] : null, ["sandbox", inline(now.sandbox, 80)],
    ["started", moment(now.began)], Number.isFinite(now.seconds) ? ["running time", duration(now.seconds)] : null, ["cost", cost(now)],
    ["initial", score(now.initial_score)], ["best", score(now.best_score)], ["failures", count(now.failures)],
  ]);
}

function drawFailures(card, found, context) {
  const rows = found.failures;
  card.hidden = rows.length === 0;
  if (!rows.length) return;
  const names = { proposal: "no candidate proposed", evaluation: "evaluation failed", gate: "rejected by a gate" };
  const list = table("Failures by reason", [
    { name: "count", number: true, cell: (row) => count(row.count), sort: (row) => row.count },
    { name: "where", cell: (row) => names[row.source] ?? row.source, sort: (row) => row.source },
    { name: "reason", wide: true, cell: (row) => inline(row.text || "no reason given", 300) },
    { name: "examples", cell: (row) => (row.source === "proposal" ? h("span", { class: "soft" }, `iteration ${row.examples.slice(0, 3).join(", ")}`) : row.examples.slice(0, 3).flatMap((id, place) => [place ? ", " : "", candidateLink(context, id, row.examples)])) },
  ], { class: "stacks" });
  list.update(rows.slice(0, FEW));
  const more = button(`All ${count(rows.length)} reasons`, () => { list.update(rows); more.hidden = true; }, { class: "quiet", hidden: rows.length <= FEW });
  put(card, h("h2", {}, `Failures by reason (${count(found.num_failures)})`), list.element, more);
}

function drawSettings(card, found) {
  card.hidden = found.settings.length === 0;
  const important = found.settings.filter((row) => IMPORTANT.test(row.name));
  const list = table("Settings", [{ name: "setting", cell: (row) => h("code", {}, inline(row.name, 120)), sort: (row) => row.name }, { name: "value", wide: true, cell: (row) => inline(row.value, 300) }]);
  list.update(important.length ? important : found.settings);
  const more = button(`All ${count(found.settings.length)} settings`, () => { list.update(found.settings); more.hidden = true; }, { class: "quiet", hidden: important.length === 0 || important.length === found.settings.length });
  put(card, h("h2", {}, "Settings"), list.element, more);
}

/** The newest improvements, and all of them on demand: a long run has thousands. */
function improvementTable(context) {
  let rows = [];
  let isAll = false;
  const list = table("Improvements", [
    { name: "candidate", cell: (each) => candidateLink(context, each.id, rows.map((row) => row.id)) },
    { name: "score", number: true, cell: (each) => score(each.score), sort: (each) => each.score },
    { name: "gain", number: true, cell: (each) => (Number.isFinite(each.gain) ? `+${score(each.gain, 3)}` : "") },
    { name: "evaluations", number: true, cell: (each) => count(each.evaluations), sort: (each) => each.evaluations },
    { name: "time", number: true, cell: (each) => (Number.isFinite(each.seconds) ? duration(each.seconds) : "–"), sort: (each) => each.seconds },
    { name: "island", number: true, cell: (each) => count(each.island), sort: (each) => each.island },
  ], { class: "tight", empty: "No improvement yet." });
  const more = button("All improvements", () => { isAll = true; show(); }, { class: "quiet", hidden: true });

  function show() {
    more.hidden = isAll || rows.length <= NEWEST;
    more.textContent = `All ${count(rows.length)} improvements`;
    list.update(isAll ? rows : rows.slice(0, NEWEST));
  }

  return { element: h("div", {}, list.element, more), update({ improvements: next, isCounted }) { rows = next.map((row, place) => ({ ...row, ...(isCounted ? {} : { evaluations: null, seconds: null }), gain: row.score - next[place - 1]?.score })).reverse(); show(); } };
}
