// Requests to the server. URLs are relative to this module, so that a proxy may add a prefix.

const BASE = new URL("../../../", import.meta.url);

/** An error response of the server, with its message. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.name = "Refused";
    this.status = status;
  }
}

let session = { version: "", store: "", can_change: false };

/** The session: the store, and whether this browser may make changes. */
export function known() {
  return session;
}

/** Loads the session. */
export async function enter() {
  session = await get("api/session");
  document.dispatchEvent(new CustomEvent("atoll:session"));
  return session;
}

/** Sends the token to the server, which sets a cookie that scripts cannot read. The page does not store the token. */
export async function login(token) {
  const reply = await fetch(address("", { token }), { cache: "no-store" });
  if (!reply.ok) throw new Refused(complaint(reply.status, await read(reply)), reply.status);
  return enter();
}

/** Returns the URL of a path with a query; null and empty values are omitted. */
export function address(path, query) {
  const url = new URL(path.replace(/^\//, ""), BASE);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== null && value !== undefined && value !== "" && value !== false) url.searchParams.set(name, String(value));
  }
  return url;
}

async function ask(method, path, { query, body, signal, isText } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const url = address(path, query);
  let reply;
  try {
    reply = await (method === "GET" && early(url.href)) || await fetch(url, {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not respond. Check that 'atoll dashboard' is running.", 0);
  }
  const data = isText && reply.ok ? await reply.text() : await read(reply);
  if (!reply.ok) throw new Refused(complaint(reply.status, data), reply.status);
  return data;
}

/** Returns the response to a request that js/early.js has sent, once. */
function early(url) {
  const reply = globalThis.atollEarly?.get(url);
  globalThis.atollEarly?.delete(url);
  return reply;
}

async function read(reply) {
  const text = await reply.text();
  try { return JSON.parse(text); } catch { return text; }
}

function complaint(status, data) {
  const said = data?.detail ?? data?.error ?? data?.message ?? data;
  const words = Array.isArray(said) ? said.map((each) => each?.msg ?? String(each)).join("; ") : said;
  if (typeof words === "string" && words) return words.slice(0, 600);
  return `The server returned status ${status}.`;
}

export function get(path, options) {
  return ask("GET", path, options);
}

/** Loads untrusted text unchanged. */
export function getText(path, options) {
  return ask("GET", path, { ...options, isText: true });
}

export function post(path, body, options) {
  return ask("POST", path, { ...options, body });
}

/** Returns an API path of a run: `ofRun("r1", "curve")`. */
export function ofRun(run, ...parts) {
  return ["api", "runs", run, ...parts].map((each, place) => (place < 2 ? each : encodeURIComponent(each))).join("/");
}
