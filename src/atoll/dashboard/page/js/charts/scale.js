// Scales from values to positions, and round tick values.

/** A linear scale; `of(value)` is a position, `back(position)` a value. */
export function linear([low, high], [start, end]) {
  const span = high - low || 1;
  return {
    of: (value) => start + ((value - low) / span) * (end - start),
    back: (place) => low + ((place - start) / (end - start || 1)) * span,
    ticks: (number) => ticks(low, high, number),
    domain: [low, high],
  };
}

/** A symmetric logarithmic scale, linear within `small`. */
export function symlog([low, high], [start, end], small) {
  const bend = (value) => Math.sign(value) * Math.log1p(Math.abs(value) / small);
  const unbend = (value) => Math.sign(value) * small * Math.expm1(Math.abs(value));
  const inner = linear([bend(low), bend(high)], [start, end]);
  return {
    of: (value) => inner.of(bend(value)),
    back: (place) => unbend(inner.back(place)),
    ticks: (number) => decades(low, high, small, number),
    domain: [low, high],
  };
}

/** Returns about the requested number of round values from low to high. */
function ticks(low, high, number = 5) {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const raw = (high - low) / Math.max(1, number);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999) ?? raw;
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9 && found.length < 50; at += 1) found.push(Number((at * step).toPrecision(12)));
  return found;
}

function decades(low, high, small, number) {
  const found = new Set(low <= 0 && high >= 0 ? [0] : []);
  const from = Math.floor(Math.log10(small));
  const to = Math.ceil(Math.log10(Math.max(Math.abs(low), Math.abs(high), small)));
  const every = Math.max(1, Math.ceil((to - from) / number));
  for (let power = to; power >= from; power -= every) {
    for (const value of [10 ** power, -(10 ** power)]) if (value >= low && value <= high) found.add(value);
  }
  return [...found].sort((a, b) => a - b);
}

/** Returns minimum and maximum without spreading the array on the stack. */
export function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** Adds padding to an extent. */
export function padded([low, high], share = 0.06) {
  const room = (high - low) * share || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}
