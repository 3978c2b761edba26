// Parameters: values, history, diffs, locks and rollbacks.

import { decision } from "../../decision.js";
import { patch } from "../../diff.js";
import { button, field, h, put, select } from "../../dom.js";
import { count, moment } from "../../format.js";
import { facts, table } from "../../table.js";
import { block, inline } from "../../text.js";
import { watch } from "../../watch.js";

const PATH = "api/governance/parameters";

export function parameters(root, context, chosen) {
  const problem = h("div", {});
  const counted = h("p", { class: "soft" });
  let rows = [];
  let next = null;
  const asked = { prefix: context.query.get("prefix") ?? "", everything: context.query.get("everything") === "true" };
  const prefix = h("input", { type: "search", value: asked.prefix, on: { change: () => { asked.prefix = prefix.value; refresh(); } } });
  const everything = h("input", { type: "checkbox", checked: asked.everything, on: { change: () => { asked.everything = everything.checked; refresh(); } } });
  const more = button("Show more", () => load(next).then(add).catch(told), { class: "quiet", hidden: true });
  const list = table("Parameters", [
    { name: "key", cell: (row) => h("a", { href: context.link("governance", { run: null, more: ["parameters", row.key] }) }, inline(row.key, 120)), sort: (row) => row.key },
    { name: "version", number: true, cell: (row) => count(row.version), sort: (row) => row.version },
    { name: "value", wide: true, cell: (row) => inline(row.value, 100) },
    { name: "locked", cell: (row) => (row.lock ? h("span", { class: "warn" }, "by ", inline(row.lock.by, 60)) : null) },
    { name: "aliases", cell: (row) => (Object.keys(row.aliases).length ? inline(Object.entries(row.aliases).map(([name, at]) => `@${name}=${at}`).join(" "), 80) : null) },
  ], { class: "stacks", empty: "No parameters. Create one with 'atoll params set KEY VALUE -m WHY'.", rowClass: (row) => (row.key === chosen ? "chosen" : null) });
  const load = (after) => context.get(PATH, { ...asked, after, limit: 100 });
  const told = (error) => put(problem, h("p", { class: "problem", role: "alert" }, error.message));

  function add(found) {
    rows = [...rows, ...found.parameters];
    next = found.next;
    more.hidden = next === null;
    list.update(rows);
  }

  root.append(problem, h("div", { class: "card" },
    h("div", { class: "bar" }, field("Begins with", prefix), h("label", { class: "check" }, everything, " include reserved keys (playbooks, proposals, rollouts, tools, commands)")),
    counted, list.element, more));
  const refresh = watch(context, () => load(""), (found) => {
    rows = [];
    counted.textContent = `${count(found.total)} parameters`;
    add(found);
  }, problem);
  if (chosen === null) return;
  const card = h("div", { class: "card" });
  root.append(card);
  one(card, context, chosen, refresh);
}

function one(card, context, key, changed) {
  const problem = h("div", {});
  const head = h("div", {});
  const compared = h("div", {});
  const versions = table(`Versions of ${key}`, [
    { name: "version", number: true, cell: (row) => count(row.version), sort: (row) => row.version },
    { name: "value", wide: true, cell: (row) => inline(row.value, 200) },
    { name: "why", wide: true, cell: (row) => [row.kind === "rollback" ? `rollback to ${row.target}: ` : "", inline(row.reason, 300)] },
    { name: "by", cell: (row) => inline(row.author, 60), sort: (row) => row.author },
    { name: "when", cell: (row) => moment(row.at), sort: (row) => row.at },
  ], { class: "stacks" });
  const forms = h("div", {});
  card.append(h("h2", {}, inline(key, 200)), problem, head, versions.element, compared, forms);
  let drawn = "";
  const refresh = watch(context, () => context.get(`${PATH}/history`, { key, limit: 100 }), (found) => {
    const state = JSON.stringify([found.version, found.lock]);
    if (state === drawn) return;
    drawn = state;
    put(head, facts([["version", count(found.version)], ["lock", found.lock ? [h("b", { class: "warn" }, "locked "), inline(`by ${found.lock.by}: ${found.lock.reason}`, 400)] : "open"]]),
      block(found.value, { label: "current value" }));
    versions.update(found.changes);
    put(compared, comparing(found));
    put(forms, locking(found), returning(found));
  }, problem, { every: 10000 });
  const heard = () => { refresh(); changed(); };

  function comparing(found) {
    if (found.changes.length < 2) return null;
    const numbers = found.changes.map((each) => [each.version, `version ${each.version}`]);
    let [now, before] = [found.changes[0].version, found.changes[1].version];
    const shown = h("div", {});
    const draw = async () => {
      try {
        const told = await context.get(`${PATH}/difference`, { key, old: before, new: now });
        put(shown, told.patch ? patch(told.patch, `from ${before} to ${now}`) : h("p", { class: "empty" }, "No changes."));
      } catch (error) { if (error.name !== "AbortError") put(shown, h("p", { class: "problem" }, error.message)); }
    };
    draw();
    return h("div", {}, h("h3", {}, "difference"), h("div", { class: "bar" },
      field("from", select(numbers, before, (each) => { before = each; draw(); })),
      field("to", select(numbers, now, (each) => { now = each; draw(); }))), shown);
  }

  function locking(found) {
    const isLocked = found.lock !== null;
    const verb = isLocked ? "unlock" : "lock";
    return h("div", {}, h("h3", {}, isLocked ? "Unlock" : "Lock"),
      h("p", { class: "soft" }, isLocked ? "Unlocking allows changes again." : "A locked parameter can only be rolled back."),
      decision(`${verb} ${key}`, [{ label: isLocked ? "Unlock" : "Lock", run: async (said) => {
        const done = await context.post(`${PATH}/${verb}`, { ...said, key });
        return done.lock ? "Locked." : "Unlocked.";
      } }], heard));
  }

  function returning(found) {
    const older = found.changes.slice(1).map((each) => [each.version, `version ${each.version}: ${each.value.slice(0, 60)}`]);
    if (!older.length) return null;
    let to = older[0][0];
    return h("div", {}, h("h3", {}, "Roll back"), field("to", select(older, to, (each) => { to = Number(each); })),
      decision(`Roll ${key} back`, [{ label: "Roll back", kind: "danger", run: async (said) => {
        const done = await context.post(`${PATH}/rollback`, { ...said, key, version: Number(to) });
        return `Version ${done.version} has the value of version ${to}.`;
      } }], heard));
  }
}
