// Formats of numbers, times and amounts.

const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const NONE = "–";

export function count(value) {
  return Number.isFinite(value) ? integers.format(value) : NONE;
}

/** A score: six significant digits, as the command line prints it. */
export function score(value, digits = 6) {
  if (value === null || value === undefined || Number.isNaN(value)) return NONE;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return signed(value.toExponential(Math.min(4, digits - 1)));
  return signed(String(Number(value.toPrecision(digits))));
}

/** A short score for the axis of a chart. */
export function brief(value) {
  if (!Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1e15 || (size !== 0 && size < 1e-3)) return signed(value.toExponential(1).replace(/\.0e/, "e"));
  for (const [unit, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit * (unit === 1e3 ? 10 : 1)) return signed(`${Number((value / unit).toPrecision(3))}${letter}`);
  }
  return signed(String(Number(value.toPrecision(4))));
}

function signed(text) {
  return text.replace(/^-/, "−");
}

export function usd(value) {
  if (!Number.isFinite(value)) return NONE;
  if (value === 0) return "$0";
  return value < 0.01 ? `$${value.toPrecision(2)}` : `$${value.toFixed(value < 10 ? 3 : 2)}`;
}

/** The cost of LLM calls; without a known price it is unknown, not zero. */
export function cost(row) {
  if (row.cost_usd > 0) return usd(row.cost_usd);
  return row.calls > 0 && row.tokens > 0 ? "unknown" : row.calls > 0 ? "$0" : NONE;
}

export function percent(value, digits = 0) {
  return Number.isFinite(value) ? `${(100 * value).toFixed(digits)} %` : NONE;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 59.5) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const whole = Math.round(seconds); // rounded first, to avoid "23 min 60 s"
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 172800) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.round(seconds / 86400)} days`;
}

export function bytes(size) {
  if (!Number.isFinite(size)) return NONE;
  if (size < 1000) return `${size} B`;
  return size < 1e6 ? `${(size / 1e3).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

/** Parses ISO text or seconds since 1970. */
function date(value) {
  if (value === null || value === undefined || value === "") return null;
  const found = typeof value === "number" ? new Date(value * 1000) : new Date(value);
  return Number.isNaN(found.getTime()) ? null : found;
}

export function moment(value) {
  const found = date(value);
  if (!found) return NONE;
  const two = (each) => String(each).padStart(2, "0");
  const day = `${found.getFullYear()}-${two(found.getMonth() + 1)}-${two(found.getDate())}`;
  return `${day} ${two(found.getHours())}:${two(found.getMinutes())}:${two(found.getSeconds())}`;
}

/** The time of a day. */
export function clock(value) {
  return moment(value).slice(11) || NONE;
}

export function ago(value, now = Date.now()) {
  const found = date(value);
  if (!found) return NONE;
  const seconds = Math.max(0, (now - found.getTime()) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.round(seconds)} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return `${Math.round(seconds / 86400)} days ago`;
}

/** Returns the last part of a path, the name of a task. */
export function leaf(path) {
  const parts = String(path ?? "").split(/[\\/]/).filter(Boolean);
  return parts.at(-1) ?? "";
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** Formats data as one line. */
export function gist(value, most = 160) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const line = text.slice(0, most * 4).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}
