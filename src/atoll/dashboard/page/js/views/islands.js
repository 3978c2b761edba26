import { h } from "../dom.js";

export default { title: "Islands", path: "islands", scope: "run", mount: (root) => { root.append(h("p", { class: "empty" }, "soon")); } };
