// Runs before all other files: sets the stored color mode, so that dark pages do not flash, and sends the first requests
// of the overview while the browser loads the modules.
(function () {
  try {
    const theme = localStorage.getItem("atoll.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* storage is switched off: the system's look holds */ }
  const base = new URL("../../../", document.currentScript.src);
  const found = /^#\/runs\/([^/?]+)(\/overview)?$/.exec(location.hash); // with a query, the requests may differ
  const early = new Map();
  if (found) {
    for (const part of ["/answer", "?islands=false", "/improvements", "/dots"]) {
      const url = new URL(`api/runs/${found[1]}${part}`, base).href;
      const reply = fetch(url, { headers: { Accept: "application/json" }, cache: "no-store" });
      reply.catch(() => {}); // the module that takes it reports the error
      early.set(url, reply);
    }
  }
  globalThis.atollEarly = early;
})();
