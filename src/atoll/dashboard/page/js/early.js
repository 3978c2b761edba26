// Before the first paint, so that a page in the dark does not flash: the look that was chosen here before.
(function () {
  try {
    const theme = localStorage.getItem("atoll.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* storage is switched off: the system's look holds */ }
})();
