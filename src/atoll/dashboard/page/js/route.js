// Addresses: `#/runs`, `#/runs/RUN/VIEW/MORE?query` for views of a run, `#/VIEW/MORE` for those of the store.

import { VIEWS } from "./views.js";

const HOME = "runs";

/** Parses the address after `#`. */
export function parse(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const params = new URLSearchParams(query ?? "");
  if (parts[0] === "runs" && parts.length > 1) {
    const view = find(parts[2] ?? "overview", "run");
    return { run: parts[1], view: view ?? find("overview", "run"), more: parts.slice(3), query: params };
  }
  return { run: null, view: find(parts[0] ?? HOME, "store") ?? find(HOME, "store"), more: parts.slice(1), query: params };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

function find(path, scope) {
  return VIEWS.find((view) => view.path === path && view.scope === scope);
}

/** Returns the address of a view. */
export function link(view, { run = null, more = [], query = {} } = {}) {
  const parts = [...(run === null ? [] : ["runs", run]), view, ...more].map((each) => encodeURIComponent(each));
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const params = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return `#/${parts.join("/")}${params ? `?${params}` : ""}`;
}
