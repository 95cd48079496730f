// The timeline of a run: the start and end of each call, to scale. It computes and draws rows;
// flow.js supplies the events.

import { APPLIED } from './family-parts.js';
import { plural, span, words } from '../draw/format.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

const ROW = 26;
const AXIS = 24;
const BAR = 12;
const LEAST = 3;
const GROUP_OPEN = 10;

const ENDINGS = {
  step_completed: 'completed', activity_completed: 'completed', child_completed: 'completed',
  step_failed: 'failed', activity_failed: 'failed', child_failed: 'failed',
  activity_cancelled: 'cancelled', child_cancelled: 'cancelled', child_terminated: 'terminated',
  timer_fired: 'fired', timer_cancelled: 'cancelled', signal_consumed: 'consumed',
  group_resolved: 'resolved', selection_resolved: 'resolved',
};
const KINDS = {
  step: /^step_/, activity: /^activity_/, child: /^child_(?!messaged)/, timer: /^timer_/, signal: /^signal_/, all: /^group_/, select: /^selection_/,
};
// Events of the run that are no calls: drawn as a line through all rows if they concern all of
// them.
const MOMENTS = {
  run_started: ['started', 'flow'], failure_handled: ['failure handled', 'warning'], version_marked: ['version marked', 'flow'],
  cancel_requested: ['cancel requested', 'warning', true], replay_blocked: ['replay blocked', 'failed', true], child_messaged: ['child signalled', 'flow'],
  policy_applied: ['close policy applied to a child of an earlier run', 'warning'],
  update_accepted: ['update accepted', 'flow'], update_completed: ['update answered', 'flow'],
  continued_as_new: ['continued as new', 'done', true], run_completed: ['completed', 'done', true], run_failed: ['failed', 'failed', true], run_cancelled: ['cancelled', 'cancelled', true], timed_out: ['timed out', 'failed', true],
};
const HUES = { step: 'executing', activity: 'done', child: 'awaiting_children', timer: 'sleeping', signal: 'awaiting_signal', all: 'flow', select: 'flow' };
const BAD = new Set(['failed', 'terminated']);
const FAINT = new Set(['cancelled']);

/** How a stay at a step is drawn, by the outcome that led there. */
const STAYS = { next: 'executing', retry: 'runnable', wait: 'awaiting_signal', fan_out: 'awaiting_children' };
/** Rows of earlier builds have `stop` for `fail`. */
const ENDS = { done: ['done', 'done'], fail: ['failed', 'failed'], stop: ['failed', 'failed'], cancel: ['cancelled', 'cancelled'] };

/** Where the rows begin, and their height. */
export const LANE = { top: AXIS, height: ROW };

/**
 * Returns the steps of a machine as rows, in the order of their first visit, each with its stays;
 * and the ends. A stay begins with the commit that led to the step and ends with the one that left
 * it. Stays before the first event are unknown.
 */
export function lanesOf(events, until) {
  const rows = new Map();
  const moments = [];
  const stay = (step, from, to, outcome, seq, open = false, sleeps = false) => {
    if (!rows.has(step)) rows.set(step, { step, stays: [] });
    rows.get(step).stays.push({ from, to, outcome, seq, open, sleeps });
  };
  events.forEach((event, index) => {
    const { outcome, to, awaits } = event.transition ?? {};
    const at = Date.parse(event.at);
    if (index === 0) stay(event.name, at, at, 'next', event.seq - 1);
    if (ENDS[outcome]) moments.push({ seq: event.seq, at, outcome, reason: event.reason });
    const next = events[index + 1];
    if (to && !event.transition.is_last) stay(to, at, next ? Date.parse(next.at) : Math.max(at, until), outcome, event.seq, !next, outcome === 'wait' && awaits?.length === 0);
  });
  return { rows: [...rows.values()], moments };
}

