// Addresses: each screen has a path below the page's <base>, and every filter is in the query. So
// a copied address shows the same to another user.

const BASE = new URL('.', document.baseURI);

/** Returns the current place: `path` without the base, `query` as URLSearchParams. */
export function here() {
  const path = decodeURI(location.pathname).startsWith(decodeURI(BASE.pathname))
    ? location.pathname.slice(BASE.pathname.length)
    : '';
  return { path, query: new URLSearchParams(location.search) };
}

/**
 * Returns the address of a screen. `query` is an object, a string or URLSearchParams; empty values
 * are left out.
 */
export function href(path, query = {}) {
  const url = new URL(path || '.', BASE);
  const pairs = typeof query === 'string' || query instanceof URLSearchParams
    ? [...new URLSearchParams(query)]
    : Object.entries(query).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  for (const [name, value] of pairs) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.append(name, value);
  }
  return url.pathname + url.search;
}

const listeners = [];

/** Calls `listen` with every new place, including the first. */
export function onPlace(listen) {
  listeners.push(listen);
  listen(here());
}

/** Goes to an address made by `href`. */
export function go(address, { replace = false } = {}) {
  if (replace) history.replaceState(null, '', address);
  else history.pushState(null, '', address);
  for (const listen of listeners) listen(here());
}

addEventListener('popstate', () => {
  for (const listen of listeners) listen(here());
});

// Ordinary links stay ordinary: a click with a modifier opens a tab, and other clicks do not
// reload the page.
document.addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target || link.hasAttribute('download')) return;
  const url = new URL(link.href.baseVal ?? link.href, location.href);
  if (url.origin !== location.origin || !url.pathname.startsWith(BASE.pathname)) return;
  event.preventDefault();
  if (url.pathname + url.search !== location.pathname + location.search) go(url.pathname + url.search);
});
