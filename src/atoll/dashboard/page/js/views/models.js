import { h } from "../dom.js";

export default { title: "Models", path: "models", scope: "run", mount: (root) => { root.append(h("p", { class: "empty" }, "soon")); } };
