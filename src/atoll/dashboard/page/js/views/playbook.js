// A playbook: bullets, history, held deltas and rollbacks.

import { folded } from "../code.js";
import { diff } from "../diff.js";
import { decision } from "../decision.js";
import { button, field, h, put, select } from "../dom.js";
import { count, percent, plural } from "../format.js";
import { facts, table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";

const PATH = "api/playbooks";
const OUTCOMES = { applied: "done", held: "paused", rejected: "failed" };

/** All playbooks of the store. */
export default {
  mount(root, context) {
    const problem = h("div", {});
    const place = h("div", {});
    const part = h("div", {});
    let shown = null;
    root.append(problem, place, part);
    watch(context, () => context.get(PATH), (found) => {
      const keys = found.playbooks.map((each) => each.key);
      const key = keys.includes(context.query.get("key")) ? context.query.get("key") : keys.find((each) => each === shown) ?? keys[0];
      if (key === undefined) { put(place, h("p", { class: "empty" }, "No playbooks. Create one with 'atoll run examples/survival'.")); return; }
      if (key === shown) return;
      shown = key;
      put(place, h("div", { class: "bar" }, field("Playbook", select(keys.map((each) => [each, each]), key, (each) => context.go(context.link("playbooks", { run: null, query: { key: each } }))))));
      put(part);
      playbook(part, context, key);
    }, problem);
  },
};

/** The playbook of one survival run. */
export const ofRun = {
  mount(root, context) { playbook(root, context, `playbook/${context.run}`); },
};

function playbook(root, context, key) {
  const problem = h("div", {});
  const size = h("div", {});
  const bullets = h("div", {});
  const waiting = h("div", {});
  const editing = h("div", {});
  const compared = h("div", {});
  let all = [];
  const search = h("input", { type: "search", placeholder: "words in a bullet, its id or section", on: { input: () => drawBullets() } });
  const found = h("p", { class: "soft", role: "status" });
  let version = null;
  let drawn = "";
  const back = button("Newest version", () => { version = null; drawn = ""; refresh(); }, { hidden: true });
  root.append(problem, h("div", { class: "card" }, h("div", { class: "row" }, back), size), h("div", { class: "card" }, h("h2", {}, "Held deltas"), waiting),
    h("div", { class: "card" }, h("h2", {}, "Bullets"), h("div", { class: "bar" }, h("div", { class: "grow" }, field("Search", search)), found), editing, bullets), compared);

  function drawBullets() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = all.filter((each) => words.every((word) => `${each.id} ${each.section} ${each.content}`.toLowerCase().includes(word)));
    found.textContent = words.length ? `${count(shown.length)} of ${plural(all.length, "bullet")}` : "";
    put(bullets, ...sections(shown, words.length ? "No matching bullets." : "The playbook is empty.", version === null ? edit : null));
  }

  function edit(bullet) {
    const text = h("textarea", { rows: 3, maxlength: 4000 });
    text.value = bullet.content;
    const send = (content) => async (said) => {
      const done = await context.post(`${PATH}/edit`, { ...said, key, id: bullet.id, content });
      return `${done.outcome} as version ${done.version}: ${done.reason}`;
    };
    put(editing, h("article", { class: "held" }, h("h3", {}, `Edit ${bullet.id}`), field("Text", text),
      decision(`Edit ${bullet.id}`, [{ label: "Save", kind: "primary", run: (said) => send(text.value)(said) }, { label: "Remove", kind: "danger", run: send("") }], () => changed()), button("Cancel", () => put(editing), { class: "quiet" })));
    text.focus();
  }

  /** Shows what a version changed. */
  async function compareWith(number) {
    const texts = await Promise.all([number - 1, number].map((each) => (each < 1 ? "" : context.get(`${PATH}/current`, { key, version: each }).then((book) => book.bullets.map((row) => `[${row.id}] ${row.content}`).join("\n")))));
    put(compared, h("div", { class: "card" }, h("h2", {}, `Changes of version ${number}`), diff(texts[0], texts[1], `Changes of version ${number}`), button("Close", () => put(compared), { class: "quiet" })));
    compared.scrollIntoView({ block: "nearest" });
  }
  const refresh = watch(context, () => context.get(`${PATH}/current`, { key, version }), (book) => {
    const state = JSON.stringify([book.version, book.newest, book.held.length]);
    if (state === drawn) return;
    drawn = state;
    back.hidden = version === null;
    put(size, ...measure(book));
    all = book.bullets;
    drawBullets();
    if (version === null) put(waiting, ...held(book.held));
  }, problem, { every: 5000 });
  const changed = () => { drawn = ""; put(editing); refresh(); timeline.refresh(); };
  const timeline = history(root, context, key, (number) => { version = number; drawn = ""; refresh(); }, changed, compareWith);

  function held(found) {
    if (!found.length) return [h("p", { class: "empty" }, "No held deltas.")];
    return found.map((each) => {
      const settle = (apply) => async (said) => {
        const done = await context.post(`${PATH}/settle`, { ...said, key, id: each.id, apply });
        return `${done.outcome} as version ${done.version}: ${done.reason}`;
      };
      return h("article", { class: "held" }, delta(each.delta), h("p", { class: "soft" }, "Held because ", inline(each.reason, 400), `; seen ${plural(each.times, "time")}.`),
        decision(`Decide on ${each.id}`, [{ label: "Apply", kind: "primary", run: settle(true) }, { label: "Reject", kind: "danger", run: settle(false) }], changed));
    });
  }
}

