// One turn: state, plan, actions, reflection and input of the planner.

import { tone } from "../../charts/frame.js";
import { folded } from "../../code.js";
import { h, put } from "../../dom.js";
import { brief, percent, score } from "../../format.js";
import { facts, table } from "../../table.js";
import { block, inline } from "../../text.js";
import { loss, reward } from "./story.js";

export const TONES = { life: 3, danger: 4, unknown: 6 }; // colors of the vital signs, here and in the chart
const OTHERS = [0, 1, 2, 5, 7, 8, 9]; // of resources, in their order

/** The main numbers. */
export function vitals() {
  const element = h("div", { class: "vitals" });
  const gauge = (name, value, text, place, isLow) => h("div", { class: "vital" }, h("p", {}, h("span", { class: "soft" }, name), " ", h("b", {}, text)),
    Number.isFinite(value) ? h("div", { class: "meter", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": value.toFixed(2) }, h("i", { class: `${tone(place)}${isLow ? " full" : ""}`, style: { width: `${100 * Math.max(0, Math.min(1, value))}%` } })) : null);
  return { element, update(turn) {
    const { state, view } = turn;
    const danger = turn.forecast;
    const limit = view?.in_force?.danger_threshold ?? 1;
    put(element,
      gauge("survival score", NaN, score(view?.score ?? turn.tick, 4)),
      gauge("life", state.life, percent(state.life), TONES.life, state.life < 0.3),
      gauge("danger", danger, percent(danger), TONES.danger, danger > limit),
      gauge("unknown", view?.unknown ?? NaN, Number.isFinite(view?.unknown) ? percent(view.unknown) : `${view?.edge ?? "?"} cells at the edge`, TONES.unknown),
      Object.entries(state.resources ?? {}).map(([name, level], place) => gauge(name, level, percent(level), OTHERS[place % OTHERS.length], level < 0.2)),
      gauge("curiosity", NaN, score(turn.scores?.curiosity ?? NaN, 3)),
      gauge("tick", NaN, `${turn.tick}${state.is_dark ? ", night" : ""}`));
  } };
}

/** Plan and reflection as text. */
export function thoughts(turn) {
  const { plan, reflection } = turn;
  const given = turn.given;
  return [
    h("h3", {}, "Plan"), h("p", {}, inline(plan.goal || "no text", 400)),
    facts([["actions", inline(plan.actions.join(", "), 400)], ["risk", percent(plan.risk)], ["expects", brief(plan.expected_reward)],
      plan.subgoals?.length ? ["subgoals", inline(plan.subgoals.join("; "), 400)] : null, plan.cautions?.length ? ["cautions", inline(plan.cautions.join("; "), 400)] : null,
      plan.used?.length ? ["goes by", inline(plan.used.join(", "), 200)] : null]),
    h("h3", {}, "Done"), h("ul", { class: "plain-list" }, turn.steps.map((step) => h("li", {}, h("b", {}, inline(step.action, 120)), ` ${step.status}`,
      step.note ? [": ", inline(step.note, 300)] : null, step.harm ? h("span", { class: "problem" }, ` hurt by ${Object.keys(step.harm).join(", ")}`) : null, step.gained ? h("span", { class: "good" }, ` gained ${step.gained.join(", ")}`) : null))),
    h("h3", {}, "Reflection"), reflection.text ? block(reflection.text, { label: "reflection", lines: 12 }) : h("p", { class: "empty" }, "no text"),
    turn.summary ? folded("State as text", () => block(turn.summary, { label: "state" })) : null,
    given ? folded("Input of the planner", () => h("div", {}, ["memory", "playbook", "candidates"].map((name) => [h("h3", {}, name), block((given[name] ?? []).join("\n"), { label: name })]), h("h3", {}, "rewards"), block(given.rewards ?? "", { label: "rewards" }))) : null,
    turn.deltas?.length ? folded(`${turn.deltas.length} deltas for the playbook`, () => h("ul", { class: "plain-list" }, turn.deltas.map((each) => h("li", {}, h("b", {}, each.outcome), ` ${each.delta.kind} `, inline(each.delta.content || (each.delta.ids ?? []).join(", "), 300), h("span", { class: "soft" }, " ", inline(each.reason, 200)))))) : null,
  ];
}

/** Actions by turn, newest first. */
export function actions(onChoose) {
  const list = table("Actions by turn", [
    { name: "turn", number: true, cell: (row) => h("button", { type: "button", class: "quiet inline", on: { click: () => onChoose(row.place) } }, String(row.turn.turn)) },
    { name: "tick", number: true, cell: (row) => row.turn.tick },
    { name: "did", wide: true, cell: (row) => row.turn.steps.map((step, place) => [place ? ", " : "", inline(step.action, 60), step.status === "done" ? "" : h("span", { class: "warn" }, ` (${step.status})`)]) },
    { name: "reward", number: true, cell: (row) => score(reward(row.turn), 3) },
    { name: "loss", number: true, cell: (row) => (loss(row.turn) > 0 ? h("span", { class: "problem" }, score(loss(row.turn), 3)) : null) },
    { name: "danger", number: true, cell: (row) => percent(row.turn.forecast) },
    { name: "notices", cell: (row) => (row.turn.notices?.length ? inline(row.turn.notices.map((each) => each.kind).join(", "), 80) : null) },
  ], { class: "stacks", rowClass: (row) => (row.isChosen ? "chosen" : null) });
  return list;
}
