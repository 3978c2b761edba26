// The shell: top bar, list of views, header of the run, and one view at a time.

import * as api from "./api.js";
import { RunHeader } from "./header.js";
import { h, put, say } from "./dom.js";
import { Live } from "./live.js";
import { link, parse } from "./route.js";
import { close as closePanel, openPanel } from "./panel.js";
import { topBar } from "./topbar.js";
import { VIEWS } from "./views.js";

const nav = document.getElementById("nav");
const main = document.getElementById("main");
const said = document.getElementById("said");

let here = null; // {run, view, more, query}
let mounted = null; // AbortController that ends the current view
let runPart = null; // {run, header, live} of the run in view

/** Shows a message, also to screen readers. */
function announce(text) {
  say(said, "");
  say(said, text);
}

const bar = topBar(document.getElementById("top"), {
  onMenu: (isOpen) => nav.classList.toggle("open", isOpen),
});

function renderNav() {
  const inRun = VIEWS.filter((view) => view.scope === "run" && (view.shows?.(runPart?.header.summary) ?? true));
  const inStore = VIEWS.filter((view) => view.scope === "store");
  const item = (view, run) => {
    const isHere = here.view === view;
    return h("li", {}, h("a", { href: link(view.path, { run }), "aria-current": isHere ? "page" : null }, view.title));
  };
  put(nav, h("ul", {}, inStore.map((view) => item(view, null))),
    here.run === null ? null : [h("p", { class: "nav-title" }, "This run"), h("ul", {}, inRun.map((view) => item(view, here.run)))]);
}

function enterRun(run) {
  if (runPart?.run === run) return;
  runPart?.live?.close();
  runPart?.header.close();
  runPart = null;
  if (run === null) { bar.state("off"); return; }
  const live = new Live(run, (state) => bar.state(state));
  const header = new RunHeader(run, { live, announce, onSummary: renderNav });
  runPart = { run, header, live };
}

function show() {
  const next = parse(location.hash);
  const isFirst = here === null;
  here = next;
  mounted?.abort();
  closePanel(true);
  enterRun(next.run);
  renderNav();
  bar.close();
  document.title = [next.view.title, next.run, "Atoll"].filter(Boolean).join(" · ");
  const root = h("section", { class: `view view-${next.view.path}`, "aria-labelledby": "view-title" });
  put(main, runPart?.header.element ?? null, root);
  mounted = mount(next, root);
  if (next.run !== null && next.query.get("candidate")) openPanel(next.run, next.query.get("candidate"));
  if (!isFirst) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

/** Opens a view with its context. */
function mount(place, root) {
  const ended = new AbortController();
  const context = {
    run: place.run,
    more: place.more,
    query: place.query,
    signal: ended.signal,
    announce,
    summary: () => runPart?.header.summary ?? null,
    get: (path, query) => api.get(path, { query, signal: ended.signal }),
    getText: (path, query) => api.getText(path, { query, signal: ended.signal }),
    ofRun: (...parts) => api.ofRun(place.run, ...parts),
    post: (path, body) => api.post(path, body),
    link: (view, options = {}) => link(view, { run: place.run, ...options }),
    go: (address) => { location.hash = address; },
    setQuery: (query) => history.replaceState(null, "", link(place.view.path, { run: place.run, more: place.more, query })),
    /** Opens a candidate in the side panel; `ids` is the list that j and k go through. */
    open: (id, ids) => openPanel(place.run, id, ids),
    onEvent(listener) {
      const end = runPart?.live?.listen(listener);
      if (end) ended.signal.addEventListener("abort", end);
    },
  };
  root.append(h("h1", { id: "view-title" }, place.view.title));
  const waiting = h("p", { class: "empty" }, "Loading …");
  root.append(waiting);
  place.view.load().then((module) => {
    waiting.remove();
    if (!ended.signal.aborted) module.default.mount(root, context);
  }, () => put(waiting, "Cannot load this view. Check that 'atoll dashboard' is running, and reload the page."));
  return ended;
}

window.addEventListener("hashchange", show);
api.enter().catch((error) => announce(error.message));
show();
