// Comparison of runs: curves, groups of seeds with median and band, final table, settings that differ.

import { button, field, h, put, select } from "../dom.js";
import { lines, valueAt } from "../charts/lines.js";
import { cost, count, duration, leaf, score, usd } from "../format.js";
import { link } from "../route.js";
import { table } from "../table.js";
import { inline } from "../text.js";
import { address } from "../api.js";

const AXES = { evaluations: ["evaluations", count], calls: ["LLM calls", count], cost_usd: ["cost in USD", usd], seconds: ["time", duration] };
const BAND_POINTS = 80;

/** chosen: the set of selected runs; onClear(): called when the selection was changed here. */
export function comparison(context, chosen, onClear) {
  let over = "evaluations";
  let by = context.query.get("group") === "runs" ? "runs" : "groups";
  let found = null;
  let asked = 0;
  let stamp = "";
  const chart = lines({ title: "Best score of the selected runs", xLabel: "evaluations", yLabel: "best score" });
  const verdict = h("p", { class: "soft" });
  const tables = h("div", {});
  const draw = () => found && drawChart();
  const axis = field("Over", select(Object.entries(AXES).map(([name, [label]]) => [name, label]), over, (value) => { over = value; draw(); }));
  const grouping = field("Show", select([["groups", "seeds as one group"], ["runs", "each run"]], by, (value) => { by = value; draw(); }));
  const clear = button("Clear", () => { chosen.clear(); element.hidden = true; stamp = ""; onClear(); }, { class: "quiet" });
  const element = h("section", { class: "card", hidden: true, "aria-label": "Comparison" }, h("div", { class: "bar" }, h("h2", { class: "grow" }, "Comparison"), axis, grouping, clear), verdict, chart.element, tables);

  async function update(all) {
    const runs = [...chosen];
    element.hidden = runs.length === 0;
    if (!runs.length || !all) return;
    const now = JSON.stringify(runs.map((id) => { const run = all.find((each) => each.id === id); return [id, run?.events, run?.label]; }));
    if (now === stamp) return;
    stamp = now;
    asked += 1;
    const mine = asked;
    const url = address("api/compare");
    runs.forEach((run) => url.searchParams.append("run", run));
    try {
      const data = await context.get(`api/compare${url.search}`);
      if (mine !== asked || context.signal.aborted) return;
      found = data;
      drawChart();
      drawTables();
    } catch (error) {
      if (error.name !== "AbortError") put(verdict, h("span", { class: "problem" }, error.message));
    }
  }

  const nameOf = (row) => row.label.name || `${leaf(row.task)} ${Number.isInteger(row.seed) ? `seed ${row.seed}` : ""} ${row.id.slice(-4)}`.trim();
  const pointsOf = (each) => {
    const points = each.points.map((point) => [point[over], point.score]).filter(([x]) => Number.isFinite(x));
    const end = { evaluations: each.row.evaluations, calls: each.row.calls, cost_usd: each.row.cost_usd, seconds: each.row.seconds }[over];
    return points.length && end > points.at(-1)[0] ? [...points, [end, points.at(-1)[1]]] : points;
  };

  function drawChart() {
    const grouped = by === "groups" ? found.groups.filter((group) => group.runs.length > 1) : [];
    const inGroup = new Set(grouped.flatMap((group) => group.runs));
    const byId = new Map(found.runs.map((each) => [each.row.id, each]));
    const series = found.runs.filter((each) => !inGroup.has(each.row.id)).map((each, place) => ({ name: nameOf(each.row), step: true, tone: place, points: pointsOf(each) }));
    grouped.forEach((group, place) => series.push(groupSeries(group, group.runs.map((id) => pointsOf(byId.get(id))), `${leaf(byId.get(group.runs[0]).row.task)}, median of ${group.runs.length} seeds`, series.length + place)));
    chart.update(series, { xLabel: AXES[over][0], formatX: AXES[over][1] });
    put(verdict, found.runs.length === 1 ? "Select another run to compare." : found.is_same_task ? best(found) : "The runs have different tasks, so their scores are not comparable.");
  }

  function best(data) {
    const scored = data.runs.filter((each) => Number.isFinite(each.row.best_score)).sort((a, b) => b.row.best_score - a.row.best_score);
    if (scored.length < 2) return "";
    const [first, second] = scored;
    const lead = first.row.best_score - second.row.best_score;
    return lead > 0 ? `${nameOf(first.row)} has the best score, ${score(lead, 3)} above ${nameOf(second.row)}.` : "The best runs have the same score.";
  }

  function drawTables() {
    const groupOf = new Map(found.groups.flatMap((group) => group.runs.map((id) => [id, group])));
    const final = table("Final scores", [
      { name: "run", wrap: true, cell: (each) => h("a", { href: link("overview", { run: each.row.id }) }, inline(nameOf(each.row), 60)), sort: (each) => nameOf(each.row) },
      { name: "status", cell: (each) => each.row.status, sort: (each) => each.row.status },
      { name: "initial", number: true, cell: (each) => score(each.row.initial_score), sort: (each) => each.row.initial_score },
      { name: "best", number: true, cell: (each) => h("b", {}, score(each.row.best_score)), sort: (each) => each.row.best_score },
      { name: "gain", number: true, cell: (each) => score(each.gain), sort: (each) => each.gain },
      { name: "to best", number: true, title: "evaluations to best", cell: (each) => count(each.evaluations_to_best), sort: (each) => each.evaluations_to_best },
      { name: "evaluations", number: true, cell: (each) => count(each.row.evaluations), sort: (each) => each.row.evaluations },
      { name: "cost", number: true, cell: (each) => cost(each.row), sort: (each) => each.row.cost_usd },
      { name: "group", title: "seeds: median [middle half]", wrap: true, cell: (each) => { const group = groupOf.get(each.row.id); return group && group.runs.length > 1 ? `${group.runs.length}: ${score(group.median, 4)} [${score(group.quartile_low, 4)}, ${score(group.quartile_high, 4)}]` : "one seed"; } },
    ], { class: "stacks", sort: ["best", true] });
    final.update(found.runs);
    const names = found.different.filter((name) => !/^(files\.|created)/.test(name));
    const settings = table("Settings that differ", [{ name: "setting", cell: (name) => h("code", {}, inline(name, 80)) }, ...found.runs.slice(0, 8).map((each, place) => ({ name: `r${place}`, title: nameOf(each.row), wrap: true, cell: (name) => inline(each.settings[name] ?? "–", 80) }))]);
    settings.update(names.slice(0, 60));
    put(tables, h("h2", {}, "Final scores"), final.element, found.runs.length > 1 ? h("details", { open: names.length <= 12 }, h("summary", {}, names.length ? `${names.length} settings differ` : "All settings are the same"), names.length ? settings.element : null) : null);
  }

  return { element, update };
}

/** The median of several curves with a band from the lowest to the highest. */
function groupSeries(group, curves, name, tone) {
  const filled = curves.filter((points) => points.length);
  const ends = filled.map((points) => points.at(-1)[0]);
  const from = Math.max(...filled.map((points) => points[0][0]));
  const to = Math.min(...ends);
  const points = [];
  const band = [];
  for (let n = 0; n <= BAND_POINTS && to >= from; n += 1) {
    const x = from + ((to - from) * n) / BAND_POINTS;
    const values = filled.map((each) => valueAt({ points: each, step: true }, x)).filter((value) => value !== null).sort((a, b) => a - b);
    const middle = values.length % 2 ? values[(values.length - 1) / 2] : (values[values.length / 2 - 1] + values[values.length / 2]) / 2;
    points.push([x, middle]);
    band.push([x, values[0], values.at(-1)]);
  }
  return { name, step: true, main: true, tone, points, band };
}
