// Commands to a run. Each field shows the current value, also after changes by others.

import { get, known, ofRun, post } from "./api.js";
import { button, field, h, put, say, select } from "./dom.js";
import { moment, score } from "./format.js";
import { table } from "./table.js";
import { inline } from "./text.js";

export const ALIVE = new Set(["running", "paused"]); // statuses of runs with a live process
const LIMITS = ["iterations", "evaluations", "calls", "tokens", "usd", "seconds"];
const SETTINGS = [
  { name: "danger_threshold", label: "Danger threshold", kind: "number", min: 0, max: 1, step: "any", hint: "0 to 1; actions with a higher risk of damage are not taken" },
  { name: "exploration_bonus", label: "Exploration bonus", kind: "number", min: 0, max: 10, step: "any", hint: "0 to 10; multiplies the reward for exploration" },
  { name: "log_detail", label: "Log detail", kind: "choice", choices: ["quiet", "normal", "verbose"] },
  { name: "notifications", label: "Notifications", kind: "choice", choices: ["off", "alerts", "all"] },
  { name: "tick_delay", label: "Seconds between turns", kind: "number", min: 0, max: 3600, step: "any", hint: "0 to 3600; slows the run down for watching" },
];

export class Controls {
  #run;
  #options;
  #now = null;
  #buttons = h("div", { class: "row", role: "group", "aria-label": "Control the run" });
  #answer = h("p", { class: "answer", role: "status" });
  #limits = new Map();
  #settings = new Map();
  #key = h("input", { name: "key", autocomplete: "off", spellcheck: "false" });
  #value = h("input", { name: "value", autocomplete: "off", spellcheck: "false" });
  #log = h("div", {});
  #unlimited = h("p", { class: "empty" }, "The run has no limits.");
  #panel;

