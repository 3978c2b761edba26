// Proposals and decisions on them.

import { data as shownData } from "../../code.js";
import { decision } from "../../decision.js";
import { h, put } from "../../dom.js";
import { ago, brief, moment } from "../../format.js";
import { facts, table } from "../../table.js";
import { addVisible, block, inline } from "../../text.js";
import { watch } from "../../watch.js";

const PATH = "api/governance/proposals";
const TAGS = { same: "span", removed: "del", added: "ins" };

export function badge(status) {
  const looks = { pending: "running", applied: "done", approved: "done", rejected: "failed", failed: "failed" };
  return h("span", { class: "badge", "data-status": looks[status] ?? "other" }, status);
}

export function proposals(root, context, chosen) {
  const problem = h("div", {});
  const detail = h("div", { class: "card" });
  const said = h("p", { class: "headline" });
  const counted = h("p", { class: "soft" });
  const link = (id) => context.link("governance", { run: null, more: ["proposals", id] });
  const list = table("Proposals", [
    { name: "status", cell: (row) => badge(row.status), sort: (row) => row.status },
    { name: "what", wide: true, cell: (row) => [h("a", { href: link(row.id) }, inline(row.title || row.id, 120)), row.outcome ? h("span", { class: "soft" }, " ", inline(row.outcome, 160)) : null, row.effect ? h("div", {}, "measured: ", inline(row.effect, 200)) : null] },
    { name: "type", cell: (row) => row.type, sort: (row) => row.type },
    { name: "risk", cell: (row) => row.risk, sort: (row) => row.risk },
    { name: "author", cell: (row) => inline(row.author, 40), sort: (row) => row.author },
    { name: "approvals", number: true, cell: (row) => `${row.approvals} of ${row.needed}` },
    { name: "created", cell: (row) => h("span", { title: moment(row.created_at) }, ago(row.created_at)), sort: (row) => row.created_at },
  ], { class: "stacks", empty: "No proposals. Create one with 'atoll proposals submit'.", rowClass: (row) => (row.id === chosen ? "chosen" : null) });
  root.append(problem, h("div", { class: "card" }, said, counted, list.element));
  const refresh = watch(context, () => Promise.all([context.get(PATH, { limit: 200 }), context.get("api/governance/rollouts")]), ([found, { rollouts }]) => {
    counted.textContent = `${found.waiting} of ${found.total} pending.`;
    put(said, found.total ? summarize(found) : null);
    list.update(found.proposals.map((row) => ({ ...row, effect: effects(rollouts.filter((each) => each.proposal === row.id)) })));
  }, problem, { every: 5000 });
  if (chosen === null) return;
  root.append(detail);
  one(detail, context, chosen, refresh);
}

/** Differences that the rollouts of a proposal measured, with their intervals. */
function effects(rollouts) {
  const measured = rollouts.flatMap((each) => Object.entries(each.guarded)).filter(([, each]) => each.candidate && each.baseline);
  return measured.map(([metric, { estimate, interval: [low, high] }]) => `${metric} ${estimate > 0 ? "+" : ""}${brief(estimate)}${low === null || high === null ? "" : ` (${brief(low)} to ${brief(high)})`}`).join(", ");
}

/** What the proposals led to, and what to do next. */
function summarize(found) {
  const statuses = Map.groupBy(found.proposals, (row) => row.status);
  const parts = [...statuses].map(([status, rows]) => `${rows.length} ${status}`).join(", ");
  const next = found.waiting ? "Open a pending one to read its change, then approve or reject it."
    : statuses.has("failed") ? "Nothing waits for a decision. Read why one failed before you propose it again." : "Nothing waits for a decision.";
  return `${found.total > found.proposals.length ? "Of the newest: " : ""}${parts}. ${next}`;
}

