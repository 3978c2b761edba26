// One worldline: turns of the conversation with critique, plan, feedback and fitness terms.

import { source } from "../../code.js";
import { h, put } from "../../dom.js";
import { plural, score } from "../../format.js";
import { block, inline } from "../../text.js";
import { watch } from "../../watch.js";

const LINES = 12; // lines of a plan at first

export function conversation(root, context, step, island) {
  const problem = h("div", {});
  const body = h("div", {});
  let drawn = 0;
  root.append(h("section", { class: "card" }, problem, body));
  watch(context, () => context.get(context.ofRun("worldlines", "turns", step)), (found) => {
    if (found.turns.length === drawn) return;
    drawn = found.turns.length;
    const link = (id) => h("a", { href: context.link("worldlines", { more: [String(id).split(".")[0]], query: { island } }) }, inline(id, 40));
    const parents = found.turns[0].parents;
    put(body, h("h2", {}, `Worldline ${step}`),
      h("p", { class: "soft" }, `${plural(found.turns.length, "turn")} on island ${found.island}, about ${found.turns[0].problem}; from `,
        parents.length ? parents.map((each, place) => [place ? ", " : "", link(each)]) : "no parent"),
      h("ol", { class: "dialogue" }, found.turns.map((turn, place) => said(turn, place, context))));
  }, problem);
}

function said(turn, place, context) {
  const name = (part) => `${part} of turn ${place + 1}`; // landmarks have different names
  return h("li", {}, h("h3", {}, `Turn ${place + 1}`, " ", h("a", { class: "soft", href: context.link("candidate", { more: [turn.id] }) }, turn.id), h("span", { class: "soft" }, ` score ${score(turn.score)}`)),
    turn.fork ? h("p", { class: "soft" }, "Fork for the point: ", inline(turn.fork, 400)) : null,
    (turn.memory ?? []).map((note, number) => words("note", String(note.role), block(String(note.text), { label: name(`Note ${number + 1}`), lines: LINES }))),
    turn.critic ? words("critic", "Critic", block(turn.critic, { label: name("Critique"), lines: LINES })) : null,
    words("author", "Author", source(turn.plan, name("Plan"))),
    words(turn.has_failed ? "judge failed" : "judge", "Evaluator", block(turn.judge || "no feedback", { label: name("Feedback"), lines: LINES })),
    tools(turn.tools ?? [], name("Tools")),
    terms(turn.terms));
}

/** The tools that the author used, with their outputs. */
function tools(results, label) {
  if (!results.length) return null;
  const line = ({ action, ok, output }) => `${action.do} ${[action.path, action.text, (action.command ?? []).join(" ")].filter(Boolean).join(" ")}: ${ok ? "ok" : "failed"}${output ? `\n${output}` : ""}`;
  return words("note", plural(results.length, "tool"), block(results.map(line).join("\n"), { label, lines: LINES }));
}

function words(kind, who, node) {
  return h("div", { class: `speech ${kind}` }, h("p", { class: "who" }, who), node);
}

/** The five raw terms of the fitness, each as a bar. */
function terms(found) {
  const known = Object.entries(found).filter(([, value]) => Number.isFinite(value));
  if (!known.length) return null;
  return h("dl", { class: "terms" }, known.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")),
    h("dd", {}, h("span", { class: "meter" }, h("i", { class: value < 0 ? "full" : "", style: { width: `${Math.min(100, 100 * Math.abs(value))}%` } })), ` ${score(value, 3)}`))));
}