/** Draws rows to scale. */
export function lanes({ rows, moments, width }) {
  const stays = rows.flatMap((row) => row.stays);
  const from = Math.min(...stays.map((stay) => stay.from));
  const to = Math.max(from + 1, ...stays.map((stay) => stay.to), ...moments.map((each) => each.at));
  const height = AXIS + rows.length * ROW + 6;
  const x = (at) => 4 + ((at - from) / (to - from)) * (width - 12);
  return h('svg', { class: 'timeline-drawing', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `Timeline of ${plural(stays.length, 'visit')} to ${plural(rows.length, 'step')} over ${span(to - from)}` },
    rows.map((row, index) => index % 2 === 1 && h('rect', { key: `band ${row.step}`, class: 'band', x: 0, y: AXIS + index * ROW, width, height: ROW })),
    axis(from, to, width, height, x),
    rows.map((row, index) => row.stays.map((stay) => stayOf(row.step, stay, x, AXIS + index * ROW + ROW / 2))),
    moments.map(({ seq, at, outcome, reason }) => diamond({ seq, kind: outcome, said: ENDS[outcome][0], reason, hue: ENDS[outcome][1], through: true }, x(at).toFixed(1), height)));
}

function stayOf(step, { from, to, outcome, seq, open, sleeps }, x, middle) {
  const [left, right] = [x(from), Math.max(x(to), x(from) + LEAST)];
  const told = `${step}, ${open ? 'for' : 'left after'} ${span(to - from)}, entered by ${words(outcome)}`;
  return h('g', { key: `stay ${seq}`, class: `call-bar${open ? ' is-open' : ''}`, 'data-stay': seq, style: { '--hue': `var(--${sleeps ? 'sleeping' : STAYS[outcome] ?? 'flow'})` } }, h('title', {}, told),
    h('rect', { class: 'bar', x: left, y: middle - BAR / 2, width: right - left, height: BAR, rx: 3 }));
}

/**
 * Returns the calls of a run as rows, in the order of the calls, and its moments. `at` are
 * numbers, in milliseconds. The first event of a call decides its kind: the start event of an
 * activity is that of any child.
 */
export function rowsOf(events) {
  const rows = new Map();
  const moments = [];
  let before = events.length > 0 ? Date.parse(events[0].at) : 0;
  for (const event of events) {
    const at = Date.parse(event.at);
    const kind = Object.keys(KINDS).find((each) => KINDS[each].test(event.kind));
    if (event.kind === 'policy_applied') apply(rows, moments, event, at);
    else if (MOMENTS[event.kind]) moments.push({ seq: event.seq, at, kind: event.kind, name: [event.name, event.update, event.reply].filter(Boolean).join(' '), reason: event.reason ?? event.found });
    if (kind && event.call !== null) {
      const row = rows.get(event.call) ?? begin(rows, event, kind, at, before);
      row.name = event.name || row.name;
      row.child = event.child ?? row.child;
      row.childRun = event.child_run ?? row.childRun;
      row.deadline = event.deadline ?? row.deadline;
      if (ENDINGS[event.kind]) Object.assign(row, { to: at, end: ENDINGS[event.kind], reason: event.reason });
    }
    before = Math.max(before, at);
  }
  for (const row of rows.values()) if (row.members.length > 0) Object.assign(row, within(row, rows));
  return { rows: [...rows.values()].sort((a, b) => a.call - b.call), moments };
}

/** The end of the run affected a child. A child of an earlier run has no row here. */
function apply(rows, moments, event, at) {
  const row = event.call === null ? null : rows.get(event.call);
  if (!row) {
    moments.push({ seq: event.seq, at, kind: event.kind, name: `${event.name} ${event.child}`.trim(), reason: event.reason });
    return;
  }
  Object.assign(row, { applied: { at, policy: event.policy }, child: event.child, reason: event.reason });
  // A child that was only asked to cancel continues for a while; its own page shows the rest.
  if (event.policy === 'terminate') Object.assign(row, { to: at, end: 'terminated' });
}

/**
 * The first event of a call. A single step is recorded only at its end: it began when the code
 * continued.
 */
