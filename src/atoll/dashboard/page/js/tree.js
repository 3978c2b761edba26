// Layout of the lineage: positions only, without page or canvas.

/**
 * Lays nodes out.
 *
 * nodes: [{id, parents, score, island, step, ...}] in order of creation; by: "tree" or "time".
 * Returns {x, y: Float64Arrays in units, parent: Int32Array (-1: none), children: [[...]], index: Map, width, height}.
 */
export function layout(nodes, by) {
  const index = new Map(nodes.map((node, place) => [node.id, place]));
  const parent = parents(nodes, index);
  const children = nodes.map(() => []);
  parent.forEach((above, place) => { if (above >= 0) children[above].push(place); });
  const places = by === "time" ? overTime(nodes) : asTree(nodes, parent, children);
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
