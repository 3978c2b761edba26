// LLMs: calls, latency, failures, cost and shares.

import { h, put } from "../dom.js";
import { bars } from "../charts/bars.js";
import { lines } from "../charts/lines.js";
import { cost, count, duration, percent, score } from "../format.js";
import { facts, table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";

export default { mount };

function mount(root, context) {
  const problem = h("div", {});
  const total = h("div", {});
  const empty = h("p", { class: "empty", hidden: true }, "This run uses no LLM. Its mutators change the syntax and the numbers of programs.");
  const list = table("LLMs of the run", [
    { name: "model", wrap: true, cell: (row) => [inline(row.model, 80), row.replied_as.length ? h("span", { class: "soft" }, " replies as ", inline(row.replied_as.join(", "), 120)) : null], sort: (row) => row.model },
    { name: "calls", number: true, cell: (row) => count(row.calls), sort: (row) => row.calls },
    { name: "failures", number: true, cell: (row) => count(row.failures), sort: (row) => row.failures },
    { name: "mean", title: "mean latency", number: true, cell: (row) => duration(row.latency_mean), sort: (row) => row.latency_mean },
    { name: "p95", title: "95 % within", number: true, cell: (row) => duration(row.latency_p95), sort: (row) => row.latency_p95 },
    { name: "in", title: "tokens in", number: true, cell: (row) => count(row.tokens_in), sort: (row) => row.tokens_in },
    { name: "out", title: "tokens out", number: true, cell: (row) => count(row.tokens_out), sort: (row) => row.tokens_out },
    { name: "usd", title: "USD", number: true, cell: (row) => cost({ ...row, tokens: row.tokens_in + row.tokens_out }), sort: (row) => row.cost_usd },
    { name: "share", title: "share of the newest calls", number: true, cell: (row) => percent(row.share, 1), sort: (row) => row.share },
    { name: "better", title: "improvements", number: true, cell: (row) => count(row.improvements), sort: (row) => row.improvements },
    { name: "reward", number: true, cell: (row) => score(row.reward, 4), sort: (row) => row.reward },
  ], { class: "stacks" });
  const calls = bars({ title: "Calls by LLM", format: count });
  const time = lines({ title: "Latency of the newest calls", xLabel: "call", yLabel: "seconds", formatX: count, isLinear: true });
  const cards = h("div", { class: "cards" }, h("div", { class: "card" }, calls.element), h("div", { class: "card" }, time.element));
  const losses = table("Failures", [
    { name: "count", number: true, cell: (row) => count(row.count), sort: (row) => row.count },
    { name: "reason", wide: true, cell: (row) => inline(row.reason, 300) },
  ]);
  const lossCard = h("div", { class: "card" }, h("h2", {}, "Calls that gave no candidate"), losses.element);
  root.append(problem, total, empty, h("div", { class: "card" }, list.element), cards, lossCard);

  watch(context, () => context.get(context.ofRun("models")), (data) => {
    const rows = data.models;
    empty.hidden = rows.length > 0;
    cards.hidden = rows.length === 0;
    list.update(rows);
    losses.update(data.failures);
    lossCard.hidden = data.failures.length === 0;
    const sum = (name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);
    put(total, rows.length ? facts([["calls", count(sum("calls"))], ["failures", count(sum("failures"))], ["tokens", count(sum("tokens_in") + sum("tokens_out"))], ["cost", cost({ cost_usd: sum("cost_usd"), calls: sum("calls"), tokens: sum("tokens_in") + sum("tokens_out") })], data.route ? ["routing", inline(data.route, 60)] : null, data.is_counted ? null : ["counted so far", percent(data.counted)]]) : null);
    calls.update(rows.map((row, place) => ({ name: row.model, value: row.calls, tone: place, note: row.failures ? `${count(row.failures)} failed` : "" })));
    time.update(rows.map((row, place) => ({ name: row.model, tone: place, points: row.latencies.map((each, n) => [n + 1, each]) })));
  }, problem);
}
