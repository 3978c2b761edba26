// Sets the stored color mode before the first paint, so that dark pages do not flash.
(function () {
  try {
    const theme = localStorage.getItem("atoll.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* storage is switched off: the system's look holds */ }
})();
