// Header of a run: name, status, totals and controls.

import { get, ofRun } from "./api.js";
import { ALIVE, Controls } from "./controls.js";
import { h, put } from "./dom.js";
import { ago, cost, count, duration, leaf, percent, score } from "./format.js";
import { inline } from "./text.js";
import { watch } from "./watch.js";

const EVERY = 5000; // milliseconds; also notices resumed runs
const COUNTING = 1000; // while the server still reads a long journal
const AFTER_END = 1500;

/** A badge with the status of a run. */
export function badge(status) {
  return h("span", { class: "badge", "data-status": status }, status ?? "unknown");
}

export class RunHeader {
  #ended = new AbortController();
  #line = h("div", { class: "run-line" });
  #problem = h("div", {});
  #options;

  constructor(run, options) {
    this.run = run;
    this.summary = null;
    this.#options = options;
    this.controls = new Controls(run, { signal: this.#ended.signal, refresh: () => this.#refresh() });
    this.element = h("header", { class: "run-header", "aria-label": `Run ${run}` }, h("div", {}, this.#line, this.#problem), this.controls.element);
    const context = { signal: this.#ended.signal, onEvent: (listener) => options.live.listen(listener) };
    const load = () => get(ofRun(run), { query: { islands: "false" }, signal: this.#ended.signal });
    this.#refresh = watch(context, load, (data) => this.#draw(data), this.#problem, { every: (data) => (data.is_counted ? EVERY : COUNTING) });
    // The last record comes before the process ends, so the status is read again a moment later.
    options.live.listen((event) => event.kind === "ended" && setTimeout(() => this.#refresh(), AFTER_END));
  }

  #refresh = () => {};

  close() {
    this.#ended.abort();
  }

  #draw(data) {
    const isFirst = this.summary === null;
    this.summary = { ...data, ...data.used, id: data.id ?? this.run, asked: this.run };
    const now = this.summary;
    put(this.#line,
      h("p", { class: "run-name" }, badge(now.status), now.label?.name ? h("strong", { class: "named" }, inline(now.label.name, 80)) : null, h("strong", {}, inline(now.id, 60)),
        h("span", { class: "soft" }, inline([now.system, leaf(now.task)].filter(Boolean).join(" · "), 70)),
        now.reason ? h("span", { class: "soft reason" }, inline(now.reason, 160)) : null),
      h("p", { class: "run-facts" }, ...headline(now)));
    this.controls.update(now);
    this.#options.live.want(ALIVE.has(now.status), now.events);
    if (isFirst) this.#options.onSummary?.();
    document.dispatchEvent(new CustomEvent("atoll:summary", { detail: now }));
  }
}

function headline(now) {
  const fact = (label, value, title) => h("span", { class: "fact", title }, h("span", { class: "soft" }, label), " ", h("b", {}, value));
  return [
    fact(now.system === "mind" ? "best fitness" : "best", score(now.best_score), `initial score ${score(now.initial_score)}`),
    fact("evaluations", count(now.evaluations)),
    now.is_counted ? fact("failures", count(now.failures)) : null,
    now.is_counted ? null : fact("journal read", percent(now.counted), "The server is still counting failures, calls and cost."),
    now.calls && now.is_counted ? fact("calls", count(now.calls)) : null,
    now.calls && now.is_counted ? fact("cost", cost(now)) : null,
    Number.isFinite(now.eta_seconds) ? fact("left", duration(now.eta_seconds)) : null,
    fact("started", ago(now.began)),
  ].filter(Boolean);
}
