// Keeps the data of a view up to date: loads at once, and again after new records.

import { Refused } from "./api.js";
import { button, h, put } from "./dom.js";

const SOON_MS = 60; // from a new record to the request; records of one commit arrive together
const LEAST_MS = 400; // between two requests
const SHARE = 3; // slow requests are repeated less often

/**
 * Loads and draws, and repeats it after new records.
 *
 * context: the view's; load(): a promise of data; draw(data): shows it; problem: element for errors.
 * options.every: milliseconds after which it loads again in any case, or a function of the data; options.follow(): false to ignore new records.
 * Returns refresh().
 */
export function watch(context, load, draw, problem, options = {}) {
  let running = false;
  let again = false;
  let timer = null;
  let due = Infinity;
  let took = 0;
  let ended = -Infinity;
  let every = null;

  async function refresh() {
    clearTimeout(timer);
    timer = null;
    due = Infinity;
    if (context.signal.aborted) return;
    if (running) { again = true; return; }
    running = true;
    const start = performance.now();
    try {
      const data = await load();
      every = typeof options.every === "function" ? options.every(data) : options.every;
      if (!context.signal.aborted) { put(problem); draw(data); }
    } catch (error) {
      if (error.name !== "AbortError" && !context.signal.aborted) told(error);
    }
    ended = performance.now();
    took = ended - start;
    running = false;
    if (again) { again = false; soon(); }
    else if (every) plan(every);
  }

  function told(error) {
    if (!(error instanceof Refused)) console.error(error);
    put(problem, h("p", { class: "problem", role: "alert" }, `${error.message} `, button("Try again", refresh, { class: "quiet" })));
  }

  /** Plans the next request; an earlier one replaces a later one. */
  function plan(wait) {
    const at = performance.now() + wait;
    if (at >= due) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(refresh, wait);
  }

  function soon() {
    if (running) { again = true; return; }
    plan(Math.max(SOON_MS, ended + Math.max(LEAST_MS, SHARE * took) - performance.now()));
  }

  context.onEvent?.(() => (options.follow?.() ?? true) && soon());
  context.signal.addEventListener("abort", () => clearTimeout(timer));
  refresh();
  return refresh;
}
