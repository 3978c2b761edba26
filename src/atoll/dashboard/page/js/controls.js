// What can be said to a run. Two-way: each field shows the value in force, also when somebody else has changed it.

import { known, ofRun, post } from "./api.js";
import { button, field, h, put, say, select } from "./dom.js";
import { score } from "./format.js";

const LIMITS = ["iterations", "evaluations", "calls", "tokens", "usd", "seconds"];
const SETTINGS = [
  { name: "danger_threshold", label: "Danger threshold", kind: "number", min: 0, max: 1, step: 0.01, hint: "0 to 1: above it the agent stops or flees" },
  { name: "exploration_bonus", label: "Exploration bonus", kind: "number", min: 0, max: 10, step: 0.05, hint: "how much the unknown is worth" },
  { name: "log_detail", label: "Log detail", kind: "choice", choices: ["quiet", "normal", "verbose"] },
  { name: "notifications", label: "Notifications", kind: "choice", choices: ["off", "alerts", "all"] },
];

export class Controls {
  #run;
  #options;
  #now = null;
  #buttons = h("div", { class: "row", role: "group", "aria-label": "Steer the run" });
  #answer = h("p", { class: "answer", role: "status" });
  #panel;
  #limits = new Map();
  #settings = new Map();

  constructor(run, options) {
    this.#run = run;
    this.#options = options;
    this.#panel = h("details", { class: "adjust" }, h("summary", {}, "Adjust"), this.#form());
    this.element = h("div", { class: "controls" }, this.#buttons, this.#panel, this.#answer);
    document.addEventListener("atoll:session", () => this.#now && this.update(this.#now));
  }

  /** Shows the values in force; a field that somebody is editing is left alone. */
  update(now) {
    this.#now = now;
    const isAlive = now.status === "running" || now.status === "paused";
    const label = now.status === "paused" ? "Resume" : "Pause";
    const kept = document.activeElement?.dataset?.action;
    put(this.#buttons,
      isAlive ? button(label, () => this.#send({ action: label.toLowerCase() }), { "data-action": "hold" }) : null,
      isAlive ? button("Stop", () => this.#stop(), { class: "danger", "data-action": "stop" }) : null);
    if (kept) this.#buttons.querySelector(`[data-action="${kept}"]`)?.focus();
    this.#panel.hidden = !isAlive;
    for (const [name, [input, shown]] of this.#limits) {
      const limit = now.budget?.[name];
      input.closest(".field").hidden = limit === null || limit === undefined;
      say(shown, `in force: ${score(limit)}`);
    }
    for (const [name, input] of this.#settings) {
      const value = now.settings?.[name];
      input.dataset.inForce = value ?? "";
      if (document.activeElement !== input) input.value = value ?? "";
    }
  }

  #form() {
    return h("div", { class: "adjust-form" },
      h("form", { "aria-label": "Raise the budget", on: { submit: (event) => this.#raise(event) } },
        h("h2", {}, "Raise the budget"),
        h("div", { class: "fields" }, LIMITS.map((name) => this.#limit(name))),
        h("button", { type: "submit" }, "Raise")),
      h("form", { "aria-label": "Settings", on: { submit: (event) => this.#set(event) } },
        h("h2", {}, "Settings"),
        h("div", { class: "fields" }, SETTINGS.map((each) => this.#setting(each))),
        h("button", { type: "submit" }, "Apply")));
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
      : select([["", "as set up"], ...choices.map((each) => [each, each])], "", () => {}, { name });
    this.#settings.set(name, input);
    return field(label, input, hint);
  }

  #raise(event) {
    event.preventDefault();
    const limits = {};
    for (const [name, [input]] of this.#limits) if (input.value !== "") limits[name] = Number(input.value);
    if (!Object.keys(limits).length) { this.#say("Give a higher limit first.", true); return; }
    this.#send({ action: "budget", ...{ limits } }).then((isDone) => {
      if (isDone) for (const [input] of this.#limits.values()) input.value = "";
    });
  }

  #set(event) {
    event.preventDefault();
    const values = {};
    for (const [name, input] of this.#settings) {
      if (input.value !== "" && input.value !== input.dataset.inForce) values[name] = input.type === "number" ? Number(input.value) : input.value;
    }
    if (!Object.keys(values).length) { this.#say("Nothing differs from what is in force.", true); return; }
    this.#send({ action: "set", values });
  }

  #stop() {
    if (window.confirm(`Stop run ${this.#run}? 'atoll resume' goes on with it later.`)) this.#send({ action: "stop" });
  }

  async #send(body) {
    if (!known().can_change) {
      this.#say("Steering needs the token.", true);
      document.dispatchEvent(new CustomEvent("atoll:token"));
      return false;
    }
    this.#say("Sending …");
    try {
      const reply = await post(ofRun(this.#run, "control"), body);
      this.#say(reply?.message ?? `${body.action}: asked for; in force with the next step.`);
      this.#options.refresh();
      return true;
    } catch (error) {
      this.#say(`Refused: ${error.message}`, true);
      return false;
    }
  }

  #say(text, isProblem = false) {
    this.#answer.classList.toggle("problem", isProblem);
    say(this.#answer, text);
  }
}
