// The history on the screen of an instance: its timeline and its events; for a workflow also its
// runs and its waits.

import { address, get, open } from '../data/api.js';
import { ENDED, now, plural, span, whole, words } from '../draw/format.js';
import { parse, Raw } from '../data/json.js';
import { attempt, card, problem, skeletons, statusOf, time } from '../draw/parts.js';
import { APPLIED, POLICIES } from './family-parts.js';
import { drawPast, isPast, pastStates, reasonOf, toneOfTransition, transitionLine } from './past.js';
import { href } from '../router.js';
import { rowsOf, timeline } from './timeline.js';
import { h } from '../draw/view.js';

const PAGE = 200;
// Pages that are read automatically: more than a user looks at, and few enough for a browser.
const PAGES = 5;
const EVENTS_SHOWN = 40;
const RESULT_SHOWN = 2_000;
const WAITS_SHOWN = 12;
const HANDLED_SHOWN = 5;
const NAMES_PX = 330;
const PEOPLES = new Set(['result', 'payload', 'input', 'reply']);

const FLOW_STEP = 'run';

/**
 * Returns whether an instance has a history: a workflow, or a machine that records its
 * transitions.
 */
export function hasHistory(instance) {
  return instance.run > 1 || instance.events > 0;
}

/** Returns whether it is known to be a workflow. */
export function isFlow(instance) {
  return hasHistory(instance) && instance.step === FLOW_STEP;
}

/**
 * Returns `{ choose, load, waits, drawing, handled, states, list }`. Histories only grow, so a
 * reload reads only the new events.
 */