  constructor(run, options) {
    this.#run = run;
    this.#options = options;
    this.#panel = h("details", { class: "adjust", on: { toggle: () => this.#panel.open && this.#tellLog() } }, h("summary", {}, "Adjust"), this.#forms());
    this.element = h("div", { class: "controls" }, this.#buttons, this.#panel, this.#answer);
    document.addEventListener("atoll:session", () => this.#now && this.update(this.#now), { signal: options.signal });
  }

  /** Shows the current values; fields that are being edited stay unchanged. */
  update(now) {
    this.#now = now;
    const isAlive = ALIVE.has(now.status);
    this.#updateButtons(isAlive ? (now.status === "paused" ? "Resume" : "Pause") : null);
    this.#panel.hidden = !isAlive;
    let num = 0;
    for (const [name, [input, shown]] of this.#limits) {
      const limit = now.budget?.[name];
      const isSet = limit !== null && limit !== undefined;
      input.closest(".field").hidden = !isSet;
      num += isSet;
      say(shown, `current: ${score(limit)}`);
    }
    this.#unlimited.hidden = num > 0;
    const own = now.config?.[now.system] ?? {};
    for (const [name, input] of this.#settings) {
      input.closest(".field").hidden = !(name in own) && !(name in (now.settings ?? {}));
      this.#fill(input, now.settings?.[name] ?? own[name]);
    }
  }

  #updateButtons(label) {
    if (this.#buttons.dataset.label === String(label)) return; // keeps the focus
    this.#buttons.dataset.label = String(label);
    const hadFocus = this.#buttons.contains(document.activeElement);
    put(this.#buttons,
      label ? button(label, () => this.#send({ action: label.toLowerCase() })) : null,
      label ? button("Stop", () => this.#stop(), { class: "danger" }) : null);
    if (hadFocus) this.#buttons.querySelector("button")?.focus();
  }

  /** Writes the current value into a field, unless the user has changed it. */
  #fill(input, value) {
    const shown = value === null || value === undefined ? "" : String(value);
    const isOurs = input.dataset.inForce === undefined || input.value === input.dataset.inForce;
    if (isOurs && document.activeElement !== input) input.value = shown;
    input.dataset.inForce = shown;
  }

  #forms() {
    return h("div", { class: "adjust-form" },
      h("form", { "aria-label": "Raise the budget", on: { submit: (event) => this.#raise(event) } },
        h("h2", {}, "Raise the budget"), this.#unlimited,
        h("div", { class: "fields" }, LIMITS.map((name) => this.#limit(name))),
        h("button", { type: "submit" }, "Raise")),
      h("form", { "aria-label": "Settings", on: { submit: (event) => this.#set(event) } },
        h("h2", {}, "Settings"),
        h("div", { class: "fields" }, SETTINGS.map((each) => this.#setting(each)), field("Another setting", this.#key, "a setting of the system"), field("New value", this.#value)),
        h("button", { type: "submit" }, "Apply")),
      this.#log);
  }

  #limit(name) {
    const input = h("input", { type: "number", min: 0, step: "any", inputmode: "decimal", name });
    const made = field(name, input, " ");
    this.#limits.set(name, [input, made.querySelector(".hint")]);
    return made;
  }

  #setting({ name, label, kind, choices, hint, ...limits }) {
    const input = kind === "number"
      ? h("input", { type: "number", inputmode: "decimal", name, ...limits })
      : select(choices.map((each) => [each, each]), "", () => {}, { name });
    this.#settings.set(name, input);
    return field(label, input, hint);
  }

  async #raise(event) {
    event.preventDefault();
    const limits = {};
    for (const [name, [input]] of this.#limits) if (input.value !== "") limits[name] = Number(input.value);
    if (!Object.keys(limits).length) { this.#say("Enter a higher limit.", true); return; }
    const low = Object.keys(limits).filter((name) => limits[name] <= (this.#now?.budget?.[name] ?? -Infinity));
    if (low.length) { this.#say(`Limits can only be raised. Now ${low.map((name) => `${name} is ${score(this.#now.budget[name])}`).join(", ")}. Use Stop to end the run earlier.`, true); return; }
    const isDone = await this.#send({ action: "budget", limits });
    if (isDone) for (const [input] of this.#limits.values()) input.value = "";
  }

  async #set(event) {
    event.preventDefault();
    const values = {};
    for (const [name, input] of this.#settings) {
      const isHere = !input.closest(".field").hidden;
      if (isHere && input.value !== "" && input.value !== input.dataset.inForce) values[name] = input.type === "number" ? Number(input.value) : input.value;
    }
    if (this.#key.value.trim()) values[this.#key.value.trim()] = read(this.#value.value);
    if (!Object.keys(values).length) { this.#say("No setting was changed.", true); return; }
    if (!(await this.#send({ action: "set", values }))) return;
    this.#key.value = this.#value.value = "";
    for (const [name, input] of this.#settings) if (name in values) input.dataset.inForce = input.value; // updates it again from now on
  }

  #stop() {
    if (window.confirm(`Stop run ${this.#run}? 'atoll resume' can continue it later.`)) this.#send({ action: "stop" });
  }

  async #send(body) {
    if (!known().can_change) {
      this.#say("Changes need the token.", true);
      document.dispatchEvent(new CustomEvent("atoll:token"));
      return false;
    }
    this.#say("Sending …");
    try {
      const reply = await post(ofRun(this.#run, "control"), body);
      this.#say(reply.message);
      this.#options.refresh();
      if (this.#panel.open) this.#tellLog();
      return true;
    } catch (error) {
      this.#say(`Rejected: ${error.message}`, true);
      return false;
    }
  }

  /** Shows the commands to the run and their authors. */
  async #tellLog() {
    try {
      const { orders } = await get(ofRun(this.#run, "control"), { query: { limit: 20 }, signal: this.#options.signal });
      const list = table("Commands to this run", [
        { name: "time", cell: (each) => moment(each.at) },
        { name: "author", cell: (each) => inline(each.by, 40) },
        { name: "command", wrap: true, cell: (each) => inline(each.reason, 160) },
      ]);
      list.update(orders);
      put(this.#log, orders.length ? [h("h2", {}, "Commands so far"), list.element] : null);
    } catch (error) {
      if (error.name !== "AbortError") put(this.#log);
    }
  }

  #say(text, isProblem = false) {
    this.#answer.classList.toggle("problem", isProblem);
    say(this.#answer, text);
  }
}

/** Parses a typed value as JSON, else as text. */
function read(text) {
  try { return JSON.parse(text); } catch { return text; }
}