function begin(rows, event, kind, at, before) {
  const alone = event.kind === 'step_completed' || event.kind === 'step_failed';
  const path = event.group?.path ?? [];
  path.forEach((group, depth) => {
    if (rows.has(group)) return;
    rows.set(group, { call: group, kind: depth === 0 ? event.group.kind : 'all', name: '', depth, path: path.slice(0, depth), from: at, to: null, end: null, members: [], size: depth === 0 ? event.group.size : null });
  });
  const row = { call: event.call, kind, name: event.name, depth: path.length, path, from: alone ? Math.min(before, at) : at, to: null, end: null, members: [] };
  rows.set(event.call, row);
  for (const group of path) rows.get(group).members.push(event.call);
  return row;
}

/** A group spans its members. */
function within(row, rows) {
  const members = row.members.map((call) => rows.get(call));
  const waiting = members.filter((each) => each.to === null).map((each) => each.call);
  return { from: Math.min(row.from, ...members.map((each) => each.from)), waiting, size: row.size ?? members.length };
}

/** Returns the shown rows: of a folded group only the group. `folds` has the user's choices. */
export function shownRows(rows, folds) {
  const folded = new Set(rows.filter((row) => row.members.length > 0 && !isOpen(row, folds)).map((row) => row.call));
  return rows.filter((row) => !row.path.some((group) => folded.has(group)));
}

export function isOpen(row, folds) {
  return folds.get(row.call) ?? row.members.length <= GROUP_OPEN;
}

/** Returns round times within a period, as many as fit: `{ at, text }`, relative to its start. */
export function ticks(from, to, room) {
  const length = Math.max(1, to - from);
  const units = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];
  const step = units.find((unit) => length / unit <= Math.max(2, room / 90)) ?? length;
  const found = [];
  for (let at = 0; at <= length; at += step) found.push({ at: from + at, text: at === 0 ? '0' : span(at).replace(/\.0 s$/, ' s') });
  return found;
}

/**
 * Draws rows to scale. `until` is the temporary end of open calls; `gone(call)` returns whether a
 * call that is open in the history has ended meanwhile.
 */
