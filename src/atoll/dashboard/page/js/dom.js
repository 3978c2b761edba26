// The only place that creates elements. Text becomes text nodes, so untrusted text is never markup.

const SVG = "http://www.w3.org/2000/svg";

/** Creates an element. `props`: class, dataset, on (listeners), style (an object, through CSSOM), else attributes. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Creates an SVG element in the same way. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) set(node, name, value);
  add(node, children);
  return node;
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "on") {
    for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
  } else if (name === "dataset") {
    Object.assign(node.dataset, value);
  } else if (name === "style") {
    for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
  } else if (/^on/i.test(name) || name === "srcdoc") {
    throw new Error(`${name} is not allowed. Pass a listener in 'on'.`);
  } else if (name === "value" && "value" in node) {
    node.value = value;
  } else {
    node.setAttribute(name, value === true ? "" : String(value));
  }
}

/** Appends children: nodes, nested lists, and other values as text; skips null and false. */
export function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Replaces the children of a node. */
export function put(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/** Sets a text only if it differs, since screen readers read changed live regions again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

let numIds = 0;
export function freshId(prefix = "id") {
  numIds += 1;
  return `${prefix}-${numIds}`;
}

/** Creates a labeled field. */
export function field(label, control, hint) {
  control.id ||= freshId("field");
  const note = hint ? h("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

/** Creates a select from [value, label] pairs. */
export function select(options, value, onChange, props) {
  const node = h("select", { ...props, on: { change: () => onChange(node.value) } },
    options.map(([each, label]) => h("option", { value: each, selected: String(each) === String(value) }, label)));
  return node;
}

export function button(label, onClick, props) {
  return h("button", { type: "button", ...props, on: { click: onClick } }, label);
}
