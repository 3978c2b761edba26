// Top bar: name, state of the stream, token, light or dark mode.

import { known, login } from "./api.js";
import { button, field, h, put, say } from "./dom.js";

const STATES = {
  live: ["live", "Live: new records arrive at once"],
  polling: ["polling", "The stream is not available; the page polls every few seconds"],
  waiting: ["waiting", "Waiting for the server"],
  off: ["", ""],
};

/** Fills the bar; returns {state(name), close()}. */
export function topBar(root, { onMenu }) {
  const state = h("span", { class: "state", role: "status" });
  const menu = button("Menu", () => toggle(), { class: "menu quiet", "aria-expanded": "false", "aria-controls": "nav" });
  let isOpen = false;

  function toggle(next = !isOpen) {
    isOpen = next;
    menu.setAttribute("aria-expanded", String(isOpen));
    onMenu(isOpen);
  }

  put(root, menu, h("a", { class: "brand", href: "#/runs" }, h("img", { src: "/ui/static/favicon.svg", alt: "", width: 22, height: 22 }), "Atoll"),
    h("span", { class: "spring" }), state, tokenButton(), themeButton());
  return {
    state(name) {
      const [word, title] = STATES[name];
      state.dataset.state = name;
      state.title = title;
      say(state, word);
    },
    close: () => toggle(false),
  };
}

function themeButton() {
  const root = document.documentElement;
  const media = matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme ?? (media.matches ? "dark" : "light");
  const node = button("", () => {
    root.dataset.theme = current() === "dark" ? "light" : "dark";
    try { localStorage.setItem("atoll.theme", root.dataset.theme); } catch { /* storage is switched off */ }
    label();
  }, { class: "quiet theme" });
  const label = () => {
    const other = current() === "dark" ? "light" : "dark";
    node.textContent = other === "dark" ? "☾ Dark" : "☀ Light";
    node.setAttribute("aria-label", `Switch to ${other} mode`);
    document.dispatchEvent(new CustomEvent("atoll:theme"));
  };
  media.addEventListener("change", label);
  label();
  return node;
}

/** Opens the form for the token. */
function tokenButton() {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", name: "token", required: true });
  const answer = h("p", { class: "problem", role: "alert" });
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "token-title" },
    h("form", { on: { submit: (event) => { event.preventDefault(); enter(); } } },
      h("h2", { id: "token-title" }, "Control the runs"),
      h("p", {}, "To change a run, enter the token that ", h("code", {}, "atoll dashboard"), " printed."),
      field("Token", input), answer,
      h("div", { class: "row" }, h("button", { type: "submit", class: "primary" }, "Use"), button("Cancel", () => dialog.close()))));
  document.body.append(dialog);

  async function enter() {
    try {
      await login(input.value.trim());
      input.value = "";
      dialog.close();
    } catch (error) {
      say(answer, error.message);
    }
  }

  const open = () => { say(answer, ""); dialog.showModal(); };
  const node = button("", open, { class: "quiet token" });
  const label = () => { node.textContent = known().can_change ? "✓ Can change" : "Read only"; };
  document.addEventListener("atoll:session", label);
  document.addEventListener("atoll:token", open);
  label();
  return node;
}