/** One proposal; its form is rebuilt only if the proposal has changed. */
function one(card, context, id, changed) {
  const problem = h("div", {});
  const body = h("div", {});
  let drawn = "";
  card.append(problem, body);
  const refresh = watch(context, () => context.get(`${PATH}/${encodeURIComponent(id)}`), (found) => {
    const state = JSON.stringify([found.content_hash, found.status, found.reviews]);
    if (state === drawn) return;
    drawn = state;
    put(body, h("h2", {}, inline(found.title, 200)), pipeline(found), ...asked(found), ...reviews(found), ...deciding(found), ...about(found));
  }, problem, { every: 5000 });

  function deciding(found) {
    if (found.status !== "pending") return [];
    const send = (approve) => async (said) => {
      const done = await context.post(`${PATH}/${encodeURIComponent(id)}/decision`, { ...said, approve, content_hash: found.content_hash });
      const more = done.status === "pending" ? `; ${done.approvals} of ${done.needed} approvals` : "";
      return `Status: ${done.status}${done.outcome ? `: ${done.outcome}` : more}.`;
    };
    const heard = () => { refresh(); changed(); };
    return [h("p", { class: "soft" }, `${found.approvals} of ${found.needed} approvals. Authors cannot approve their own proposals. Your decision is for the content with the hash below.`),
      decision(`Decide on ${id}`, [
        { label: "Approve", kind: "primary", run: send(true) },
        { label: "Reject", kind: "danger", run: send(false) },
      ], heard)];
  }
}

/** Stages of a proposal: proposed, reviewed, approved, applied. A rejected one stops where it is. */
function pipeline(found) {
  const approvals = `approvals ${found.approvals} of ${found.needed}`;
  const stages = ["proposed", approvals, "approved", "applied"];
  const at = { pending: 1, approved: 2, applying: 2, applied: 3, failed: 3 }[found.status] ?? 1;
  const isBad = !["pending", "approved", "applying", "applied"].includes(found.status);
  return h("ol", { class: "pipeline", "aria-label": "Stages of the proposal" }, stages.map((name, place) => h("li", {
    class: place < at || found.status === "applied" ? "past" : place === at && isBad ? "bad" : null, "aria-current": place === at && !isBad && found.status !== "applied" ? "step" : null,
  }, place === at && isBad ? found.status : `${place < at || found.status === "applied" ? "✓ " : ""}${name}`)),
  found.may_approve?.length && found.status === "pending" ? h("li", {}, "waits for ", inline(found.may_approve.join(", "), 120)) : null);
}

/** The change and its reasons, which a decision needs first. */
function asked(found) {
  const texts = ["outcome", "description", "rationale"].filter((name) => found[name]);
  return [
    ...texts.map((name) => h("div", {}, h("h3", {}, name), block(found[name], { label: name }))),
    ...(found.changes ?? []).map(change),
    found.evidence?.length ? h("div", {}, h("h3", {}, "evidence"), shownData(found.evidence, "evidence")) : null,
  ];
}

function about(found) {
  const isShown = Boolean(found.changes?.length); // by words, above
  return [
    h("h3", {}, "details"),
    facts([["status", badge(found.status)], ["id", h("code", {}, found.id)], ["type", found.type], ["risk", found.risk], ["author", inline(found.author, 80)],
      found.editors?.length ? ["edited by", inline(found.editors.join(", "), 120)] : null,
      ["created", moment(found.created_at)], ["expires", moment(found.expires_at)], ["approvals", `${found.approvals} of ${found.needed}`],
      found.approvers?.length ? ["approvers", inline(found.approvers.join(", "), 200)] : null,
      found.may_approve?.length ? ["may still approve", inline(found.may_approve.join(", "), 200)] : null,
      ["content hash", h("code", { class: "hash" }, found.content_hash)]]),
    h("details", { open: !isShown }, h("summary", {}, "proposed value as JSON"), shownData(found.content, "proposed value")),
  ];
}

/** The change of one parameter by words, with hidden characters visible. */
function change(found) {
  const base = found.base_version ? `based on version ${found.base_version}` : "a new parameter";
  const stale = found.is_stale ? `; it has version ${found.current_version} now, so the proposal needs a rebase` : "";
  const words = h("pre", { class: "block words", tabindex: "0", role: "region", "aria-label": `change of ${found.key}` },
    found.segments.map(([kind, text]) => addVisible(h(TAGS[kind] ?? "span", {}), text)));
  return h("div", {}, h("h3", {}, "change of ", inline(found.key, 120)), h("p", { class: found.is_stale ? "problem" : "soft" }, base + stale), words);
}

function reviews(found) {
  if (!found.reviews?.length) return [];
  return [h("h3", {}, "decisions"), h("ul", { class: "plain-list" }, found.reviews.map((each) => h("li", {},
    h("b", {}, inline(each.by, 80)), ` ${each.is_approval ? "approved" : "rejected"} it: `, inline(each.reason, 2000),
    h("span", { class: "soft" }, ` ${moment(each.at)}`))))];
}
