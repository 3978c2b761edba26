// Side panel with one candidate. Charts, trees, maps and tables open it; j and k go to the next and the previous one of
// the list it was opened from, Escape closes it.

import { get, getText, ofRun } from "./api.js";
import { button, h, put, say } from "./dom.js";
import { link } from "./route.js";
import { detail } from "./views/candidate_detail.js";

let open = null; // {run, id, ids, before, ended}
const title = h("h2", { id: "panel-title", tabindex: "-1" });
const body = h("div", { class: "panel-body" });
const where = h("span", { class: "soft", role: "status" });
const whole = h("a", { class: "panel-link" }, "Open as a page");
const next = button("↓ Next (j)", () => step(1), { class: "quiet" });
const previous = button("↑ Previous (k)", () => step(-1), { class: "quiet" });
const element = h("div", { class: "panel", role: "dialog", "aria-labelledby": "panel-title", hidden: true },
  h("div", { class: "panel-head" }, title, where, h("span", { class: "spring" }), previous, next, whole, button("Close", () => close(), { class: "quiet", "aria-label": "Close the panel" })), body);
document.body.append(element);

/**
 * Opens a candidate of a run in the panel.
 *
 * ids: the list to go through with j and k. The address gets `?candidate=ID`, so that it can be shared.
 */
export function openPanel(run, id, ids = []) {
  const before = open?.before ?? document.activeElement;
  open?.ended.abort();
  open = { run, id, ids: ids.includes(id) ? ids : [id, ...ids], before, ended: new AbortController() };
  element.hidden = false;
  document.body.classList.add("has-panel");
  show(open);
  remember(id);
}

/** Closes the panel and returns the focus. */
export function close(isLeaving = false) {
  if (!open) return;
  const { before } = open;
  open.ended.abort();
  open = null;
  element.hidden = true;
  document.body.classList.remove("has-panel");
  put(body);
  if (!isLeaving) { remember(null); before?.focus?.({ preventScroll: true }); }
}

function remember(id) {
  const [path, query] = location.hash.split("?", 2);
  const params = new URLSearchParams(query ?? "");
  if (id === null) params.delete("candidate");
  else params.set("candidate", id);
  const text = params.toString();
  history.replaceState(null, "", `${path || "#/"}${text ? `?${text}` : ""}`);
}

function step(way) {
  if (!open) return;
  const id = open.ids[open.ids.indexOf(open.id) + way];
  if (id !== undefined) openPanel(open.run, id, open.ids);
}

async function show(now) {
  const place = now.ids.indexOf(now.id);
  put(title, `Candidate ${now.id}`);
  say(where, now.ids.length > 1 ? `${place + 1} of ${now.ids.length}` : "");
  previous.disabled = place <= 0;
  next.disabled = place >= now.ids.length - 1;
  whole.href = link("candidate", { run: now.run, more: [now.id] });
  title.focus({ preventScroll: true });
  const { signal } = now.ended;
  const context = {
    run: now.run,
    signal,
    get: (path, query) => get(path, { query, signal }),
    getText: (path, query) => getText(path, { query, signal }),
    ofRun: (...parts) => ofRun(now.run, ...parts),
    link: (view, options = {}) => link(view, { run: now.run, ...options }),
    open: (id) => openPanel(now.run, id, now.ids),
  };
  if (!body.hasChildNodes()) put(body, h("p", { class: "empty" }, "Loading …"));
  try {
    const found = await get(ofRun(now.run, "candidates", now.id), { signal });
    if (open !== now) return;
    put(title, `Candidate ${found.id}`);
    put(body, detail(found, context));
    element.scrollTop = 0;
  } catch (error) {
    if (error.name !== "AbortError" && open === now) put(body, h("p", { class: "problem", role: "alert" }, error.message));
  }
}

document.addEventListener("keydown", (event) => {
  if (!open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, dialog")) return;
  const inside = element.contains(document.activeElement);
  const act = { Escape: () => close(), j: () => step(1), k: () => step(-1), ...(inside && document.activeElement === title ? { ArrowDown: () => step(1), ArrowUp: () => step(-1) } : {}) }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
