// Events: the journal of a run with filter, search and live updates.

import { button, field, h, put, say, select } from "../dom.js";
import { folded, source } from "../code.js";
import { clock, count, moment, plural } from "../format.js";
import { inline, piece } from "../text.js";

export default { mount };

const KINDS = ["started", "founded", "begun", "charged", "replied", "judged", "applied", "migrated", "reset", "observed", "held", "decided", "controlled", "ended", "concluded", "executed"];
// Words for the stored kinds, which never change.
const WORDS = { founded: "initial", begun: "issued", replied: "LLM response", charged: "LLM budget", judged: "evaluated", observed: "updated", executed: "executor" };
const word = (kind) => WORDS[kind] ?? kind;
const PAGE = 100;
const MOST = 2000; // maximum in the page; older ones are removed

function mount(root, context) {
  const wanted = { kind: context.query.get("kind") ?? "", q: context.query.get("q") ?? "" };
  let after = null; // cursor of the next, older page
  let isFollowing = context.query.get("follow") === "1";
  let waiting = []; // new events that are announced, but not shown yet
  let asked = 0;
  let newest = 0;
  const problem = h("div", {});
  const told = h("p", { class: "soft", role: "status" });
  const list = h("ol", { class: "events", "aria-label": "Events, newest first" });
  const more = button("Older events", () => load(false));
  const search = h("input", { type: "search", value: wanted.q, placeholder: "text in the record", on: { input: () => { wanted.q = search.value.trim(); restart(); } } });
  const kind = select([["", "all"], ...KINDS.map((each) => [each, word(each)])], wanted.kind, (value) => { wanted.kind = value; restart(); });
  const follow = h("input", { type: "checkbox", checked: isFollowing, on: { change: () => { isFollowing = follow.checked; context.setQuery({ ...wanted, follow: isFollowing ? "1" : "" }); if (isFollowing) reveal(); } } });
  const fresh = button("", () => reveal(), { class: "fresh", hidden: true });
  root.append(
    h("div", { class: "bar" }, h("div", { class: "grow" }, field("Search", search)), field("Kind", kind), h("label", { class: "check" }, follow, " Show new events at once"), told),
    problem, h("div", { class: "card" }, h("div", { role: "status" }, fresh), list, more));

  function restart() {
    context.setQuery(wanted);
    after = null;
    load(true);
  }

  /** Loads a page; a search in a long journal needs several requests. */
  async function load(isNew) {
    asked += 1;
    const mine = asked;
    list.setAttribute("aria-busy", "true");
    try {
      for (let found = 0, isFirst = isNew; found < PAGE; isFirst = false) {
        const page = await context.get("events", { run: context.run, kind: wanted.kind, q: wanted.q, after, limit: PAGE });
        if (mine !== asked) return; // the filter has changed meanwhile
        show(page, isFirst);
        found += page.events.length;
        if (page.next === null || page.events.length === PAGE) break;
      }
    } catch (error) {
      if (error.name !== "AbortError") put(problem, h("p", { class: "problem", role: "alert" }, error.message));
    }
    if (mine === asked) list.removeAttribute("aria-busy");
  }

  function show(found, isNew) {
    put(problem);
    if (isNew) { list.replaceChildren(); newest = Math.max(newest, found.total); waiting = []; announce(); }
    list.append(...found.events.map((each) => item(each, context)));
    after = found.next;
    more.hidden = after === null || list.children.length >= MOST;
    const number = list.children.length;
    const looked = found.is_done ? "" : `; searched ${count(found.total - found.looked + 1)} of ${count(found.total)}`;
    say(told, number || !found.is_done ? `${plural(number, "event")} shown${looked}` : "No matching events.");
  }

  function hear(event) {
    if (event.seq <= newest || (wanted.kind && event.kind !== wanted.kind)) return;
    newest = event.seq;
    if (wanted.q && !event.gist.toLowerCase().includes(wanted.q.toLowerCase())) return; // a new search finds the rest
    waiting.push(event);
    if (waiting.length > MOST) waiting.shift();
    if (isFollowing) reveal();
    else announce();
  }

  /** Announces new events without moving the list. */
  function announce() {
    fresh.hidden = waiting.length === 0;
    fresh.textContent = `${plural(waiting.length, "new event")} – show`;
  }

  function reveal() {
    if (waiting.length >= MOST) { restart(); return; }
    list.prepend(...waiting.map((event) => item(event, context)).reverse());
    waiting = [];
    announce();
    while (list.children.length > MOST) list.lastElementChild.remove();
  }

  context.onEvent(hear);
  load(true);
}

function item(event, context) {
  const node = folded([
    h("time", { class: "soft number", title: event.at ? moment(event.at) : "This record has no time" }, event.at ? clock(event.at) : "–"),
    h("span", { class: "kind", "data-kind": event.kind, title: `stored as ${event.kind}` }, word(event.kind)),
    h("span", { class: "soft number" }, `iteration ${count(event.step)}`),
    h("span", { class: "soft number" }, event.island >= 0 ? `island ${event.island}` : "all"),
    inline(event.gist, 240),
  ], () => whole(event, context));
  return h("li", {}, node);
}

function whole(event, context) {
  const place = h("div", { class: "whole" }, h("p", { class: "empty" }, "Loading …"));
  context.get(`events/${encodeURIComponent(context.run)}/${event.seq}`).then(
    (found) => put(place, piece(found.data, { label: `Data of event ${event.seq}`, show: (text) => source(text, `Data of event ${event.seq}`, "json") })),
    (error) => error.name !== "AbortError" && put(place, h("p", { class: "problem" }, error.message)));
  return place;
}