function measure(found) {
  const { stats, limits } = found;
  const share = stats.tokens / limits.tokens;
  const { helpful, harmful } = stats;
  const worth = helpful + harmful ? `They helped ${plural(helpful, "time")} and harmed ${plural(harmful, "time")}.` : "None was tagged helpful or harmful yet.";
  const next = stats.held ? "Decide on the held deltas below." : harmful > helpful ? "Edit or remove the harmful bullets." : "Nothing waits for a decision.";
  return [
    h("p", { class: "headline" }, stats.bullets ? `${plural(stats.bullets, "lesson")} learned. ${worth} ${next}` : `No lessons yet. ${next}`),
    facts([["version", `${count(found.version)}${found.version === found.newest ? "" : ` of ${count(found.newest)}`}`], ["bullets", count(stats.bullets)], ["files", count(stats.files)],
      ["sections", count(stats.sections)], ["characters", count(stats.characters)], ["helpful", count(stats.helpful)], ["harmful", count(stats.harmful)], ["waiting", count(stats.held)], ["turn", count(found.turn)]]),
    h("p", { class: "soft" }, `${count(stats.tokens)} of ${count(limits.tokens)} tokens (${percent(share)})`),
    h("div", { class: "meter", role: "meter", "aria-label": "tokens used", "aria-valuemin": 0, "aria-valuemax": limits.tokens, "aria-valuenow": stats.tokens },
      h("i", { class: share > 0.9 ? "full" : "", style: { width: `${Math.min(100, 100 * share)}%` } })),
  ];
}

function sections(bullets, empty, edit) {
  if (!bullets.length) return [h("p", { class: "empty" }, empty)];
  const byName = Map.groupBy(bullets, (each) => each.section);
  return [...byName].map(([name, own]) => {
    const list = table(`Section ${name}`, [
      { name: "id", cell: (row) => h("code", {}, row.id), sort: (row) => row.id },
      { name: "says", wide: true, cell: (row) => [inline(row.content, 2000), row.is_pinned ? h("span", { class: "soft" }, " pinned") : null] },
      { name: "helpful", number: true, cell: (row) => count(row.helpful), sort: (row) => row.helpful },
      { name: "harmful", number: true, cell: (row) => count(row.harmful), sort: (row) => row.harmful },
      { name: "made", title: "created in turn", number: true, cell: (row) => count(row.created), sort: (row) => row.created },
      { name: "used", title: "last used", number: true, cell: (row) => count(row.used), sort: (row) => row.used },
      { name: "from", cell: (row) => inline(row.provenance.at(-1) ?? "", 120) },
      ...(edit ? [{ name: "edit", cell: (row) => button("Edit", () => edit(row), { class: "quiet inline", "aria-label": `Edit ${row.id}` }) }] : []),
    ], { class: "stacks" });
    list.update(own);
    return h("section", { class: "book-section" }, h("h3", {}, inline(name, 80), h("span", { class: "soft" }, ` ${own.length}`)), list.element);
  });
}

