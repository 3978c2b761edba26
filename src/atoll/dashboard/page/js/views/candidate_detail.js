// One candidate in full.

import { h, put, select } from "../dom.js";
import { ofRun } from "../api.js";
import { data as asData, folded, source } from "../code.js";
import { diff, patch } from "../diff.js";
import { bars } from "../charts/bars.js";
import { bytes, count, gist, score } from "../format.js";
import { facts, table } from "../table.js";
import { block, inline } from "../text.js";

const MOST_BARS = 40;

/** Returns the sections for a candidate as the server tells it. */
export function detail(found, context) {
  const link = (id) => h("a", { href: context.link("candidate", { more: [id] }), class: "mono" }, id);
  const listed = (ids) => (ids?.length ? ids.slice(0, 30).flatMap((id, place) => [place ? ", " : "", link(id)]) : "none");
  return [
    h("div", { class: "card" }, h("h2", { class: "mono" }, found.id), facts([
      ["score", h("b", {}, score(found.score))], ["island", count(found.island)], ["step", count(found.step)],
      ["parents", listed(found.parents)], found.children ? ["children", listed(found.children)] : null,
      found.version ? ["version", found.version] : null, found.is_draft ? ["draft", "judged on the way to a child"] : null,
    ]), gate(found)),
    found.failure ? section("Failure", block(found.failure, { label: "Failure" })) : null,
    section("Source", source(content(found), `Source of ${found.id}`)),
    differences(found, context),
    h("div", { class: "cards" }, scores(found), metrics(found)),
    found.feedback ? section("Feedback", block(text(found.feedback), { label: "Feedback" })) : null,
    artifacts(found, context),
    replies(found, context),
    Object.keys(found.meta ?? {}).length ? section("How it was made", asData(found.meta, "How it was made")) : null,
  ];
}

function section(title, ...inside) {
  return h("section", { class: "card", "aria-label": title }, h("h2", {}, title), inside);
}

/** Long texts may come whole, or as {text, size, is_cut}. */
function text(value) {
  return typeof value === "string" ? value : value?.text ?? "";
}

function content(found) {
  return text(found.content);
}

function gate(found) {
  const word = { accept: "good", reject: "problem", hold: "warn" }[found.verdict];
  if (!found.verdict) return h("p", { class: "soft" }, found.is_draft ? "A draft meets no gate." : "The gate has not decided yet.");
  return h("p", { class: "gate" }, "Gate: ", h("b", { class: word }, found.verdict), found.by ? h("span", { class: "soft" }, " by ", inline(found.by, 80)) : null, found.reason ? [" · ", inline(found.reason, 1000)] : null);
}

function differences(found, context) {
  const parents = found.parents ?? [];
  if (!parents.length) return null;
  const place = h("div", {});
  const given = new Map((found.diffs ?? []).map((each) => [each.parent, each.diff ?? each.patch]));
  async function show(parent) {
    put(place, h("p", { class: "empty" }, "Comparing …"));
    if (given.has(parent)) { put(place, patch(text(given.get(parent)), `Difference to ${parent}`)); return; }
    try {
      const other = await context.get(ofRun(context.run, "candidates", parent));
      put(place, diff(content(other), content(found), `Difference to ${parent}`));
    } catch (error) {
      if (error.name !== "AbortError") put(place, h("p", { class: "problem" }, error.message));
    }
  }
  const choice = parents.length > 1
    ? h("div", { class: "row" }, h("label", { for: "diff-parent" }, "against"), select(parents.map((each) => [each, each]), parents.at(-1), show, { id: "diff-parent" }))
    : h("p", { class: "soft" }, `against ${parents[0]}`);
  show(parents.at(-1));
  return section("Difference to its parent", choice, place);
}

function scores(found) {
  const values = found.scores ?? [];
  const names = found.instances ?? [];
  if (!values.length) return section("Scores per instance", h("p", { class: "empty" }, "There are none."));
  const rows = values.map((value, place) => ({ name: names[place] ?? `${place + 1}`, value }));
  if (rows.length <= MOST_BARS) {
    const chart = bars({ title: "Scores per instance" });
    chart.update(rows);
    return h("section", { class: "card" }, chart.element);
  }
  const list = table("Scores per instance", [{ name: "instance", cell: (row) => inline(row.name, 60) }, { name: "score", number: true, cell: (row) => score(row.value), sort: (row) => row.value }]);
  list.update(rows.slice(0, 500));
  return section(`Scores per instance (${count(rows.length)})`, h("div", { class: "tall" }, list.element));
}

function metrics(found) {
  const rows = Object.entries(found.metrics ?? {});
  if (!rows.length) return section("Metrics", h("p", { class: "empty" }, "There are none."));
  const list = table("Metrics", [
    { name: "metric", cell: ([name]) => inline(name, 80), sort: ([name]) => name },
    { name: "value", number: true, cell: ([, value]) => score(value), sort: ([, value]) => value },
  ]);
  list.update(rows.slice(0, 300));
  return section("Metrics", list.element);
}

function artifacts(found, context) {
  const given = Array.isArray(found.artifacts) ? found.artifacts : Object.entries(found.artifacts ?? {}).map(([name, value]) => ({ name, ...(typeof value === "object" ? value : { text: value }) }));
  if (!given.length) return null;
  return section("Artifacts", given.map((each) => folded([inline(each.name, 120), h("span", { class: "soft" }, ` ${bytes(each.size ?? each.num_bytes ?? text(each.text).length)}`)], () => artifact(each, found, context))));
}

function artifact(each, found, context) {
  if (each.text !== undefined && each.text !== null) return block(each.text, { label: each.name });
  const place = h("div", {}, h("p", { class: "empty" }, "Loading …"));
  context.get(ofRun(context.run, "candidates", found.id, "artifacts", each.name)).then(
    (body) => put(place, block(typeof body === "string" ? body : text(body), { label: each.name })),
    (error) => error.name !== "AbortError" && put(place, h("p", { class: "problem" }, error.message)));
  return place;
}

function replies(found, context) {
  const given = found.replies ?? found.calls ?? [];
  if (!given.length) return null;
  return section("Prompts and replies", given.map((each, place) => folded(
    [`Call ${each.call ?? place + 1} `, h("span", { class: "soft" }, inline([each.model, each.failure ? "failed" : ""].filter(Boolean).join(" · "), 80))],
    () => h("div", {}, h("h3", {}, "Prompt"), block(text(each.prompt), { label: "Prompt" }), h("h3", {}, "Reply, as it came"), block(text(each.reply ?? each.text), { label: "Reply" }), each.failure ? h("p", { class: "problem" }, inline(gist(each.failure), 400)) : null))));
}