export function timeline({ rows, moments, until, width, folds, fold, alive, gone }) {
  const from = Math.min(...rows.map((row) => row.from), ...moments.map((each) => each.at), until);
  const to = Math.max(until, from + 1, ...rows.map((row) => row.to ?? 0), ...moments.map((each) => each.at));
  const shown = shownRows(rows, folds);
  const height = AXIS + shown.length * ROW + 6;
  const x = (at) => 4 + ((at - from) / (to - from)) * (width - 12);
  return h('div', { class: 'timeline', 'data-timeline': true },
    h('ul', { class: 'timeline-names', style: { 'padding-top': `${AXIS}px` } }, shown.map((row) => nameOf(row, { folds, fold, alive, gone }))),
    h('svg', { class: 'timeline-drawing', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `Timeline of ${plural(rows.length, 'call')} over ${span(to - from)}` },
      h('defs', {}, h('pattern', { id: 'open', width: 6, height: 6, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, h('rect', { class: 'hatch', width: 3, height: 6 }))),
      shown.map((row, index) => index % 2 === 1 && h('rect', { key: `band ${row.call}`, class: 'band', x: 0, y: AXIS + index * ROW, width, height: ROW })),
      axis(from, to, width, height, x),
      moments.map((each) => momentOf(each, x, height)),
      shown.map((row, index) => barOf(row, { x, y: AXIS + index * ROW, until: to, alive, gone, folded: row.members.length > 0 && !isOpen(row, folds) }))));
}

function nameOf(row, { folds, fold, alive, gone }) {
  const group = row.members.length > 0;
  const said = group ? groupSaid(row) : row.name;
  return h('li', { key: row.call, class: `is-${row.kind}`, 'data-call': row.call, 'data-row': group || row.child ? row.call : null, style: { height: `${ROW}px`, 'padding-left': `${row.depth * 16}px` } },
    group ? h('button', { class: 'fold', 'aria-expanded': String(isOpen(row, folds)), title: isOpen(row, folds) ? 'Fold' : 'Unfold', onclick: () => fold(row.call, !isOpen(row, folds)) }, isOpen(row, folds) ? '▾' : '▸') : h('span', { class: 'fold' }),
    h('span', { class: 'kind' }, words(row.kind)), h('span', { class: 'name', title: said }, said),
    row.child && h('a', { class: 'mono', href: href(`instances/${row.child}`) }, row.child), row.childRun > 1 && h('span', { class: 'faint' }, `run ${row.childRun}`),
    h('span', { class: `call ${BAD.has(row.end) ? 'bad' : 'faint'}` }, outcomeOf(row, alive, gone), h('span', { class: 'unseen' }, `, call ${row.call}`)));
}

function groupSaid(row) {
  return row.kind === 'select' ? `among ${plural(row.size, 'call')}` : `of ${row.size}`;
}

function outcomeOf(row, alive, gone) {
  if (row.end) return BAD.has(row.end) || FAINT.has(row.end) ? `${row.end} ${span(row.to - row.from)}` : span(row.to - row.from);
  if (row.applied) return APPLIED[row.applied.policy];
  if (!alive) return row.members.length > 0 ? '' : row.left ? words(row.left) : 'left open';
  if (row.members.length > 0) return `${row.waiting.filter((call) => !gone(call)).length} open`;
  return gone(row.call) ? 'finished' : 'open';
}

function barOf(row, { x, y, until, alive, gone, folded }) {
  const [left, right] = [x(row.from), Math.max(x(row.to ?? until), x(row.from) + LEAST)];
  const hue = BAD.has(row.end) ? 'failed' : FAINT.has(row.end) ? 'cancelled' : HUES[row.kind];
  const middle = y + ROW / 2;
  const group = row.members.length > 0;
  const told = `call ${row.call}: ${row.kind} ${row.name}${row.child ? ` ${row.child}` : ''}, ${row.end ?? outcomeOf(row, alive, gone)} after ${span((row.to ?? until) - row.from)}${row.reason ? `: ${row.reason.slice(0, 200)}` : ''}`;
  return h('g', { key: row.call, class: `call-bar${row.end ? '' : ' is-open'}`, 'data-bar': row.call, style: { '--hue': `var(--${hue})` } }, h('title', {}, told),
    group && !folded
      ? h('path', { class: 'bracket', d: `M${left.toFixed(1)} ${middle + 5}v-8H${right.toFixed(1)}v8` })
      : [h('rect', { class: 'bar', x: left, y: middle - BAR / 2, width: right - left, height: BAR, rx: 3 }),
        !row.end && h('rect', { class: 'open', x: left, y: middle - BAR / 2, width: right - left, height: BAR, rx: 3, fill: 'url(#open)' })],
    row.applied && h('path', { class: 'applied', 'data-applied': row.applied.policy, d: `M${x(row.applied.at).toFixed(1)} ${middle - 9}v18` }),
    BAD.has(row.end) && h('path', { class: 'cross', d: `M${right - 4} ${middle - 4}l8 8m0-8l-8 8` }),
    row.end === 'consumed' && h('circle', { class: 'dot', cx: right, cy: middle, r: 4 }),
    row.end === 'fired' && h('path', { class: 'cross', d: `M${right} ${middle - 6}v12` }));
}

function axis(from, to, width, height, x) {
  return ticks(from, to, width).map(({ at, text }) => [
    h('line', { class: 'grid', x1: x(at), x2: x(at), y1: AXIS - 4, y2: height }),
    h('text', { class: 'tick', x: x(at), y: AXIS - 9, 'text-anchor': at === from ? 'start' : x(at) > width - 40 ? 'end' : 'middle' }, text)]);
}

function momentOf({ seq, at, kind, name, reason }, x, height) {
  const [said, hue, through] = MOMENTS[kind];
  return diamond({ seq, kind, said, name, reason, hue, through }, x(at).toFixed(1), height);
}

function diamond({ seq, kind, said, name, reason, hue, through }, here, height) {
  return h('g', { key: `moment ${seq}`, class: 'moment', 'data-moment': kind, style: { '--hue': `var(--${hue})` } },
    h('title', {}, [said, name, reason?.slice(0, 200)].filter(Boolean).join(': ')),
    through && h('line', { x1: here, x2: here, y1: AXIS - 3, y2: height }),
    h('path', { d: `M${here} ${AXIS - 6}l4 4-4 4-4-4z` }));
}