export function flowOf(id, { signal, draw }) {
  let chosen = null;
  let runs = null;
  let failed = null;
  // The events of the shown run that were read, and whether there are more.
  let read = { run: null, events: [], more: false };
  let reading = null;
  let shown = EVENTS_SHOWN;
  let wide = false;
  let survived = false;
  const folds = new Map();
  const opened = new Set();
  const past = pastStates(draw);

  function choose(run) {
    const next = /^[1-9]\d{0,8}$/.test(run ?? '') ? Number(run) : null;
    if (next === chosen) return false;
    chosen = next;
    shown = EVENTS_SHOWN;
    folds.clear();
    opened.clear();
    return true;
  }

  /** Reads the next events; one request at a time, so that nothing is read twice. */
  function load(instance) {
    reading = (reading ?? Promise.resolve()).then(() => readOn(instance));
    return reading;
  }

  async function readOn(instance) {
    if (signal.aborted) return;
    try {
      runs = await get(`instances/${id}/runs`, {}, signal);
      const run = chosen ?? instance.run;
      if (read.run !== run) read = { run, events: [], more: false };
      // While earlier events are unread, new ones do not extend the list.
      if (!read.more || read.events.length === 0) await pages(read, PAGES);
      await leave(instance);
      failed = null;
    } catch (error) {
      if (error.name !== 'AbortError') failed = error;
    }
  }

  /**
   * A finished run records nothing more about its live children, so their status is read when it
   * is needed.
   */
  async function leave(instance) {
    const over = read.run !== instance.run || ENDED.has(instance.status);
    const first = over && rowsOf(read.events).rows.find((row) => !row.end && (row.kind === 'child' || row.kind === 'activity'));
    if (!first) return;
    const found = await get(`instances/${id}/calls`, { run: read.run, after: first.call - 1, limit: PAGE }, signal);
    read.left = new Map(found.calls.filter((call) => !call.recorded).map((call) => [call.call, call]));
  }

  async function pages(into, count) {
    into.more = false;
    for (let page = 0; page < count; page += 1) {
      const after = into.events.at(-1)?.seq ?? 0;
      const found = await get(`instances/${id}/history`, { run: into.run, after, limit: PAGE }, signal);
      into.events.push(...found.events);
      into.more = found.next !== null;
      if (!into.more) return;
    }
  }

  async function further() {
    await attempt(() => pages(read, PAGES));
    draw();
  }

  /** The shown run, and the runs to choose from. */
  function chooser(instance) {
    if (isPast(read.events)) return null;
    const known = runs?.runs ?? [];
    if (known.length < 2) return h('span', { class: 'badge', 'data-run': read.run }, `run ${read.run ?? instance.run}`);
    return h('span', { class: 'runs', role: 'group', 'aria-label': 'Runs' }, known.map((each) => {
      const present = each.run === runs.present;
      return h('a', { key: each.run, class: 'button small', href: href(`instances/${id}`, present ? {} : { run: each.run }), 'aria-current': each.run === read.run ? 'true' : null, title: `${plural(each.events, 'event')}, ${words(each.last)}` },
        `Run ${each.run}`, present && h('span', { class: 'faint' }, ' now'));
    }));
  }

  function waits(instance) {
    const { flow } = instance;
    if (!flow) return null;
    const rows = wide ? flow.waits : flow.waits.slice(0, WAITS_SHOWN);
    return [
      flow.blocked && h('div', { class: 'problem', role: 'alert', 'data-blocked': true }, h('strong', {}, 'Blocked: the code does not match the history'),
        h('p', {}, 'It is retried automatically and resumes when a matching build is deployed.'),
        h('dl', { class: 'sides' }, h('dt', {}, 'History'), h('dd', {}, flow.blocked.expected), h('dt', {}, 'Code'), h('dd', {}, flow.blocked.found), h('dt', {}, 'Since'), h('dd', {}, time(flow.blocked.since)))),
      flow.waits.length > 0 && card('Waits for', h('span', { class: 'badge' }, `${whole(flow.open)}${flow.complete ? '' : '+'}`),
        h('div', { class: 'body stack' }, flow.groups.map(groupMeter)),
        h('div', { class: 'table', 'data-waits': true }, h('table', {},
          h('thead', {}, h('tr', {}, ['Kind', 'Call', 'Target', 'Group', 'Since', 'Until', 'When this ends'].map((name) => h('th', {}, name)))),
          h('tbody', {}, rows.map(waitRow)))),
        flow.waits.length > rows.length && h('div', { class: 'pager' }, h('button', { class: 'small quiet', onclick: () => { wide = true; draw(); } }, `Show ${whole(flow.waits.length)}`)),
        flow.open > flow.waits.length && wide && h('p', { class: 'body faint' }, `${whole(flow.waits.length)} of ${whole(flow.open)} shown.`)),
    ];
  }

  /** Failures that the code handled. */
  function handled({ flow }) {
    if (!flow || flow.handled_count === 0) return null;
    const { handled: failures, handled_count: count, complete } = flow;
    const rows = survived ? failures : failures.slice(-HANDLED_SHOWN);
    return card('Handled failures', h('span', { class: 'badge', 'data-handled': count }, `${whole(count)}${complete ? '' : '+'}`),
      h('ul', { class: 'list' }, rows.map((each) => h('li', { key: each.seq },
        h('div', { class: 'line' }, h('b', {}, each.name || 'a call'), each.call !== null && h('span', { class: 'faint' }, `call ${each.call}`), h('span', { class: 'faint' }, `event ${each.seq}`), h('span', { class: 'faint end-of-line' }, time(each.at))),
        each.reason && reasonOf(each.reason)))),
      failures.length > rows.length && h('div', { class: 'pager' }, h('button', { class: 'small quiet', onclick: () => { survived = true; draw(); } }, `Show ${whole(failures.length)}`)));
  }

  function drawing(instance) {
    const present = read.run === instance.run;
    const alive = present && !ENDED.has(instance.status);
    const machine = isPast(read.events);
    const { rows, moments } = machine ? { rows: [], moments: [] } : rowsOf(read.events);
    const last = read.events.length > 0 ? Math.max(...read.events.map((event) => Date.parse(event.at))) : 0;
    const until = alive && !read.more ? Math.max(now(), last) : last;
    const waited = new Set((instance.flow?.waits ?? []).map((wait) => wait.call));
    const gone = (call) => alive && instance.flow?.complete && instance.flow.open === instance.flow.waits.length && !waited.has(call) && !instance.flow.groups.some((group) => group.call === call);
    // The status of an open child comes from the instance's waits: the parent records it only at
    // its end.
    if (present) for (const wait of instance.flow?.waits ?? []) if (wait.target) Object.assign(rows.find((row) => row.call === wait.call) ?? {}, { child: wait.target.id, childRun: wait.target.run });
    for (const row of rows) if (read.left?.has(row.call)) Object.assign(row, { child: read.left.get(row.call).child ?? row.child, left: read.left.get(row.call).status });
    return card('Timeline', h('span', { class: 'actions' }, h('span', { class: 'faint' }, read.events.length > 0 && `${plural(read.events.length, 'event')}${read.more ? ' so far' : ''} over ${span(until - Date.parse(read.events[0].at))}`), chooser(instance)),
      failed && h('div', { class: 'body' }, problem(failed, () => load(instance).then(draw))),
      read.events.length === 0 && !failed && (runs ? h('p', { class: 'body faint' }, 'This run has no events yet.') : skeletons(4)),
      rows.length > 0 && h('div', { class: 'timeline-room', tabindex: '0', role: 'group', 'aria-label': 'Timeline' }, timeline({ rows, moments, until, width: room(), folds, fold: (call, unfold) => { folds.set(call, unfold); draw(); }, alive, gone })),
      machine && h('div', { class: 'timeline-room', tabindex: '0', role: 'group', 'aria-label': 'Timeline' }, drawPast(read.events, { until, width: room() })),
      read.events.at(-1)?.transition?.is_last && h('p', { class: 'body faint', 'data-full': true }, 'The history is full. Later transitions are not recorded.'),
      rows.length === 0 && !machine && read.events.length > 0 && h('p', { class: 'body faint' }, 'No calls yet.'),
      read.more && h('div', { class: 'pager' }, h('span', { class: 'faint' }, `Showing the first ${whole(read.events.length)} events.`), h('span', { class: 'actions' }, h('button', { class: 'small', onclick: further }, 'Load more'))));
  }

  function list() {
    const { events } = read;
    if (events.length === 0) return null;
    const some = events.slice(-shown);
    const began = Date.parse(events[0].at);
    return card(isPast(events) ? 'Transitions' : 'Events', h('span', { class: 'actions' }, h('span', { class: 'badge' }, `${whole(events.length)}${read.more ? '+' : ''}`), !isPast(events) && h('button', { class: 'small', title: 'Download the run as JSON, to replay it in a test', onclick: exportIt }, 'Export')),
      some.length < events.length && h('div', { class: 'body' }, h('button', { class: 'small quiet', 'data-earlier': true, onclick: () => { shown += PAGE; draw(); } }, `Show ${whole(events.length - some.length)} earlier events`)),
      h('ol', { class: 'list events', 'data-events': true }, some.map((event) => eventOf(event, began))),
      read.more && h('div', { class: 'body' }, h('button', { class: 'small quiet', onclick: further }, 'Load more')));
  }

  /** Fetched, because a link sends no token, and saved unchanged. */
  async function exportIt() {
    const { run } = read;
    const response = await attempt(() => open('GET', address(`instances/${id}/export`, { run }), { signal }));
    if (!response) return;
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await response.blob());
    link.download = `instance-${id}-run-${run}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  function eventOf(event, began) {
    const { transition } = event;
    const carried = transition?.state ?? carriedBy(event);
    const hidden = !transition && event.data && event.data.text !== '{}' && event.data.text !== 'null';
    return h('li', { key: `${read.run} ${event.seq}`, 'data-event': event.seq, class: transition ? toneOfTransition(transition) : toneOf(event.kind) },
      h('div', { class: 'line' },
        h('span', { class: 'faint mono seq' }, event.seq), h('b', { class: transition && 'event-name' }, transition ? event.name : words(event.kind)), !transition && event.name && h('span', { class: 'event-name' }, event.name),
        transition && transitionLine(event),
        event.call !== null && h('span', { class: 'faint' }, `call ${event.call}`),
        event.child && h('a', { class: 'mono', href: href(`instances/${event.child}`) }, event.child), event.child_run > 1 && h('span', { class: 'faint' }, `run ${event.child_run}`),
        event.group && h('span', { class: 'tag', title: placeTold(event.group) }, `${event.group.index + 1} of ${event.group.size}`),
        event.kind === 'policy_applied' ? h('span', { class: 'tag asked' }, APPLIED[event.policy]) : event.policy && event.policy !== 'abandon' && h('span', { class: 'tag', title: 'When this workflow ends' }, POLICIES[event.policy]),
        event.update && h('code', { class: 'faint', title: 'The id of the update' }, event.update), event.reply && h('span', { class: 'tag' }, event.reply),
        event.deadline && !transition && h('span', { class: 'faint' }, 'until ', time(event.deadline)),
        h('span', { class: 'faint end-of-line', title: event.at }, `+${span(Math.max(0, Date.parse(event.at) - began))}`)),
      event.reason && reasonOf(event.reason),
      event.expected && h('dl', { class: 'sides' }, h('dt', {}, 'History'), h('dd', {}, event.expected), h('dt', {}, 'Code'), h('dd', {}, event.found)),
      carried && h('div', { class: 'well' }, h('json-view', { raw: carried })),
      hidden && !carried && h('details', { open: opened.has(event.seq), ontoggle: (toggled) => { if (toggled.target.open === opened.has(event.seq)) return; if (toggled.target.open) opened.add(event.seq); else opened.delete(event.seq); draw(); } },
        h('summary', {}, `Data, ${plural(event.data.text.length, 'character')}`), opened.has(event.seq) && h('div', { class: 'well' }, h('json-view', { raw: event.data }))));
  }

  return { choose, load, waits, drawing, handled, list, states: () => past.describe(read.events), isLive: (instance) => !read.more && read.run === instance.run && !ENDED.has(instance.status) };
}

/** Values of users' code that are short enough to show at once. */
function carriedBy(event) {
  if (!event.data || event.data.text.length > RESULT_SHOWN) return null;
  const carried = parse(event.data.text, PEOPLES);
  const found = carried && typeof carried === 'object' ? carried.result ?? carried.payload ?? carried.reply : null;
  return found instanceof Raw ? found : null;
}

function toneOf(kind) {
  if (/_(failed|terminated)$/.test(kind) || kind === 'replay_blocked') return 'tone-failed';
  if (kind === 'failure_handled' || kind === 'cancel_requested' || kind === 'policy_applied') return 'tone-warning';
  if (/_cancelled$/.test(kind)) return 'tone-cancelled';
  if (/_(completed|fired|consumed|resolved|as_new)$/.test(kind)) return 'tone-done';
  return 'tone-flow';
}

function groupMeter({ kind, call, size, open, members, deadline, window }) {
  const come = Math.max(0, size - open);
  const said = kind === 'select' ? `${whole(open)} of ${whole(size)} open; the first one wins` : `${whole(come)} of ${whole(size)}`;
  const name = `${kind === 'select' ? 'Select' : 'All'}, call ${call}`;
  return h('div', { class: 'join', key: call }, h('span', { class: 'join-name' }, name, h('span', { class: 'tag', title: 'Kind of calls' }, members),
    window && h('span', { class: 'tag', 'data-window': call, title: 'Children with a slot in the window, and children waiting for one' }, `${whole(window.running)} running, ${whole(window.held)} held`),
    deadline && h('span', { class: 'tag' }, 'until ', time(deadline))),
    h('span', { class: 'grow' }, h('div', { class: 'meter', role: 'img', 'aria-label': said }, come > 0 && h('span', { class: 'is-done', style: { 'flex-grow': String(come) } }), open > 0 && h('span', { class: 'is-awaiting_signal', style: { 'flex-grow': String(open) } }))),
    h('b', { class: 'join-said', 'data-group': call }, said));
}

function waitRow(wait) {
  return h('tr', { key: wait.call, 'data-wait': wait.call, 'data-row': wait.target ? wait.call : null },
    h('td', {}, wait.kind, ' ', h('b', {}, wait.name), !wait.awaited && h('span', { class: 'tag', title: 'Its group was decided without it' }, 'no longer awaited')),
    h('td', {}, wait.call),
    h('td', {}, wait.target ? [h('a', { class: 'mono', href: href(`instances/${wait.target.id}`) }, wait.target.id), wait.target.run > 1 && ` run ${wait.target.run} `, ' ', wait.target.status && statusOf(wait.target.status), wait.held && h('span', { class: 'tag', title: 'Waiting for a slot in the window of its group' }, 'held')] : h('span', { class: 'faint' }, '–')),
    h('td', {}, wait.group ? h('span', { title: placeTold(wait.group) }, `${wait.group.index + 1} of ${wait.group.size}`) : h('span', { class: 'faint' }, '–')),
    h('td', {}, time(wait.since)),
    h('td', {}, time(wait.deadline)),
    h('td', {}, wait.policy ? `it ${POLICIES[wait.policy]}` : h('span', { class: 'faint' }, '–')));
}

function placeTold({ kind, path, size, index }) {
  return `member ${index + 1} of ${size} of ${kind}, call ${path.join(' > ')}`;
}

/** Returns the available width of the drawing. */
function room() {
  const main = document.querySelector('main');
  const all = (main?.clientWidth ?? innerWidth) - (innerWidth > 820 ? 56 : 24) - 30;
  if (innerWidth > 820) return Math.max(360, all - NAMES_PX);
  // A little less than page.css leaves for the drawing: a wider one would be scaled down, and its
  // rows would no longer match the names.
  return Math.max(130, Math.floor((main?.clientWidth ?? innerWidth) * (innerWidth > 560 ? 0.48 : 0.42)));
}
