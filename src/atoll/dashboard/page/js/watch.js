// Keeps the data of a view up to date: loads at once, and again after new records.

import { Refused } from "./api.js";
import { button, h, put } from "./dom.js";

const LEAST_MS = 1000; // between two requests
const SHARE = 4; // slow requests are repeated less often

/**
 * Loads and draws, and repeats it after new records.
 *
 * context: the view's; load(): a promise of data; draw(data): shows it; problem: element for errors.
 * options.every: milliseconds after which it loads again in any case. Returns refresh().
 */
export function watch(context, load, draw, problem, options = {}) {
  let running = false;
  let again = false;
  let timer = null;
  let took = 0;

  async function refresh() {
    clearTimeout(timer);
    timer = null;
    if (context.signal.aborted) return;
    if (running) { again = true; return; }
    running = true;
    const start = performance.now();
    try {
      const data = await load();
      if (!context.signal.aborted) { put(problem); draw(data); }
    } catch (error) {
      if (error.name !== "AbortError" && !context.signal.aborted) told(error);
    }
    took = performance.now() - start;
    running = false;
    if (again) { again = false; soon(); }
    else if (options.every) soon(options.every);
  }

  function told(error) {
    if (!(error instanceof Refused)) console.error(error);
    put(problem, h("p", { class: "problem", role: "alert" }, `${error.message} `, button("Try again", refresh, { class: "quiet" })));
  }

  function soon(wait = Math.max(LEAST_MS, SHARE * took)) {
    if (timer === null) timer = setTimeout(refresh, wait);
  }

  context.onEvent?.(() => (options.follow?.() ?? true) && soon());
  context.signal.addEventListener("abort", () => clearTimeout(timer));
  refresh();
  return refresh;
}
