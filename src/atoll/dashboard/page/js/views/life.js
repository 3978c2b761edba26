// Episodes: the current or a finished one turn by turn, and statistics of all.

import { known } from "../api.js";
import { lines } from "../charts/lines.js";
import { reliability } from "../charts/reliability.js";
import { button, field, h, put, say, select } from "../dom.js";
import { count, percent, score } from "../format.js";
import { facts, table } from "../table.js";
import { inline } from "../text.js";
import { watch } from "../watch.js";
import { lifeMap } from "./life/map.js";
import { memory } from "./life/memory.js";
import { read, upTo } from "./life/story.js";
import { TONES, actions, thoughts, vitals } from "./life/turn.js";

const PAGE = 500; // turns per request
const MOST_TURNS = 20000;
const AROUND = 60; // turns listed before and after the selected one
const FOLLOW_MS = 1000;
const LARGEST_FILE = 200e6;

export default {
  mount(root, context) { new LifeView(root, context); },
};

class LifeView {
  #context;
  #episode = null;
  #all = []; // turns of all agents in order
  #agent = 0;
  #agents = "";
  #turns = []; // turns of one agent
  #next = 0;
  #place = 0;
  #isFollowing = true;
  #isLive = false;
  #lives = "";
  #problem = h("div", {});
  #who = h("div", {});
  #choice = h("div", { class: "bar" });
  #slider = h("input", { type: "range", min: 0, max: 0, value: 0, on: { input: () => this.#choose(Number(this.#slider.value)) } });
  #told = h("output", { class: "soft" });
  #follow = h("input", { type: "checkbox", checked: true, on: { change: () => { this.#isFollowing = this.#follow.checked; if (this.#isFollowing) this.#choose(this.#turns.length - 1, true); } } });
  #play = button("▶ Play", () => this.#toggle(), { "aria-label": "Play the life" });
  #speed = select([["4", "4 turns/s"], ["12", "12 turns/s"], ["40", "40 turns/s"]], "12", () => { if (this.#player) { this.#toggle(); this.#toggle(); } }, { "aria-label": "Speed" });
  #player = null;
  #vitals = vitals();
  #map = lifeMap();
  #thoughts = h("div", {});
  #notices = h("ul", { class: "plain-list notices tall", "aria-label": "Alerts", tabindex: "0" });
  #memory = memory();
  #course = lines({ title: "Life, danger and the unknown by tick", xLabel: "tick", height: 220, formatY: (value) => percent(value) });
  #list = actions((place) => { this.#stopFollowing(); this.#choose(place); });
  #page = h("div", {});
  #overall = new Overall();

