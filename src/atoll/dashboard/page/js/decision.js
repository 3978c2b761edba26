// Form for a decision with name and reason. The browser remembers the name.

import { known } from "./api.js";
import { button, field, h, say } from "./dom.js";

const NAME = "atoll-name";
const MOST = 2000; // characters of a reason

/** Returns the name used last in this browser. */
function signature() {
  try { return localStorage.getItem(NAME) ?? ""; } catch { return ""; }
}

function remember(name) {
  try { localStorage.setItem(NAME, name); } catch { /* a browser that keeps nothing asks again */ }
}

/**
 * A form for a decision with a required reason.
 *
 * label: what is decided, for screen readers; actions: [{label, kind?, confirm?, run({by, reason}) -> promise of what to
 * say}]; done(): called after a change. Without the token the page asks for it and sends nothing.
 */
export function decision(label, actions, done = () => {}) {
  const name = h("input", { type: "text", value: signature(), maxlength: 200, autocomplete: "name", spellcheck: "false" });
  const reason = h("textarea", { rows: 2, maxlength: MOST });
  const answer = h("p", { class: "answer", role: "status" });
  const buttons = actions.map((each) => button(each.label, () => act(each), { class: each.kind ?? "" }));
  const tell = (text, isProblem = false) => {
    answer.classList.toggle("problem", isProblem);
    say(answer, text);
  };

  async function act(chosen) {
    if (!known().can_change) {
      tell("Changes need the token.", true);
      document.dispatchEvent(new CustomEvent("atoll:token"));
      return;
    }
    if (!name.value.trim()) { tell("Enter your name.", true); name.focus(); return; }
    if (!reason.value.trim()) { tell("Enter a reason.", true); reason.focus(); return; }
    if (chosen.confirm && !window.confirm(chosen.confirm)) return;
    remember(name.value.trim());
    buttons.forEach((each) => { each.disabled = true; });
    tell("Sending …");
    try {
      const said = await chosen.run({ by: name.value.trim(), reason: reason.value.trim() });
      reason.value = "";
      tell(said ?? `${chosen.label}: done.`);
      done();
    } catch (error) {
      tell(`Refused: ${error.message}`, true);
    }
    buttons.forEach((each) => { each.disabled = false; });
  }

  return h("form", { class: "decision", "aria-label": label, on: { submit: (event) => event.preventDefault() } },
    h("div", { class: "fields" }, field("Your name", name), h("div", { class: "grow" }, field("Reason (required)", reason))),
    h("div", { class: "row" }, buttons), answer);
}

/** A button for a change without name and reason, such as a merge of an approved worldline. */
export function act(label, run, done, props = {}) {
  const answer = h("span", { class: "answer", role: "status" });
  const made = button(label, async () => {
    if (!known().can_change) {
      say(answer, "Changes need the token.");
      document.dispatchEvent(new CustomEvent("atoll:token"));
      return;
    }
    made.disabled = true;
    say(answer, "Sending …");
    try {
      say(answer, (await run()) ?? "Done.");
      done();
    } catch (error) {
      answer.classList.add("problem");
      say(answer, `Refused: ${error.message}`);
    }
    made.disabled = false;
  }, props);
  return h("div", { class: "row" }, made, answer);
}