function delta(each) {
  const named = [each.section, ...(each.ids ?? [])].filter(Boolean).join(" ");
  return h("p", { class: "delta" }, h("b", {}, each.kind), " ", each.kind === "tag" ? `${each.tag} ` : "", h("code", {}, inline(named, 120)), " ", inline(each.content ?? "", 2000),
    each.evidence ? h("span", { class: "soft" }, " because ", inline(each.evidence, 400)) : null);
}

function judged(verdict) {
  return h("div", { class: "verdict" }, h("span", { class: "badge", "data-status": OUTCOMES[verdict.outcome] ?? "other" }, verdict.outcome), delta(verdict.delta),
    h("p", { class: "soft" }, verdict.turn ? `turn ${verdict.turn}: ` : "", inline(verdict.reason, 600)));
}

/** Versions, newest first, with their deltas; each can be shown or restored. */
function history(root, context, key, look, changed, compareWith) {
  const problem = h("div", {});
  const list = h("ol", { class: "timeline" });
  const more = button("Show older", () => load(next), { class: "quiet", hidden: true });
  const returning = h("div", {});
  let next = null;
  let newest = 0;
  root.append(h("div", { class: "card" }, h("h2", {}, "History"), problem, returning, list, more));

  async function load(before) {
    const found = await context.get(`${PATH}/history`, { key, before, limit: 30 });
    if (before === null) put(list);
    list.append(...found.versions.map(entry));
    next = found.next;
    more.hidden = next === null;
    return found;
  }

  function entry(each) {
    const told = Object.entries(each.counts).filter(([, number]) => number).map(([name, number]) => `${number} ${name}`).join(", ");
    return h("li", {}, h("p", { class: "row" }, h("b", {}, `version ${each.version}`), h("span", { class: "soft" }, inline(each.author, 60)),
      each.restored ? h("span", {}, `rollback to ${each.restored}`) : null, h("span", {}, inline(each.reason, 300)), h("span", { class: "soft" }, told),
      button("Show", () => look(each.version), { class: "quiet inline", "aria-label": `Show version ${each.version}` }),
      button("Changes", () => compareWith(each.version), { class: "quiet inline", "aria-label": `Changes of version ${each.version}` }),
      each.version === newest ? null : button("Roll back …", () => goBack(each.version), { class: "quiet inline", "aria-label": `Roll back to version ${each.version}` })),
    each.verdicts.length === 0 && each.restored === null && Object.values(each.counts).some(Boolean) ? proposed(each.version) : null,
    each.verdicts.map((verdict) => judged(verdict)),
    each.retired.map((gone) => h("p", { class: "soft" }, "retired ", h("code", {}, gone.id), " ", inline(gone.content, 300), ": ", inline(gone.reason, 300))));
  }

  /** Deltas of the episode of a version, loaded when opened. */
  function proposed(number) {
    return folded("Deltas of this episode", () => {
      const place = h("div", { class: "tall" }, h("p", { class: "soft" }, "Loading …"));
      context.get(`${PATH}/deltas`, { key, version: number }).then((found) => put(place, h("p", { class: "soft" }, `${plural(found.total, "delta")} of episode ${found.life}`), found.deltas.map((each) => judged(each))))
        .catch((error) => error.name === "AbortError" || put(place, h("p", { class: "soft" }, error.message)));
      return place;
    });
  }

  function goBack(number) {
    put(returning, h("article", { class: "held" }, h("h3", {}, `Roll back to version ${number}`), h("p", { class: "soft" }, "It becomes the newest version. The history is kept."),
      decision(`Roll back to version ${number}`, [{ label: "Roll back", kind: "danger", run: async (said) => {
        const done = await context.post(`${PATH}/rollback`, { ...said, key, version: number });
        return `Version ${done.version} is a copy of version ${number}.`;
      } }, ], changed)));
    returning.querySelector("input")?.focus();
  }

  const refresh = watch(context, () => context.get(`${PATH}/history`, { key, limit: 30 }), (found) => {
    const last = found.versions[0]?.version ?? 0;
    if (last === newest) return;
    newest = last;
    put(list, ...found.versions.map(entry));
    next = found.next;
    more.hidden = next === null;
  }, problem, { every: 5000 });
  return { refresh };
}
