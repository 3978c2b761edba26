import { h } from "../dom.js";

export default { title: "Overview", path: "overview", scope: "run", mount: (root) => { root.append(h("p", { class: "empty" }, "soon")); } };
