// Governance: proposals, parameters, rollouts and the audit log.

import { button, h } from "../dom.js";
import { audit } from "./governance/audit.js";
import { parameters } from "./governance/parameters.js";
import { proposals } from "./governance/proposals.js";
import { rollouts } from "./governance/rollouts.js";

const PARTS = { proposals, parameters, rollouts, audit };

export default {
  mount(root, context) {
    const chosen = Object.hasOwn(PARTS, context.more[0] ?? "") ? context.more[0] : "proposals";
    const tabs = Object.keys(PARTS).map((name) => button(name[0].toUpperCase() + name.slice(1),
      () => context.go(context.link("governance", { run: null, more: [name] })),
      { role: "tab", id: `tab-${name}`, "aria-selected": name === chosen ? "true" : "false", "aria-controls": "governance-part", tabindex: name === chosen ? "0" : "-1" }));
    const list = h("div", { class: "tabs", role: "tablist", "aria-label": "Governance" }, tabs);
    list.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length].focus();
    });
    const part = h("div", { id: "governance-part", role: "tabpanel", "aria-labelledby": `tab-${chosen}` });
    root.append(list, part);
    PARTS[chosen](part, context, context.more[1] ?? null);
  },
};
