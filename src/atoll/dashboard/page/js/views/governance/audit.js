// Verification of the change log, and its newest changes.

import { button, h, put } from "../../dom.js";
import { count, moment } from "../../format.js";
import { facts, table } from "../../table.js";
import { inline } from "../../text.js";
import { watch } from "../../watch.js";

export function audit(root, context) {
  const problem = h("div", {});
  const result = h("div", { role: "status" });
  const list = table("Newest changes", [
    { name: "seq", title: "#", number: true, cell: (row) => count(row.seq), sort: (row) => row.seq },
    { name: "key", cell: (row) => inline(row.key, 100), sort: (row) => row.key },
    { name: "kind", cell: (row) => row.kind, sort: (row) => row.kind },
    { name: "version", number: true, cell: (row) => (row.version === null ? "" : count(row.version)) },
    { name: "why", wide: true, cell: (row) => inline(row.reason, 200) },
    { name: "by", cell: (row) => inline(row.author, 60), sort: (row) => row.author },
    { name: "when", cell: (row) => moment(row.at), sort: (row) => row.at },
  ], { class: "stacks" });
  root.append(problem, h("div", { class: "card" }, result, button("Verify again", () => refresh())), h("div", { class: "card" }, h("h2", {}, "Newest changes"), list.element));
  const refresh = watch(context, () => context.get("api/governance/audit"), (found) => {
    put(result, found.is_whole
      ? [h("p", { class: "good" }, h("b", {}, "✓ "), `All ${count(found.changes)} changes verified.`), facts([["end of the chain", h("code", { class: "hash" }, found.hash)]])]
      : h("p", { class: "problem" }, h("b", {}, "✗ The change log was modified. "), found.problem),
      h("p", { class: "soft" }, "To detect removed changes at the end, use 'atoll audit anchor' and 'atoll audit verify --anchors FILE'."));
    list.update(found.newest);
  }, problem);
}
