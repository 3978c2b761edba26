// What is new in a run, as it happens: one EventSource, which reconnects by itself and goes on where it was; where
// that fails the page asks every few seconds instead.

import { address, get } from "./api.js";

const POLL_MS = 3000;
const MOST_FAULTS = 3; // in a row, before the page turns to asking
const RETRY_MS = 30000; // after which it tries the stream again

/** The stream of one run; `listeners` get each event, `onState` "live", "polling", "waiting" or "off". */
export class Live {
  #run;
  #source = null;
  #timer = null;
  #faults = 0;
  #last = null;
  #listeners = new Set();
  #onState;
  #startedPolling = 0;

  constructor(run, onState) {
    this.#run = run;
    this.#onState = onState;
    this.#open();
  }

  /** Calls `listener(event)` for each new event; returns how to end that. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#timer);
    this.#onState("off");
    this.#onState = () => {};
  }

  #open() {
    this.#onState("waiting");
    // From now on: what was before is asked for by the views. `after` holds where a stream of ours has been.
    const query = { run: this.#run, after: this.#last ?? "now" };
    this.#source = new EventSource(address("sse/timeline", query));
    this.#source.onopen = () => { this.#faults = 0; this.#onState("live"); };
    this.#source.onerror = () => this.#fault();
    for (const kind of ["message", "record", "timeline"]) this.#source.addEventListener(kind, (each) => this.#hear(each));
  }

  #hear(message) {
    if (message.lastEventId) this.#last = message.lastEventId;
    let event;
    try { event = JSON.parse(message.data); } catch { return; }
    this.#tell(event);
  }

  #tell(event) {
    for (const listener of [...this.#listeners]) listener(event);
  }

  #fault() {
    this.#faults += 1;
    const isOver = this.#source?.readyState === EventSource.CLOSED;
    this.#onState("waiting");
    if (!isOver && this.#faults < MOST_FAULTS) return; // it reconnects by itself, with Last-Event-ID
    this.#source?.close();
    this.#source = null;
    this.#startedPolling = Date.now();
    this.#poll();
  }

  async #poll() {
    try {
      const found = await get("events", { query: { run: this.#run, after: this.#last ?? "now", limit: 200 } });
      this.#onState("polling");
      for (const event of found.events ?? []) {
        this.#last = event.id ?? event.seq ?? this.#last;
        this.#tell(event);
      }
    } catch {
      this.#onState("waiting");
    }
    if (Date.now() - this.#startedPolling > RETRY_MS) { this.#faults = 0; this.#open(); return; }
    this.#timer = setTimeout(() => this.#poll(), POLL_MS);
  }
}
