import { h } from "../dom.js";

export default { title: "Candidate", path: "candidate", scope: "run", mount: (root) => { root.append(h("p", { class: "empty" }, "soon")); } };
