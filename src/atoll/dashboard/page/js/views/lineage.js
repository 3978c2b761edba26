import { h } from "../dom.js";

export default { title: "Lineage", path: "lineage", scope: "run", mount: (root) => { root.append(h("p", { class: "empty" }, "soon")); } };
