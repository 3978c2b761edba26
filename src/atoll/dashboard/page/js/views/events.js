// Events: the journal of a run, filtered, searched, followed.

import { button, field, h, put, say, select } from "../dom.js";
import { data as asData } from "../code.js";
import { count, gist, moment, plural } from "../format.js";
import { inline } from "../text.js";

export default { title: "Events", path: "events", scope: "run", mount };

const KINDS = ["started", "founded", "begun", "replied", "judged", "applied", "migrated", "reset", "observed", "held", "decided", "controlled", "ended"];
const PAGE = 100;
const MOST = 2000; // in the page at once; older ones are dropped from its end
const WAIT = 250; // milliseconds after the last key

function mount(root, context) {
  const wanted = { kind: context.query.get("kind") ?? "", q: context.query.get("q") ?? "" };
  let before = null; // where the next, older page begins
  let isFollowing = true;
  let asked = 0;
  let timer = null;
  let newest = null;
  const problem = h("div", {});
  const told = h("p", { class: "soft", role: "status" });
  const list = h("ol", { class: "events", "aria-label": "Events, newest first" });
  const more = button("Older events", () => load(false));
  const search = h("input", { type: "search", value: wanted.q, placeholder: "in the data of an event", on: { input: () => { clearTimeout(timer); timer = setTimeout(() => { wanted.q = search.value.trim(); restart(); }, WAIT); } } });
  const kind = select([["", "all"], ...KINDS.map((each) => [each, each])], wanted.kind, (value) => { wanted.kind = value; restart(); });
  const follow = h("input", { type: "checkbox", checked: true, on: { change: () => { isFollowing = follow.checked; if (isFollowing) restart(); } } });
  root.append(
    h("div", { class: "bar" }, h("div", { class: "grow" }, field("Search", search)), field("Kind", kind), h("label", { class: "check" }, follow, " Follow"), told),
    problem, h("div", { class: "card" }, list, more));

  function restart() {
    context.setQuery(wanted);
    before = null;
    newest = null;
    load(true);
  }

  async function load(isNew) {
    asked += 1;
    const mine = asked;
    list.setAttribute("aria-busy", "true");
    try {
      const found = await context.get("events", { run: context.run, kind: wanted.kind, q: wanted.q, order: "desc", before: isNew ? null : before, limit: PAGE });
      if (mine !== asked) return;
      show(found, isNew);
    } catch (error) {
      if (error.name !== "AbortError") put(problem, h("p", { class: "problem", role: "alert" }, error.message));
    }
    if (mine === asked) list.removeAttribute("aria-busy");
  }

  function show(found, isNew) {
    put(problem);
    const rows = found.events ?? found.items ?? [];
    if (isNew) list.replaceChildren();
    list.append(...rows.map(item));
    before = found.next ?? null;
    more.hidden = before === null || list.children.length >= MOST;
    if (isNew) newest = rows[0]?.seq ?? null;
    say(told, rows.length || !isNew ? `${plural(list.children.length, "event")} shown${Number.isFinite(found.total) ? ` of ${count(found.total)}` : ""}` : "No event fits.");
  }

  function hear(event) {
    if (!isFollowing || !fits(event, wanted)) return;
    if (newest !== null && event.seq !== undefined && event.seq <= newest) return;
    newest = event.seq ?? newest;
    list.prepend(item(event));
    while (list.children.length > MOST) list.lastElementChild.remove();
  }

  context.onEvent(hear);
  context.signal.addEventListener("abort", () => clearTimeout(timer));
  load(true);
}

function fits(event, wanted) {
  if (wanted.kind && event.kind !== wanted.kind) return false;
  return !wanted.q || JSON.stringify(event.data ?? {}).toLowerCase().includes(wanted.q.toLowerCase());
}

function item(event) {
  let isOpen = false;
  const node = h("details", { on: { toggle: () => { if (node.open && !isOpen) { isOpen = true; node.append(asData(event.data ?? event, `Data of event ${event.seq ?? ""}`)); } } } },
    h("summary", {}, h("span", { class: "kind", "data-kind": event.kind }, event.kind),
      h("span", { class: "soft number" }, `step ${event.step ?? "–"}`),
      h("span", { class: "soft number" }, event.island >= 0 ? `island ${event.island}` : "all islands"),
      event.at ? h("time", { class: "soft" }, moment(event.at)) : null,
      inline(gist(event.said ?? event.data ?? "", 240), 240)));
  return h("li", {}, node);
}
