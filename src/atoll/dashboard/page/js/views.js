// The one list of views. A view is a module in views/ with a default export; README.md here says what it holds.

import candidate from "./views/candidate.js";
import events from "./views/events.js";
import governance from "./views/governance.js";
import islands from "./views/islands.js";
import life from "./views/life.js";
import lineage from "./views/lineage.js";
import models from "./views/models.js";
import overview from "./views/overview.js";
import playbooks, { ofRun as playbook } from "./views/playbook.js";
import runs from "./views/runs.js";
import worldlines from "./views/worldlines.js";

export const VIEWS = [runs, overview, lineage, candidate, islands, events, models, worldlines, life, playbook, playbooks, governance];
