// Review of worldlines in a repository: diff, decisions and merge.

import { act, decision } from "../../decision.js";
import { patch } from "../../diff.js";
import { h, put } from "../../dom.js";
import { facts, table } from "../../table.js";
import { inline } from "../../text.js";
import { watch } from "../../watch.js";

const LOOKS = { waits: "paused", approved: "running", merged: "done", rejected: "failed" };

export function reviews(root, context) {
  const problem = h("div", {});
  const body = h("div", {});
  let drawn = "";
  root.append(h("section", { class: "card" }, h("h2", {}, "Review"), problem, body));
  const refresh = watch(context, () => context.get(context.ofRun("worldlines", "reviews")), (found) => {
    const state = JSON.stringify(found);
    if (state === drawn) return;
    drawn = state;
    put(body, found.reviews.length ? found.reviews.map((each) => review(each, context, refresh)) : h("p", { class: "empty" }, inline(found.why, 400)));
  }, problem, { every: 10000 });
}

/** Test results and LLM costs of a worldline. */
function results(found) {
  const tests = "tests" in found ? [["tests", `${found.passed} of ${found.tests} pass`], ["open checks", found.open_checks], ["broken tests", found.broken_tests]] : [];
  return "calls" in found ? [...tests, ["LLM calls", found.calls], ["tokens", found.tokens]] : tests;
}

function review(found, context, refresh) {
  const path = (...more) => context.ofRun("worldlines", "reviews", found.id, ...more);
  const changes = table(`Files that ${found.id} changes`, [
    { name: "file", cell: (row) => inline(row.path, 300) },
    { name: "added", number: true, cell: (row) => row.added ?? "binary" },
    { name: "deleted", number: true, cell: (row) => row.deleted ?? "" },
  ]);
  changes.update(found.changes);
  const diff = h("div", {}, h("p", { class: "soft" }, "Loading …"));
  context.get(path("diff")).then((told) => put(diff, patch(told.patch || "No changes.", `what ${found.id} changes`)))
    .catch((error) => error.name === "AbortError" || put(diff, h("p", { class: "problem" }, error.message)));
  const decide = (verdict) => async (said) => `State: ${(await context.post(path("decision"), { ...said, verdict, commit: found.commit })).state} at ${found.commit.slice(0, 12)}.`;
  return h("article", { class: "review" },
    h("h3", {}, h("span", { class: "badge", "data-status": LOOKS[found.state] ?? "other" }, found.state), " ", h("code", {}, found.id)),
    facts([["commit", h("code", { class: "hash" }, found.commit)], ["against", h("code", { class: "hash" }, found.base)], ["in a terminal", h("code", {}, inline(found.look, 300))], ...results(found.result ?? {})]),
    changes.element, diff,
    found.decisions.length ? h("ul", { class: "plain-list" }, found.decisions.map((each) => h("li", {}, h("b", {}, inline(each.by, 80)), ` ${each.verdict} at `, h("code", {}, each.commit.slice(0, 12)), each.reason ? ": " : "", inline(each.reason, 2000)))) : null,
    found.state === "merged" ? null : [
      h("p", { class: "soft" }, "An approval is valid for this commit only. Authors cannot approve their own worldlines. Only approved worldlines can be merged."),
      decision(`Review ${found.id}`, [{ label: "Approve", kind: "primary", run: decide("approve") }, { label: "Reject", kind: "danger", run: decide("reject") }], refresh),
      found.state === "approved" ? act("Merge into the repository", async () => `Merged as ${(await context.post(path("merge"), {})).merged.slice(0, 12)}.`, refresh, { class: "primary" }) : null,
    ]);
}
