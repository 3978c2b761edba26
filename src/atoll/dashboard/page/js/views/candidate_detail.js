// Details of one candidate.

import { button, h, put, select } from "../dom.js";
import { data as asData, folded, source } from "../code.js";
import { wordDiff } from "../diff.js";
import { bars } from "../charts/bars.js";
import { bytes, count, duration, moment, plural, score, usd } from "../format.js";
import { facts, table } from "../table.js";
import { block, inline, piece } from "../text.js";

const MOST_BARS = 40;
const PIECE = 4 << 20; // bytes per download of an artifact

/** Returns the sections of a candidate. */
export function detail(found, context) {
  const link = (id) => h("a", { href: context.link("candidate", { more: [id] }), class: "mono", on: { click: (event) => { if (context.open && !event.ctrlKey && !event.metaKey) { event.preventDefault(); context.open(id); } } } }, id);
  const listed = (ids) => (ids.length ? ids.slice(0, 30).flatMap((id, place) => [place ? ", " : "", link(id)]) : "none");
  const others = [...new Set(found.parents)].filter((id) => id && id !== found.edited);
  const own = (...parts) => context.ofRun("candidates", found.id, ...parts);
  const rest = (offset) => context.getText(own("source"), { offset });
  const name = `Source of ${found.id}`;
  return [
    h("div", { class: "card" }, facts([
      ["score", h("b", {}, score(found.score))], ["island", count(found.island)], ["iteration", count(found.step)],
      found.edited ? ["edited parent", link(found.edited)] : null,
      others.length || !found.edited ? [found.edited ? "other parents" : "parents", listed(others)] : null,
      found.mutator ? ["mutator", inline(found.mutator, 60)] : null, found.model ? ["LLM", inline(found.model, 80)] : null,
      found.num_llm_calls ? ["cost of the iteration", `${plural(found.num_llm_calls, "call")}, ${found.cost_usd > 0 ? usd(found.cost_usd) : "price unknown"}`] : null,
      found.at ? ["evaluated", moment(found.at)] : null,
      found.version ? ["version", found.version] : null, found.is_draft ? ["trial", "evaluated inside the iteration"] : null,
    ]), found.change ? h("p", {}, h("span", { class: "soft" }, "Change: "), inline(found.change, 400)) : null, gate(found)),
    found.failure ? section("Failure", piece(found.failure, { label: "Failure" })) : null,
    found.warning ? section("Error output", h("p", { class: "warn" }, inline(found.warning, 400)), h("p", { class: "soft" }, "The evaluation returned a score, but the candidate wrote errors. The artifacts have all of them.")) : null,
    found.shown ? section("Display text", piece(found.shown, { label: "Display text" })) : null,
    differences(found),
    section("Source", copyButton(found), piece(found.content, { label: name, numbered: true, show: (text) => source(text, name) }, rest)),
    h("div", { class: "cards" }, scores(found), metrics(found)),
    found.feedback.size ? section("Feedback", piece(found.feedback, { label: "Feedback" })) : null,
    artifacts(found, context),
    calls(found),
    lineage(found, context, link),
    Object.keys(found.meta).length ? section("Metadata", asData(found.meta, "Metadata as JSON")) : null,
  ];
}

function section(title, ...inside) {
  return h("section", { class: "card", "aria-label": title }, h("h2", {}, title), inside);
}

/** Ancestors of the candidate, loaded when opened. */
function lineage(found, context, link) {
  if (found.step === 0) return null;
  return section("Lineage", folded("From this candidate to the initial one", () => {
    const place = h("div", {}, h("p", { class: "empty" }, "Loading …"));
    context.get(context.ofRun("lineage"), { to: found.id, limit: 1 }).then(({ path }) => {
      const list = table("Lineage of the candidate", [
        { name: "candidate", cell: (n) => link(path.ids[n]) },
        { name: "score", number: true, cell: (n) => score(path.scores[n]) },
        { name: "gain", number: true, cell: (n) => (Number.isFinite(path.scores[n] - path.scores[n + 1]) ? score(path.scores[n] - path.scores[n + 1], 3) : "") },
        { name: "island", number: true, cell: (n) => count(path.islands[n]) },
      ]);
      list.update(path.ids.map((_, n) => n).slice(0, 200));
      put(place, list.element);
    }, (error) => error.name !== "AbortError" && put(place, h("p", { class: "problem" }, error.message)));
    return place;
  }));
}

function copyButton(found) {
  const made = button("Copy", async () => {
    try { await navigator.clipboard.writeText(found.content.text); made.textContent = "Copied"; } catch { made.textContent = "Cannot copy"; }
  }, { class: "quiet inline", "aria-label": "Copy the source" });
  return found.content.truncated ? null : h("p", {}, made);
}

