// Keyboard shortcuts. `?` shows this table.

import { h } from './draw/view.js';
import { dialog } from './draw/parts.js';
import { go, href } from './router.js';

const PLACES = { o: ['', 'Overview'], m: ['machines', 'Machines'], i: ['instances', 'Instances'], q: ['queues', 'Queues'], w: ['workers', 'Workers'] };
const COMBINATION_MS = 1_200;

let begun = 0;

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest?.('input, textarea, select');
  if (event.key === 'Escape' && typing && !typing.closest('dialog')) {
    typing.blur();
    return;
  }
  if (typing || document.querySelector('dialog[open]')) return;
  if (act(event.key)) event.preventDefault();
});

function act(key) {
  const combined = performance.now() - begun < COMBINATION_MS;
  begun = 0;
  if (combined && PLACES[key]) return done(go(href(PLACES[key][0])));
  if (key === 'g') return done(begun = performance.now());
  if (key === 'j') return move(1);
  if (key === 'k') return move(-1);
  if (key === 't') return done(window.toggleTheme());
  if (key === '?') return done(showKeys());
  if (key === '/') return focus(document.querySelector('main [data-search]'));
  if (key === 'Escape') return done(document.activeElement?.blur?.());
  return false;
}

const done = () => true;

function focus(element) {
  element?.focus();
  element?.select?.();
  return Boolean(element);
}

/** Moves among the rows of a list by their first links. Enter opens a link as usual. */
function move(by) {
  const rows = [...document.querySelectorAll('main [data-row]')].filter((row) => row.offsetParent !== null);
  if (rows.length === 0) return false;
  const at = rows.indexOf(document.activeElement?.closest?.('[data-row]'));
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by));
  const link = rows[next].matches('a') ? rows[next] : rows[next].querySelector('a, button');
  link?.focus();
  rows[next].scrollIntoView({ block: 'nearest' });
  return true;
}

export function showKeys() {
  const rows = [
    ...Object.entries(PLACES).map(([key, [, name]]) => [['g', key], name]),
    [['j'], 'Next row'], [['k'], 'Previous row'], [['Enter'], 'Open row'],
    [['/'], 'Filter'], [['Esc'], 'Leave field, close dialog'], [['t'], 'Toggle light and dark'], [['?'], 'Show shortcuts'],
  ];
  return dialog((close) => [
    h('h2', {}, 'Keyboard shortcuts'),
    h('dl', { class: 'keys' }, rows.map(([keys, meaning]) => [h('dt', {}, keys.map((key) => [h('kbd', {}, key), ' '])), h('dd', {}, meaning)])),
    h('div', { class: 'actions' }, h('button', { type: 'submit', autofocus: true }, 'Close')),
  ]);
}
