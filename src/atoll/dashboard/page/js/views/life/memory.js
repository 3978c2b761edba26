// Memory at a turn: fear dictionary, discoveries, notes from earlier episodes, log of the playground.

import { h, put } from "../../dom.js";
import { count, score } from "../../format.js";
import { table } from "../../table.js";
import { inline } from "../../text.js";

export function memory() {
  const fears = table("Alerts: the fear dictionary", [
    { name: "what", cell: (row) => inline(row.what, 100), sort: (row) => row.what },
    { name: "cause", cell: (row) => inline(row.cause, 60) },
    { name: "when", cell: (row) => inline(row.condition, 100) },
    { name: "remedy", cell: (row) => inline(row.remedy, 160) },
    { name: "times", number: true, cell: (row) => count(row.times), sort: (row) => row.times },
    { name: "worst", number: true, cell: (row) => score(row.worst, 3), sort: (row) => row.worst },
    { name: "last", title: "last tick", number: true, cell: (row) => count(row.tick), sort: (row) => row.tick },
  ], { class: "stacks", empty: "No damage yet.", sort: ["times", true] });
  const explored = h("ul", { class: "plain-list tall" });
  const notes = h("ul", { class: "plain-list tall" });
  const requests = h("div", {});
  const element = h("div", {}, h("h3", {}, "Alerts: the fear dictionary"), fears.element, h("div", { class: "cards" },
    h("div", {}, h("h3", {}, "Exploration log"), explored), h("div", {}, h("h3", {}, "Notes from earlier episodes"), notes)), requests);
  const lines = (list, nothing) => (list.length ? list.map((each) => h("li", {}, inline(each, 400))) : h("li", { class: "empty" }, nothing));
  return { element, update(story) {
    fears.update([...story.alerts.values()]);
    put(explored, lines(story.explored.toReversed(), "No discoveries yet."));
    put(notes, lines(story.notes.toReversed(), "This is the first episode."));
    put(requests, story.requests.length ? playground(story.requests) : null);
  } };
}

function playground(rows) {
  const list = table("Requests to the playground", [
    { name: "action", cell: (row) => inline(row.action, 30) },
    { name: "target", wide: true, cell: (row) => inline(row.target, 200) },
    { name: "answer", wide: true, cell: (row) => inline(row.answer, 200) },
    { name: "seconds", number: true, cell: (row) => score(row.seconds, 3) },
  ]);
  list.update(rows.toReversed());
  return h("div", {}, h("h3", {}, "Playground"), h("div", { class: "tall" }, list.element));
}