  constructor(root, context) {
    this.#context = context;
    this.#episode = Number(context.query.get("life")) || null;
    const file = h("input", { type: "file", accept: ".jsonl,.json,.txt", on: { change: () => this.#openFile(file.files[0]) } });
    root.append(this.#problem, this.#choice, h("div", { class: "bar" }, this.#who, this.#play, this.#speed, h("div", { class: "grow" }, field("Turn", this.#slider)), this.#told,
      h("label", { class: "check" }, this.#follow, " follow the newest"), field("Turns saved by --save-run", file)), this.#page, this.#overall.element);
    put(this.#page, h("p", { class: "empty" }, "No turn yet."));
    context.signal.addEventListener("abort", () => clearInterval(this.#player));
    watch(context, () => context.get(context.ofRun("life")), (found) => this.#drawLives(found), this.#problem, { every: 3000 });
  }

  #layOut() {
    if (this.#page.contains(this.#map.element)) return;
    put(this.#page, h("div", { class: "card" }, this.#vitals.element), h("div", { class: "cards" },
      h("section", { class: "card" }, h("h2", {}, "The agent's map"), this.#map.element), h("section", { class: "card" }, h("h2", {}, "This turn"), this.#thoughts)),
    h("div", { class: "cards" }, h("section", { class: "card" }, this.#course.element), h("section", { class: "card" }, h("h2", {}, "Alerts"), this.#notices)),
    h("section", { class: "card" }, h("h2", {}, "Actions"), h("div", { class: "tall" }, this.#list.element)),
    h("section", { class: "card" }, h("h2", {}, "Memory"), this.#memory.element));
  }

  #drawLives(found) {
    this.#isLive = found.is_live;
    if (this.#isLive && known().can_change) this.#context.post(this.#context.ofRun("life", "watch"), {}).catch(() => {});
    this.#overall.update(found, (episode) => this.#enter(episode));
    const kept = found.lives.filter((each) => each.has_turns).map((each) => each.episode);
    const options = [...(found.under_way && !kept.includes(found.under_way) ? [found.under_way] : []), ...kept.toReversed()];
    if (String(options) !== this.#lives) {
      this.#lives = String(options);
      put(this.#choice, options.length ? field("Episode", select(options.map((each) => [each, each === found.under_way ? `episode ${each}, running` : `episode ${each}`]), this.#episode ?? options[0], (each) => this.#enter(Number(each)))) : h("p", { class: "empty" }, "No finished episode with saved turns yet."));
    }
    const wanted = this.#episode ?? (this.#isFollowing ? options[0] : null) ?? null;
    if (wanted !== null && (this.#turns.length === 0 || (this.#isFollowing && this.#context.query.get("life") === null && options[0] !== this.#shown))) this.#enter(options.includes(wanted) ? wanted : options[0], true);
  }

  #shown = null;
  #timer = null;

  #enter(episode, isOwn = false) {
    if (episode === undefined || (episode === this.#shown && this.#turns.length)) return;
    if (!isOwn) { this.#episode = episode; this.#context.setQuery({ life: episode }); }
    this.#shown = episode;
    this.#forget();
    this.#next = 0;
    this.#place = 0;
    clearTimeout(this.#timer);
    this.#load(episode);
  }

  async #load(episode) {
    if (this.#context.signal.aborted || episode !== this.#shown) return;
    try {
      const found = await this.#context.get(this.#context.ofRun("life", "turns", episode), { after: this.#next, limit: PAGE });
      if (episode !== this.#shown) return;
      if (found.is_kept && this.#isPartial) { this.#isPartial = false; this.#forget(); this.#next = 0; this.#load(episode); return; }
      this.#isPartial = !found.is_over;
      this.#next = found.next;
      this.#take(found.turns);
      if (found.has_more && this.#turns.length < MOST_TURNS) { this.#load(episode); return; }
      if (!found.is_over) this.#timer = setTimeout(() => this.#load(episode), FOLLOW_MS);
    } catch (error) {
      if (error.name !== "AbortError") put(this.#problem, h("p", { class: "problem", role: "alert" }, error.message));
    }
  }

  #isPartial = false; // the episode was still running; all turns are loaded when it ends

  #forget() {
    this.#all = [];
    this.#turns = [];
    this.#agent = 0;
    this.#agents = "";
    put(this.#who);
  }

  /** Shows a choice of agents. */
  #meet() {
    const agents = [...new Set(this.#all.map((turn) => turn.agent ?? 0))].sort((a, b) => a - b);
    if (agents.length < 2 || String(agents) === this.#agents) return;
    this.#agents = String(agents);
    put(this.#who, field("Agent", select(agents.map((each) => [each, `agent ${each + 1}`]), this.#agent, (each) => {
      this.#agent = Number(each);
      this.#turns = [];
      this.#take([]);
    })));
  }

  #take(turns) {
    if (!turns.length && this.#turns.length) return;
    const wasAtEnd = this.#place >= this.#turns.length - 1;
    this.#all.push(...turns);
    this.#meet();
    this.#turns = this.#all.filter((turn) => (turn.agent ?? 0) === this.#agent);
    if (!this.#turns.length) return;
    this.#slider.max = this.#turns.length - 1;
    this.#drawCourse();
    this.#choose(wasAtEnd && this.#isFollowing ? this.#turns.length - 1 : this.#place, true);
  }

  /** Plays the life turn by turn, from the start if it is at its end. */
  #toggle() {
    const isPlaying = this.#player !== null;
    clearInterval(this.#player);
    this.#player = null;
    this.#play.textContent = isPlaying ? "▶ Play" : "❚❚ Pause";
    this.#play.setAttribute("aria-label", isPlaying ? "Play the life" : "Pause");
    if (isPlaying || !this.#turns.length) { if (!isPlaying) this.#play.textContent = "▶ Play"; return; }
    this.#stopFollowing();
    if (this.#place >= this.#turns.length - 1) this.#choose(0, true);
    this.#player = setInterval(() => {
      if (this.#place >= this.#turns.length - 1 || this.#context.signal.aborted) { this.#toggle(); return; }
      this.#choose(this.#place + 1, true);
    }, 1000 / Number(this.#speed.value));
  }

  #stopFollowing() {
    this.#isFollowing = false;
    this.#follow.checked = false;
  }

  #choose(place, isOwn = false) {
    if (!this.#turns.length) return;
    this.#layOut();
    this.#place = Math.max(0, Math.min(place, this.#turns.length - 1));
    if (!isOwn && this.#place < this.#turns.length - 1) this.#stopFollowing();
    const turn = this.#turns[this.#place];
    this.#slider.value = this.#place;
    this.#slider.setAttribute("aria-valuetext", `turn ${turn.turn} of ${this.#turns.length}, tick ${turn.tick}`);
    say(this.#told, `episode ${turn.episode}, turn ${count(turn.turn)} of ${count(this.#turns.length)}, tick ${count(turn.tick)}${turn.is_over ? (turn.cause ? `, died of ${turn.cause}` : ", survived") : ""}`);
    const story = upTo(this.#turns, this.#place);
    this.#vitals.update(turn);
    this.#map.update(story);
    this.#memory.update(story);
    put(this.#thoughts, ...thoughts(turn));
    put(this.#notices, story.notices.length ? story.notices.slice(-100).toReversed().map((each) => h("li", { "data-kind": each.kind }, h("b", {}, each.kind), h("span", { class: "soft" }, ` tick ${each.tick} `), inline(each.text, 300))) : h("li", { class: "empty" }, "No alerts."));
    const from = Math.max(0, this.#place - AROUND);
    const rows = this.#turns.slice(from, this.#place + AROUND).map((each, at) => ({ turn: each, place: from + at, isChosen: from + at === this.#place }));
    this.#list.update(rows.toReversed());
  }

  #drawCourse() {
    const of = (pick) => this.#turns.map((turn) => [turn.tick, pick(turn)]).filter(([, value]) => Number.isFinite(value));
    this.#course.update([
      { name: "life", points: of((turn) => turn.state.life), tone: TONES.life },
      { name: "danger", points: of((turn) => turn.forecast), tone: TONES.danger },
      { name: "unknown", points: of((turn) => turn.view?.unknown), tone: TONES.unknown },
    ]);
  }

  async #openFile(file) {
    if (!file) return;
    if (file.size > LARGEST_FILE) { put(this.#problem, h("p", { class: "problem", role: "alert" }, "The file is too large for the page. Use 'scripts/analyze_snapshots.py'.")); return; }
    const turns = read(await file.text());
    if (!turns.length) { put(this.#problem, h("p", { class: "problem", role: "alert" }, "The file has no turns. Choose one that 'atoll run --save-run DIR' wrote.")); return; }
    put(this.#problem);
    clearTimeout(this.#timer);
    this.#stopFollowing();
    this.#episode = turns[0].episode;
    this.#shown = `file ${file.name}`;
    this.#forget();
    this.#place = turns.length;
    this.#take(turns.slice(0, MOST_TURNS));
    this.#context.announce(`${turns.length} turns read from ${file.name}.`);
  }
}

/** Statistics of all episodes: scores, reliability of forecasts, exploration by danger. */
class Overall {
  #diagram = reliability({ title: "Reliability of danger forecasts", xLabel: "predicted danger", yLabel: "observed damage" });
  #curve = lines({ title: "Exploration by predicted danger", xLabel: "predicted danger", height: 240, formatX: (value) => percent(value), formatY: (value) => percent(value) });
  #course = lines({ title: "Score by episode", xLabel: "episode", height: 220 });
  #facts = h("div", {});
  #onOpen = () => {};
  #list = table("Episodes", [
    { name: "episode", number: true, cell: (row) => (row.has_turns ? button(String(row.episode), () => this.#onOpen(row.episode), { class: "quiet inline" }) : row.episode), sort: (row) => row.episode },
    { name: "score", number: true, cell: (row) => score(row.score, 4), sort: (row) => row.score },
    { name: "ticks", number: true, cell: (row) => count(row.ticks), sort: (row) => row.ticks },
    { name: "reward", number: true, cell: (row) => score(row.reward, 3), sort: (row) => row.reward },
    { name: "seen", title: "map seen", number: true, cell: (row) => percent(row.coverage), sort: (row) => row.coverage },
    { name: "damage", number: true, cell: (row) => score(row.damage, 3), sort: (row) => row.damage },
    { name: "how", title: "how it ended", wide: true, cell: (row) => inline(row.how, 160) },
  ], { class: "stacks", sort: ["episode", true], empty: "No finished episode yet." });

  constructor() {
    this.element = h("div", {}, h("h2", {}, "All episodes"), this.#facts, h("div", { class: "cards" },
      h("section", { class: "card" }, this.#diagram.element), h("section", { class: "card" }, this.#curve.element), h("section", { class: "card" }, this.#course.element)),
    h("section", { class: "card" }, h("div", { class: "tall" }, this.#list.element)));
  }

  #drawn = "";

  update(found, onOpen) {
    this.#onOpen = onOpen;
    const said = found.reliability;
    const state = JSON.stringify([found.lives.length, found.settings, said.size]);
    if (state === this.#drawn) return;
    this.#drawn = state;
    put(this.#facts, facts([["danger threshold", score(found.settings.danger_threshold, 3)], ["exploration bonus", score(found.settings.exploration_bonus, 3)],
      ["log detail", found.settings.log_detail ?? "–"], ["notifications", found.settings.notifications ?? "–"], ["seconds between turns", score(found.settings.tick_delay, 3)], ["forecasts", count(said.size)], ["Brier skill", score(said.brier_skill, 3)], ["AUROC", score(said.auroc, 3)], ["calibration error", score(said.ece, 3)]]));
    this.#diagram.update(said.bins.map((each) => ({ foretold: each.forecast, came: each.happened, number: each.size })));
    this.#curve.update([{ name: "exploration", points: found.curve.map((each) => [each.danger, each.explored]) }]);
    this.#course.update([{ name: "score", points: found.lives.map((each) => [each.episode, each.score]) }]);
    this.#list.update(found.lives);
  }
}
