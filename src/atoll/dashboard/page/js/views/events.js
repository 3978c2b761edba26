import { h } from "../dom.js";

export default { title: "Events", path: "events", scope: "run", mount: (root) => { root.append(h("p", { class: "empty" }, "soon")); } };
