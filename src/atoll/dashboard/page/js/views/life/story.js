// State of an episode at any turn, added up from its turns: map, fear dictionary, logs.

const MOST = 400; // entries of a log

/** Adds up turns 0 .. last; each turn contains only its changes. */
export function upTo(turns, last) {
  const story = { cells: new Map(), fears: {}, alerts: new Map(), explored: [], notes: [], requests: [], path: [], notices: [] };
  for (let place = 0; place <= last && place < turns.length; place += 1) take(story, turns[place]);
  return story;
}

function take(story, turn) {
  const view = turn.view ?? {};
  for (const [x, y, look] of view.cells ?? []) story.cells.set(`${x},${y}`, { x, y, look });
  Object.assign(story.fears, view.fears);
  story.explored.push(...(view.explored ?? []));
  story.notes.push(...(view.notes ?? []));
  story.requests.push(...(view.requests ?? []));
  story.path.push(turn.state.position);
  for (const alert of turn.reflection?.alerts ?? []) {
    const known = story.alerts.get(alert.what) ?? { ...alert, times: 0, worst: 0 };
    story.alerts.set(alert.what, { ...known, ...alert, times: known.times + 1, worst: Math.max(known.worst, alert.damage ?? 0), tick: turn.tick });
  }
  for (const notice of turn.notices ?? []) story.notices.push({ ...notice, tick: turn.tick, turn: turn.turn });
  for (const name of ["explored", "notes", "requests"]) if (story[name].length > MOST) story[name] = story[name].slice(-MOST);
}

/** Costs and gains of a turn. */
export function reward(turn) {
  return Object.entries(turn.rewards ?? {}).filter(([name]) => name !== "damage").reduce((sum, [, value]) => sum + value, 0);
}

export function loss(turn) {
  return -(turn.rewards?.damage ?? 0);
}

/** Parses a file of `--save-run`; skips lines that are not turns. */
export function read(text) {
  const turns = [];
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    let turn;
    try { turn = JSON.parse(line); } catch { continue; }
    if (turn?.state?.position && turn.plan && Number.isFinite(turn.turn)) turns.push(turn);
  }
  return turns;
}