function gate(found) {
  const isPlain = found.verdict === "accept" && found.by === "ran"; // accepted because the evaluation returned a score
  if (isPlain) return h("p", { class: "gate" }, h("b", { class: found.warning ? "warn" : "" }, "Accepted"), found.warning ? ": it has a score, but it wrote errors." : ": it has a score. No gate checked it.");
  const kind = { accept: found.warning ? "warn" : "good", reject: "problem", hold: "warn" }[found.verdict];
  if (!found.verdict) return h("p", { class: "soft" }, found.is_draft ? "Trials do not pass the gate." : "The gate has not decided yet.");
  return h("p", { class: "gate" }, "Gate: ", h("b", { class: kind }, found.verdict), found.by ? h("span", { class: "soft" }, " by ", inline(found.by, 80)) : null, found.reason?.size ? [" · ", inline(found.reason.text, 1000)] : null);
}

function differences(found) {
  if (!found.diffs.length) return null;
  const place = h("div", {});
  const show = (parent) => {
    const each = found.diffs.find((other) => other.parent === parent);
    put(place, each.diff ? wordDiff(each.diff, `Diff to ${parent}`) : h("p", { class: "empty" }, "No changes."), each.truncated ? h("p", { class: "note" }, "The texts are very long. Only their beginnings were compared.") : null);
  };
  const names = found.diffs.map((each) => [each.parent, each.parent === found.edited ? `${each.parent} (edited)` : each.parent]);
  const choice = names.length > 1
    ? h("div", { class: "row" }, h("label", { for: "diff-parent" }, "against"), select(names, names[0][0], show, { id: "diff-parent" }))
    : h("p", { class: "soft" }, `against ${names[0][0]}`);
  show(names[0][0]);
  return section("Diff to parent", choice, place);
}

function scores(found) {
  const values = found.scores;
  if (!values.length) return section("Scores per instance", h("p", { class: "empty" }, "None."));
  const rows = values.map((value, place) => ({ name: `${place + 1}`, value }));
  if (rows.length <= MOST_BARS) {
    const chart = bars({ title: "Scores per instance" });
    chart.update(rows);
    return h("section", { class: "card" }, chart.element);
  }
  const list = table("Scores per instance", [{ name: "instance", cell: (row) => inline(row.name, 60) }, { name: "score", number: true, cell: (row) => score(row.value), sort: (row) => row.value }]);
  list.update(rows.slice(0, 500));
  return section(`Scores per instance (${count(found.num_scores)})`, h("div", { class: "tall" }, list.element));
}

function metrics(found) {
  const rows = Object.entries(found.metrics);
  if (!rows.length) return section("Metrics", h("p", { class: "empty" }, "None."));
  const list = table("Metrics", [
    { name: "metric", cell: ([name]) => inline(name, 80), sort: ([name]) => name },
    { name: "value", number: true, cell: ([, value]) => score(value), sort: ([, value]) => value },
  ]);
  list.update(rows.slice(0, 300));
  return section("Metrics", list.element);
}

function artifacts(found, context) {
  if (!found.artifacts.length) return null;
  return section("Artifacts", found.artifacts.map((each) => folded([inline(each.name, 120), h("span", { class: "soft" }, ` ${bytes(each.size)}`)], () => artifact(each, context))));
}

function artifact(each, context) {
  const place = h("div", {}, block(each.head, { label: each.name }));
  const load = (offset) => context.getText(each.url, { offset });
  load(0).then(
    (text) => put(place, piece({ text, size: each.size, truncated: each.size > PIECE }, { label: each.name })),
    (error) => error.name !== "AbortError" && place.append(h("p", { class: "problem" }, error.message)));
  return place;
}

function calls(found) {
  if (!found.calls.length) return null;
  const told = (each) => [each.model, `${count(each.tokens_in)} tokens in`, `${count(each.tokens_out)} out`, duration(each.seconds), each.cost_usd > 0 ? usd(each.cost_usd) : "price unknown"].join(" · ");
  return section(`Prompts and responses (${count(found.num_calls)})`, found.calls.map((each) => folded(
    [`Call ${each.call} `, h("span", { class: "soft" }, inline(told(each), 200))],
    () => h("div", {}, (each.messages?.length > 1 ? each.messages : [{ role: "", text: each.prompt }]).map((part) => [h("h3", {}, part.role ? `Prompt: ${part.role}` : "Prompt"), piece(part.text, { label: "Prompt" })]), h("h3", {}, "Response"), piece(each.reply, { label: "Response" })))));
}
