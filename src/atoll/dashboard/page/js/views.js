// All views in the order of the menu. A view's module is loaded when the view is first opened. README.md describes the
// fields.

const of = (system) => (summary) => summary?.system === system;

export const VIEWS = [
  { title: "Runs", path: "runs", scope: "store", load: () => import("./views/runs.js") },
  { title: "Overview", path: "overview", scope: "run", load: () => import("./views/overview.js") },
  { title: "Lineage", path: "lineage", scope: "run", load: () => import("./views/lineage.js") },
  { title: "Candidates", path: "candidate", scope: "run", load: () => import("./views/candidate.js") },
  { title: "Islands", path: "islands", scope: "run", load: () => import("./views/islands.js") },
  { title: "Events", path: "events", scope: "run", load: () => import("./views/events.js") },
  { title: "LLMs", path: "models", scope: "run", load: () => import("./views/models.js") },
  { title: "Worldlines", path: "worldlines", scope: "run", shows: of("mind"), load: () => import("./views/worldlines.js") },
  { title: "Episodes", path: "life", scope: "run", shows: of("survival"), load: () => import("./views/life.js") },
  { title: "Playbook", path: "playbook", scope: "run", shows: of("survival"), load: async () => ({ default: (await import("./views/playbook.js")).ofRun }) },
  { title: "Playbooks", path: "playbooks", scope: "store", load: () => import("./views/playbook.js") },
  { title: "Governance", path: "governance", scope: "store", load: () => import("./views/governance.js") },
];
