// The frame of the screens: the navigation, the current screen, the token dialog.

import { forgetToken, gate, storedToken } from './data/api.js';
import { showKeys } from './keys.js';
import { connection } from './data/live.js';
import { dialog, problem, skeletons } from './draw/parts.js';
import { href, onPlace } from './router.js';
import { drawer, h, render } from './draw/view.js';

const SCREENS = [
  { path: /^$/, name: '', load: () => import('./screens/overview.js') },
  { path: /^machines$/, name: 'machines', load: () => import('./screens/machines.js') },
  { path: /^machine$/, name: 'machines', load: () => import('./screens/machine.js') },
  { path: /^instances$/, name: 'instances', load: () => import('./screens/instances.js') },
  { path: /^instances\/(-?\d+)$/, name: 'instances', load: () => import('./screens/instance.js') },
  { path: /^instances\/(-?\d+)\/family$/, name: 'instances', load: () => import('./screens/family.js') },
  { path: /^queues$/, name: 'queues', load: () => import('./screens/queues.js') },
  { path: /^workers$/, name: 'workers', load: () => import('./screens/workers.js') },
];

const NAVIGATION = [
  ['', 'Overview', 'M2 13V8M6 13V3M10 13V6M14 13V9'],
  ['machines', 'Machines', 'M2 3h4v4H2zM10 9h4v4h-4zM6 5h3a2 2 0 0 1 2 2v2'],
  ['instances', 'Instances', 'M2 3.5h12M2 8h12M2 12.5h12'],
  ['queues', 'Queues', 'M2 4h8M2 8h8M2 12h8M12.5 5.5L15 8l-2.5 2.5'],
  ['workers', 'Workers', 'M8 10.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.4 3.4l1.4 1.4M11.2 11.2l1.4 1.4M12.6 3.4l-1.4 1.4M4.8 11.2l-1.4 1.4'],
];

const CONNECTION = {
  live: ['Live', 'Changes arrive as they happen'],
  polling: ['Every 5 s', 'The event stream is down; the page polls every five seconds'],
  connecting: ['Connecting', 'Opening the event stream'],
};

/** The current screen, and the controller that ends it. */
let current = { entry: null, screen: null, leave: new AbortController(), failed: null };

const drawFrame = drawer(document.body, frame);
connection.changed = drawFrame;
gate.ask = askForToken;
render(document.body, frame());
onPlace(enter);

function frame() {
  const name = current.entry?.name;
  const [state, meaning] = CONNECTION[connection.state];
  return [
    h('a', { class: 'skip', href: '#main', onclick: skip }, 'Skip to content'),
    h('div', { class: 'shell' },
      h('header', { class: 'side' },
        h('a', { class: 'brand', href: href('') }, brand(), 'Outlast'),
        h('nav', { class: 'nav', 'aria-label': 'Screens' }, NAVIGATION.map(([path, title, shape]) =>
          h('a', { href: href(path), 'aria-current': name === path ? 'page' : null },
            h('svg', { viewBox: '0 0 16 16', 'aria-hidden': 'true' }, h('path', { d: shape })), title))),
        h('div', { class: 'foot' },
          h('div', { class: 'connection', 'data-state': connection.state, title: meaning, role: 'status' }, h('span', { class: 'text' }, state)),
          h('div', { class: 'foot-row' },
            h('button', { class: 'quiet small', onclick: () => window.toggleTheme(), title: 'Toggle light and dark (t)' }, 'Theme'),
            h('button', { class: 'quiet small', onclick: showKeys, title: 'Keyboard shortcuts (?)' }, 'Keys'),
            storedToken() && h('button', { class: 'quiet small', onclick: signOut }, 'Sign out')))),
      h('main', { id: 'main', tabindex: '-1' }, shown())),
    h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite' }),
  ];
}

function shown() {
  if (current.failed) return problem(current.failed, () => location.reload());
  if (!current.entry) return problem({ title: 'Page not found', message: 'There is no page at this address.' });
  return current.screen ? h('div', { key: current, class: 'screen', mounted: current.mount }) : skeletons(8);
}

async function enter(place) {
  const entry = SCREENS.find((each) => each.path.test(place.path));
  if (entry && entry === current.entry && current.path === place.path && current.screen?.moved) {
    current.screen.moved(place.query);
    return;
  }
  current.leave.abort();
  const leave = new AbortController();
  const entered = { entry, path: place.path, leave, screen: null, failed: null };
  const first = current.entry === null;
  current = entered;
  if (!entry) return drawFrame();
  try {
    const module = await entry.load();
    if (leave.signal.aborted) return undefined;
    entered.screen = module.screen({
      parts: entry.path.exec(place.path).slice(1).map(decodeURIComponent),
      query: place.query,
      signal: leave.signal,
      draw: () => entered.draw?.(),
    });
    entered.mount = (root) => {
      entered.draw = drawer(root, () => describe(entered));
      render(root, describe(entered));
    };
  } catch (error) {
    entered.failed = error;
  }
  if (!first) {
    scrollTo(0, 0);
    document.querySelector('main').focus({ preventScroll: true });
  }
  return drawFrame();
}

function describe(entered) {
  document.title = `${entered.screen.title()} · Outlast`;
  return entered.screen.describe();
}

function skip(event) {
  event.preventDefault();
  document.querySelector('main').focus();
}

function brand() {
  return h('svg', { viewBox: '0 0 32 32', 'aria-hidden': 'true' },
    h('rect', { width: 32, height: 32, rx: 8, fill: 'var(--accent)' }),
    h('path', { d: 'M8 16a8 8 0 1 1 4.5 7.2', fill: 'none', stroke: 'var(--accent-text)', 'stroke-width': 3.2, 'stroke-linecap': 'round' }),
    h('circle', { cx: 16, cy: 16, r: 3, fill: 'var(--accent-text)' }));
}

async function askForToken(refused) {
  let typed = '';
  const token = await dialog((close) => [
    h('h2', {}, 'Token required'),
    h('p', { class: 'soft' }, storedToken()
      ? `The current token was refused: ${refused.message}.`
      : 'This server requires a token. It is stored until you close this tab.'),
    h('label', {}, 'Token', h('input', { type: 'password', name: 'token', autofocus: true, autocomplete: 'off', required: true, oninput: (event) => { typed = event.target.value; } })),
    h('div', { class: 'actions' },
      h('button', { type: 'button', onclick: () => close(null) }, 'Not now'),
      h('button', { type: 'submit', class: 'primary' }, 'Sign in')),
  ], (close) => close(typed.trim() || null));
  setTimeout(drawFrame);
  return token;
}

function signOut() {
  forgetToken();
  location.reload();
}
