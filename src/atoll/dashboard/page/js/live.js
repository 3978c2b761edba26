// New records of a run through one EventSource, which reconnects and continues by itself. If it fails, the page
// polls every few seconds.

import { address, get } from "./api.js";

const POLL_MS = 3000;
const MOST_FAULTS = 3; // failures in a row before the page polls
const RETRY_MS = 30000; // until the next attempt to use the stream
const HIDDEN_MS = 15000; // hidden time until the stream is closed; a browser has six connections per server

/** The stream of one run; `onState` receives "live", "polling", "waiting" or "off". */
export class Live {
  #run;
  #source = null;
  #timer = null;
  #hidden = null;
  #faults = 0;
  #last = null; // sequence number of the newest record received
  #isWanted = false;
  #pollingSince = 0;
  #listeners = new Set();
  #onState;

  constructor(run, onState) {
    this.#run = run;
    this.#onState = onState;
    document.addEventListener("visibilitychange", this.#look);
  }

  /** Calls `listener(event)` for each new record; returns a function that ends this. */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Starts the stream after a record, or ends it; ended runs have no new records. */
  want(isWanted, end) {
    if (isWanted === this.#isWanted) return;
    this.#isWanted = isWanted;
    this.#last ??= end;
    if (isWanted) this.#open();
    else this.#stop();
  }

  close() {
    document.removeEventListener("visibilitychange", this.#look);
    clearTimeout(this.#hidden);
    this.#stop();
    this.#onState = () => {};
  }

  #look = () => {
    clearTimeout(this.#hidden);
    if (!this.#isWanted) return;
    if (document.hidden) this.#hidden = setTimeout(() => this.#stop(), HIDDEN_MS);
    else if (!this.#source && !this.#timer) this.#open();
  };

  #stop() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#onState("off");
  }

  #open() {
    this.#timer = null;
    this.#onState("waiting");
    const source = new EventSource(address("sse/timeline", { run: this.#run, after: this.#last }));
    source.onopen = () => { this.#faults = 0; this.#onState("live"); };
    source.onerror = () => this.#fault(source);
    source.onmessage = (message) => this.#hear(JSON.parse(message.data));
    this.#source = source;
  }

  #hear(event) {
    if (this.#last !== null && event.seq <= this.#last) return;
    this.#last = event.seq;
    for (const listener of [...this.#listeners]) listener(event);
  }

  #fault(source) {
    if (source !== this.#source) return;
    this.#faults += 1;
    this.#onState("waiting");
    if (source.readyState !== EventSource.CLOSED && this.#faults < MOST_FAULTS) return; // it reconnects by itself
    source.close();
    this.#source = null;
    this.#pollingSince = Date.now();
    this.#poll();
  }

  async #poll() {
    try {
      const found = await get("events", { query: { run: this.#run, limit: 200 } });
      this.#onState("polling");
      for (const event of found.events.reverse()) this.#hear(event);
    } catch {
      this.#onState("waiting");
    }
    if (!this.#isWanted) return;
    const isTime = Date.now() - this.#pollingSince > RETRY_MS;
    if (isTime) this.#faults = 0;
    this.#timer = setTimeout(() => (isTime ? this.#open() : this.#poll()), POLL_MS);
  }
}
