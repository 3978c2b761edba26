// Runs: all runs of the store with their names and tags, and a comparison of several.

import { known, ofRun } from "../api.js";
import { button, field, h, put, say, select } from "../dom.js";
import { ago, cost, count, duration, leaf, moment, plural, score } from "../format.js";
import { badge } from "../header.js";
import { link } from "../route.js";
import { table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";
import { comparison } from "./compare.js";

const EVERY = 1000; // milliseconds; the stream covers one run only
const IDLE = 5000; // if no run is running
const MOST = 30; // runs in one comparison
const COLUMNS = "atoll.columns";
const DEFAULT = ["run", "status", "task", "LLM", "best", "evaluations", "cost", "created"];

export default { mount };

function mount(root, context) {
  const chosen = new Set((context.query.get("compare") ?? "").split(",").filter(Boolean));
  const wanted = Object.fromEntries(["q", "status", "system", "tag"].map((name) => [name, context.query.get(name) ?? ""]));
  let all = null;
  let shownColumns = readColumns();
  const problem = h("div", {});
  const number = h("p", { class: "soft", role: "status" });
  const place = h("div", {});
  const search = h("input", { type: "search", value: wanted.q, placeholder: "name, run, task, tag, note or LLM", on: { input: () => { wanted.q = search.value; remember(); render(); } } });
  const choice = (name, values) => select([["", "all"], ...values.map((each) => [each, each])], wanted[name], (value) => { wanted[name] = value; remember(); render(); });
  const filters = h("div", { class: "row" });
  const compared = comparison(context, chosen, () => { remember(); render(); });
  const label = labelDialog(context, () => refresh());
  let list = null;
  const makeList = () => { list = runTable(shownColumns, chosen, { choose: () => { remember(); compared.update(all); render(); }, label }); put(place, list.element); };
  const columns = columnChoice(shownColumns, (next) => { shownColumns = next; saveColumns(next); makeList(); render(); });
  const card = h("div", { class: "card" }, place);
  const bar = h("div", { class: "bar" }, h("div", { class: "grow" }, field("Search", search)), filters, columns, number);
  const empty = welcome();
  makeList();
  root.append(bar, problem, compared.element, card, empty);

  function remember() {
    context.setQuery({ compare: [...chosen].join(","), ...wanted });
  }

  function render() {
    if (!all) return;
    const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = all.filter((run) => (!wanted.status || run.status === wanted.status) && (!wanted.system || run.system === wanted.system)
      && (!wanted.tag || run.label.tags.includes(wanted.tag)) && words.every((word) => textOf(run).includes(word)));
    number.textContent = shown.length === all.length ? plural(all.length, "run") : `${count(shown.length)} of ${plural(all.length, "run")}`;
    empty.hidden = all.length > 0;
    bar.hidden = card.hidden = all.length === 0;
    list.update(shown);
  }

  function drawFilters() {
    const [systems, tags] = [[...new Set(all.map((run) => run.system))].sort(), [...new Set(all.flatMap((run) => run.label.tags))].sort()];
    const now = JSON.stringify([systems, tags]);
    if (filters.dataset.now === now) return;
    filters.dataset.now = now;
    put(filters, field("Status", choice("status", ["running", "paused", "done", "stopped", "interrupted", "failed", "crashed"])), systems.length > 1 ? field("System", choice("system", systems)) : null, tags.length ? field("Tag", choice("tag", tags)) : null);
  }

  let timer = null;
  const refresh = watch(context, () => context.get("api/runs", { limit: 500 }), (data) => {
    all = data.runs;
    drawFilters();
    compared.update(all);
    render();
    clearTimeout(timer);
    timer = setTimeout(() => refresh(), all.some((run) => run.status === "running") ? EVERY : IDLE);
  }, problem);
  context.signal.addEventListener("abort", () => clearTimeout(timer));
}

function textOf(run) {
  return [run.id, run.system, run.task, run.llm, run.status, run.label.name, run.label.note, ...run.label.tags].join(" ").toLowerCase();
}

function readColumns() {
  try { return JSON.parse(localStorage.getItem(COLUMNS)) ?? DEFAULT; } catch { return DEFAULT; }
}

function saveColumns(names) {
  try { localStorage.setItem(COLUMNS, JSON.stringify(names)); } catch { /* storage is switched off */ }
}

function allColumns(chosen, acts) {
  return [
    { name: "run", wrap: true, cell: (run) => [h("a", { href: link("overview", { run: run.id }), class: run.label.name ? "" : "mono" }, run.label.name ? inline(run.label.name, 60) : run.id), run.label.name ? h("span", { class: "soft mono small" }, ` ${run.id}`) : null, run.label.tags.map((tag) => h("span", { class: "tag" }, inline(tag, 40))), run.label.note ? h("p", { class: "soft small" }, inline(run.label.note, 120)) : null], sort: (run) => run.label.name || run.id },
    { name: "status", cell: (run) => badge(run.status), sort: (run) => run.status },
    { name: "system", minor: true, cell: (run) => run.system, sort: (run) => run.system },
    { name: "task", wrap: true, cell: (run) => [inline(leaf(run.task), 60), run.baseline_of ? h("span", { class: "soft" }, ` baseline of ${run.baseline_of}`) : null], sort: (run) => leaf(run.task) },
    { name: "seed", number: true, cell: (run) => count(run.seed), sort: (run) => run.seed },
    { name: "LLM", minor: true, wrap: true, cell: (run) => inline(run.llm, 50), sort: (run) => run.llm },
    { name: "initial", minor: true, number: true, cell: (run) => score(run.initial_score), sort: (run) => run.initial_score },
    { name: "best", number: true, cell: (run) => h("b", {}, score(run.best_score)), sort: (run) => run.best_score },
    { name: "evaluations", number: true, cell: (run) => count(run.evaluations), sort: (run) => run.evaluations },
    { name: "calls", number: true, cell: (run) => count(run.calls), sort: (run) => run.calls },
    { name: "cost", number: true, cell: (run) => cost(run), sort: (run) => run.cost_usd },
    { name: "time", number: true, cell: (run) => duration(run.seconds), sort: (run) => run.seconds },
    { name: "created", number: true, cell: (run) => h("time", { datetime: run.began, title: moment(run.began) }, ago(run.began)), sort: (run) => run.began },
  ];
}

function runTable(names, chosen, acts) {
  return table("Runs of the store", [
    { name: "choose", title: "compare", cell: (run) => h("input", { type: "checkbox", "aria-label": `Compare ${run.id}`, checked: chosen.has(run.id), on: { change: (event) => { toggle(chosen, run.id, event.target.checked); acts.choose(); } } }) },
    ...allColumns(chosen, acts).filter((column) => names.includes(column.name)),
    { name: "edit", title: "label", minor: true, cell: (run) => button("Edit", () => acts.label(run), { class: "quiet inline", "aria-label": `Edit name, tags and note of ${run.id}` }) },
  ], { class: "stacks", sort: ["created", true], empty: "No matching runs.", rowClass: (run) => (chosen.has(run.id) ? "chosen" : null) });
}

function columnChoice(names, onChange) {
  const boxes = allColumns().map(({ name }) => {
    const box = h("input", { type: "checkbox", checked: names.includes(name), disabled: name === "run", on: { change: () => onChange(boxes.filter(([, each]) => each.checked).map(([each]) => each)) } });
    return [name, box];
  });
  return h("details", { class: "columns" }, h("summary", {}, "Columns"), h("div", { class: "popup" }, boxes.map(([name, box]) => h("label", { class: "check" }, box, ` ${name}`))));
}

function toggle(chosen, run, isIn) {
  if (!isIn) chosen.delete(run);
  else if (chosen.size < MOST) chosen.add(run);
}

/** A dialog for the name, the tags and the note of a run. */
function labelDialog(context, done) {
  const [name, tags, note] = [h("input", { type: "text", maxlength: 120 }), h("input", { type: "text", maxlength: 400 }), h("textarea", { rows: 4, maxlength: 4000 })];
  const said = h("p", { class: "problem", role: "alert" });
  const heading = h("h2", { id: "label-title" });
  let run = null;
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "label-title" }, h("form", { on: { submit: async (event) => {
    event.preventDefault();
    const list = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    try {
      await context.post(ofRun(run.id, "label"), { name: name.value, tags: list, note: note.value });
      dialog.close();
      done();
    } catch (error) { say(said, error.message); }
  } } }, heading, field("Name", name), field("Tags", tags, "separated by commas"), field("Note", note), said,
  h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Save"), button("Cancel", () => dialog.close()))));
  document.body.append(dialog);
  context.signal.addEventListener("abort", () => dialog.remove());
  return (chosen) => {
    if (!known().can_change) { document.dispatchEvent(new CustomEvent("atoll:token")); return; }
    run = chosen;
    put(heading, `Label of ${run.id}`);
    [name.value, tags.value, note.value] = [run.label.name, run.label.tags.join(", "), run.label.note];
    say(said, "");
    dialog.showModal();
  };
}

function welcome() {
  const step = (title, command, text) => h("li", {}, h("b", {}, title), " ", h("code", { class: "command" }, command), h("p", { class: "soft" }, text));
  return h("section", { class: "card welcome", hidden: true, "aria-label": "Welcome" }, h("h2", {}, "Welcome. This store has no runs yet."),
    h("p", {}, "Start one in a terminal. It appears here at once."),
    h("ol", {}, step("See it work:", "./atoll demo", "Rediscovers a formula in about ten seconds, without an API key."),
      step("Make your own task:", "./atoll init function my_task", "Creates a folder with a task to edit."),
      step("Run it:", "./atoll run my_task --budget 60s", "Evolves it for a minute.")),
    h("p", { class: "soft" }, "The dashboard shows the store that it was started with. Use --store, or ATOLL_STORE, to show another one."));
}
