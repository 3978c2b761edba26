// Layout of the lineage: positions only, without page or canvas.

/**
 * Lays nodes out.
 *
 * nodes: [{id, parents, score, island, step, ...}] in order of creation; by: "lanes", "tree" or "time".
 * Returns {x, y: Float64Arrays in units, parent: Int32Array (-1: none), children: [[...]], index: Map, width, height}, and for lanes also
 * lanes: [{name, top, bottom, low, high}] and size: Float64Array of shares.
 */
export function layout(nodes, by) {
  const index = new Map(nodes.map((node, place) => [node.id, place]));
  const parent = parents(nodes, index);
  const children = nodes.map(() => []);
  parent.forEach((above, place) => { if (above >= 0) children[above].push(place); });
  const places = by === "lanes" ? inLanes(nodes) : by === "time" ? overTime(nodes) : asTree(nodes, parent, children);
  return { ...places, parent, children, index };
}

/** Returns the best older parent of a node in this window, which prevents cycles. */
function parents(nodes, index) {
  return Int32Array.from(nodes, (node, place) => {
    let best = -1;
    for (const id of node.parents ?? []) {
      const at = index.get(id);
      if (at === undefined || at >= place) continue;
      if (best < 0 || (nodes[at].score ?? -Infinity) >= (nodes[best].score ?? -Infinity)) best = at;
    }
    return best;
  });
}

/** Generations from left to right; each leaf has its own row, a parent is centered on its children. */
function asTree(nodes, parent, children) {
  const number = nodes.length;
  const x = new Float64Array(number);
  const y = new Float64Array(number);
  for (let place = 0; place < number; place += 1) if (parent[place] >= 0) x[place] = x[parent[place]] + 1;
  const size = new Int32Array(number).fill(1);
  for (let place = number - 1; place >= 0; place -= 1) if (parent[place] >= 0) size[parent[place]] += size[place];
  let row = 0;
  let width = 0;
  const stack = [];
  for (let place = number - 1; place >= 0; place -= 1) if (parent[place] < 0) stack.push([place, false]);
  while (stack.length) {
    const [place, isDone] = stack.pop();
    width = Math.max(width, x[place]);
    const own = children[place];
    if (isDone) { y[place] = (y[own[0]] + y[own.at(-1)]) / 2; continue; }
    if (!own.length) { y[place] = row; row += 1; continue; }
    own.sort((a, b) => size[b] - size[a] || a - b);
    stack.push([place, true]);
    for (let each = own.length - 1; each >= 0; each -= 1) stack.push([own[each], false]);
  }
  return { x, y, width: width + 1, height: Math.max(1, row) };
}

const LANE = 10; // rows of a lane
const GAP = 1.5;

/** Iterations from left to right, one lane per island with a score axis upwards, failures in a lane at the bottom. */
function inLanes(nodes) {
  const islands = [...new Set(nodes.filter((node) => Number.isFinite(node.score)).map((node) => node.island ?? 0))].sort((a, b) => a - b);
  const scores = nodes.map((node) => node.score).filter(Number.isFinite).sort((a, b) => a - b);
  const [low, high] = [scores[Math.floor(scores.length * 0.1)] ?? 0, scores.at(-1) ?? 1]; // the lowest tenth is at the bottom edge
  const share = (score) => (high > low ? Math.max(0, Math.min(1, (score - low) / (high - low))) : 1);
  const laneOf = new Map(islands.map((island, place) => [island, place]));
  const top = (place) => place * (LANE + GAP);
  const lanes = islands.map((island, place) => ({ name: `island ${island}`, top: top(place), bottom: top(place) + LANE, low, high }));
  const hasFailures = nodes.some((node) => !Number.isFinite(node.score));
  const failed = top(islands.length);
  if (hasFailures) lanes.push({ name: "failures", top: failed, bottom: failed + LANE / 2 });
  const size = Float64Array.from(nodes, (node) => (Number.isFinite(node.score) ? share(node.score) : 0.2));
  const first = Math.min(...nodes.slice(0, 1).map((node) => node.step ?? 0), 0);
  const x = Float64Array.from(nodes, (node) => (node.step ?? 0) - first);
  const y = Float64Array.from(nodes, (node, place) => (Number.isFinite(node.score) ? top(laneOf.get(node.island ?? 0)) + (1 - share(node.score)) * LANE : failed + ((place * 7) % 5) * (LANE / 2 / 5)));
  const last = nodes.reduce((most, node) => Math.max(most, node.step ?? 0), 1);
  return { x, y, size, lanes, laneOf, share, laneTop: top, laneHeight: LANE, width: Math.max(1, last), height: failed + (hasFailures ? LANE / 2 : 0) };
}

/** Iterations from left to right, score ranks upwards, failures at the bottom. Ranks limit the effect of outliers. */
function overTime(nodes) {
  const scores = [...new Set(nodes.map((node) => node.score).filter((score) => Number.isFinite(score)))].sort((a, b) => b - a);
  const rank = new Map(scores.map((score, place) => [score, place]));
  const height = Math.max(1, scores.length);
  const last = Math.max(1, ...[nodes.at(-1)?.step ?? 1, nodes[0]?.step ?? 1]);
  const x = Float64Array.from(nodes, (node) => node.step ?? 0);
  const y = Float64Array.from(nodes, (node) => rank.get(node.score) ?? height * 1.05 + 1);
  return { x, y, width: last, height: height * 1.05 + 2 };
}

/** Returns the path from a node to its root. */
export function line(tree, place) {
  const found = [];
  for (let at = place; at >= 0; at = tree.parent[at]) found.push(at);
  return found;
}
