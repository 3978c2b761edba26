// Rollouts with their guardrail intervals, and saved shadow results.

import { decision } from "../../decision.js";
import { h, put, s } from "../../dom.js";
import { brief, count, gist, moment, percent, score } from "../../format.js";
import { facts, table } from "../../table.js";
import { inline } from "../../text.js";
import { watch } from "../../watch.js";

const STAGES = ["proposed", "shadow", "canary", "full"];

export function rollouts(root, context) {
  const problem = h("div", {});
  const running = h("div", {});
  const shadows = h("div", {});
  let drawn = "";
  root.append(problem, h("h2", {}, "Rollouts"), running, h("h2", {}, "Shadow runs"), shadows);
  const refresh = watch(context, () => context.get("api/governance/rollouts"), (found) => {
    const state = JSON.stringify(found);
    if (state === drawn) return;
    drawn = state;
    put(running, found.rollouts.length ? found.rollouts.map((each) => rollout(each, context, refresh))
      : h("p", { class: "empty" }, "No rollouts. Start one with 'atoll rollout start'."));
    put(shadows, found.shadows.length ? found.shadows.map(shadow)
      : h("p", { class: "empty" }, "No shadow runs. Save one with 'atoll shadow KEY VALUE --with FILE --keep'."));
  }, problem, { every: 5000 });
}

function rollout(state, context, refresh) {
  const rows = Object.entries(state.guarded).map(([metric, each]) => ({ metric, ...each }));
  const guards = table(`Guardrails of the rollout of ${state.key}`, [
    { name: "metric", cell: (row) => inline(row.metric, 80) },
    { name: "difference", number: true, cell: (row) => score(row.estimate, 4) },
    { name: "interval", title: "always-valid interval", cell: (row) => interval(row.interval, { zero: true, limit: row.margin }) },
    { name: "margin", number: true, cell: (row) => score(row.margin, 4) },
    { name: "treated", number: true, cell: (row) => count(row.candidate) },
    { name: "not treated", number: true, cell: (row) => count(row.baseline) },
  ], { class: "stacks" });
  guards.update(rows);
  const isOpen = !state.is_settled;
  return h("article", { class: "card" }, h("h3", {}, inline(state.key, 200)), ladder(state),
    facts([["value", h("code", {}, gist(state.value, 200))], ["stage", state.stage], ["share", percent(state.share)],
      ["since", moment(state.entered_at)], ["why", inline(state.why, 400)], ["proposed by", inline(state.author, 80)], ["over", state.is_settled ? "yes" : "no"]]),
    guards.element,
    isOpen ? decision(`Abort the rollout of ${state.key}`, [{
      label: "Abort and roll back", kind: "danger", confirm: `Roll ${state.key} back now?`,
      run: async (said) => `Stage: ${(await context.post("api/governance/rollouts/abort", { ...said, key: state.key })).stage}.`,
    }], refresh) : null);
}

function ladder(state) {
  const steps = [...STAGES.slice(0, 2), ...state.plan.shares.map((share) => `canary ${percent(share)}`), "full"];
  const here = state.stage === "canary" ? 2 + state.step : state.stage === "full" ? steps.length - 1 : STAGES.indexOf(state.stage);
  return h("ol", { class: "ladder" }, steps.map((name, place) => h("li", { class: place < here ? "past" : null, "aria-current": place === here ? "step" : null }, name)),
    state.stage === "rolled_back" ? h("li", { class: "bad", "aria-current": "step" }, "rolled back") : null);
}

function shadow(found) {
  const rows = Object.entries(found.dimensions ?? {}).map(([metric, each]) => ({ metric, ...each }));
  const list = table(`Shadow run of ${found.key}`, [
    { name: "metric", cell: (row) => inline(row.metric, 80) },
    { name: "present", number: true, cell: (row) => score(row.baseline, 4) },
    { name: "candidate", number: true, cell: (row) => score(row.candidate, 4) },
    { name: "difference", number: true, cell: (row) => score(row.difference, 4) },
    { name: "interval", title: "always-valid interval", cell: (row) => interval(row.evidence?.interval, { zero: true }) },
    { name: "p", title: "p (Holm)", number: true, cell: (row) => score(row.adjusted_p, 3) },
  ], { class: "stacks" });
  list.update(rows);
  const kind = { promote: "done", reject: "failed" }[found.verdict] ?? "other";
  return h("article", { class: "card" }, h("h3", {}, inline(found.key, 200), " ", h("span", { class: "badge", "data-status": kind }, found.verdict)),
    h("p", {}, inline(found.reason, 400)),
    facts([["value", h("code", {}, gist(found.value, 200))], ["pairs", count(found.sample_size)], ["scores saved", count(found.num_saved)],
      ["divergence", score(found.divergence, 3)], ["disagreement", percent(found.disagreement)], ["by", inline(found.by, 80)], ["when", moment(found.at)]]),
    list.element);
}

/** An interval as numbers and as a small drawing relative to zero. */
function interval(ends, { zero = false, limit = null } = {}) {
  const [low, high] = Array.isArray(ends) ? ends : [ends?.low ?? null, ends?.high ?? null];
  const told = low === null && high === null ? "no interval yet"
    : low === null ? `at most ${brief(high)}` : high === null ? `at least ${brief(low)}` : `${brief(low)} to ${brief(high)}`;
  if (low === null || high === null) return h("span", { class: "interval" }, told);
  const reach = Math.max(Math.abs(low), Math.abs(high), limit ?? 0) * 1.15 || 1;
  const at = (value) => 40 + 38 * (value / reach);
  return h("span", { class: "interval" }, told, s("svg", { width: 80, height: 14, viewBox: "0 0 80 14", "aria-hidden": "true" },
    zero ? s("line", { x1: 40, x2: 40, y1: 1, y2: 13, class: "tick-mark" }) : null,
    limit ? s("line", { x1: at(limit), x2: at(limit), y1: 2, y2: 12, class: "limit-mark" }) : null,
    s("line", { x1: at(low), x2: at(high), y1: 7, y2: 7, class: "span-mark" }),
    s("circle", { cx: at((low + high) / 2), cy: 7, r: 3, class: "dot tone-0" })));
}
