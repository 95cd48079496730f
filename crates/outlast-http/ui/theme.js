// The theme: the system's, or the user's choice. A classic script runs before the first paint, so
// nothing flashes; a module would run too late.
(() => {
  const NAME = 'outlast.theme';
  const system = matchMedia('(prefers-color-scheme: dark)');
  // Storage may be forbidden; then a choice lasts as long as the page.
  let chosen = null;
  try {
    chosen = localStorage.getItem(NAME);
  } catch { /* see above */ }

  const apply = () => {
    document.documentElement.dataset.theme = chosen ?? (system.matches ? 'dark' : 'light');
  };
  system.addEventListener('change', apply);
  apply();

  window.toggleTheme = () => {
    const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
    // Choosing the system's theme follows the system again.
    chosen = next === (system.matches ? 'dark' : 'light') ? null : next;
    try {
      if (chosen) localStorage.setItem(NAME, chosen);
      else localStorage.removeItem(NAME);
    } catch { /* see above */ }
    apply();
  };
})();
