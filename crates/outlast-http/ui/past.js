// The past of a machine that records it: where it stood and for how long, what it went through, and its states one by one.

import { plural, span, words } from './format.js';
import { card, time } from './parts.js';
import { LANE, lanes, lanesOf } from './timeline.js';
import { h } from './view.js';
import { plainText } from './viewer.js';

/** Rows of earlier builds have `stop` for `fail`. */
const TONES = { retry: 'tone-warning', fail: 'tone-failed', stop: 'tone-failed', cancel: 'tone-cancelled', done: 'tone-done' };
const WAKERS = { signal: 'woken by', timeout: 'woken by the end of its wait', cancel: 'asked to end' };

/** Whether these events are a machine's. */
export function isPast(events) {
  return events[0]?.kind === 'transitioned';
}

/** The steps of a machine as lanes, to scale; `until` is where a stay that has not ended ends for now. */
export function drawPast(events, { until, width }) {
  const { rows, moments } = lanesOf(events, until);
  return h('div', { class: 'timeline', 'data-lanes': true },
    h('ul', { class: 'timeline-names', style: { 'padding-top': `${LANE.top}px` } }, rows.map((row) => h('li', { key: row.step, 'data-lane': row.step, style: { height: `${LANE.height}px` } },
      h('span', { class: 'fold' }), h('span', { class: 'kind' }, 'step'), h('span', { class: 'name', title: row.step }, row.step),
      h('span', { class: 'call faint' }, `${plural(row.stays.length, 'stay')}, ${span(row.stays.reduce((sum, stay) => sum + stay.to - stay.from, 0))}`)))),
    lanes({ rows, moments, width }));
}

export function toneOfTransition({ outcome }) {
  return TONES[outcome] ?? 'tone-flow';
}

/** What a transition says, in the line of its event. */
export function transitionLine({ transition: it, deadline }) {
  return [
    h('span', {}, words(it.outcome)), it.to && h('span', { class: 'event-name' }, `→ ${it.to}`),
    it.attempt > 0 && h('span', { class: 'tag' }, `attempt ${it.attempt + 1}`),
    it.crashes > 0 && h('span', { class: 'tag', title: 'Workers that died while they ran it' }, plural(it.crashes, 'crash', 'crashes')),
    it.woken_by && h('span', { class: 'faint' }, it.woken_by === 'signal' ? `${WAKERS.signal} ${it.signals.join(', ')}` : WAKERS[it.woken_by]),
    it.children !== null && h('span', { class: 'faint' }, plural(it.children, 'child', 'children')),
    it.awaits.length > 0 && h('span', { class: 'faint' }, `waits for ${it.awaits.join(', ')}`),
    deadline && h('span', { class: 'faint' }, it.outcome === 'retry' ? 'again ' : 'until ', time(deadline)),
    it.left_out !== null && h('span', { class: 'faint' }, `a state of ${plural(it.left_out, 'byte')} is not recorded`),
  ];
}

/** The states that there were, in their order: `{ seq, at, step, state }`. The first is the one that recording began with. */
export function statesOf(events) {
  const states = [];
  for (const event of events) {
    const it = event.transition;
    if (it?.began) states.push({ seq: event.seq - 1, at: null, step: event.name, state: it.began });
    if (it?.state) states.push({ seq: event.seq, at: event.at, step: it.to, state: it.state });
  }
  return states;
}

/** Gives `describe(events)`: one state of the past at a time, and how to step to the one before and the next. */
export function pastStates(draw) {
  // Which one, or null for the newest, whichever that is.
  let chosen = null;

  function describe(events) {
    const states = statesOf(events);
    if (states.length === 0) return null;
    const last = states.length - 1;
    const index = Math.min(chosen ?? last, last);
    const go = (to) => { chosen = to >= last ? null : Math.max(0, to); draw(); };
    const { seq, at, step, state } = states[index];
    return card('Past states', h('span', { class: 'actions' },
      h('button', { class: 'small', 'data-past': 'back', disabled: index === 0, title: 'The state before', onclick: () => go(index - 1) }, '‹ Back'),
      h('span', { class: 'badge', 'aria-live': 'polite' }, `${index + 1} of ${states.length}`),
      h('button', { class: 'small', 'data-past': 'on', disabled: index === last, title: 'The state after', onclick: () => go(index + 1) }, 'On ›')),
    h('div', { class: 'body stack' },
      last > 0 && h('input', { type: 'range', class: 'past-range', min: '0', max: String(last), step: '1', value: String(index), 'aria-label': 'Which state', oninput: (moved) => go(Number(moved.target.value)) }),
      h('p', { class: 'soft', 'data-past-said': true }, 'At step ', h('b', { class: 'event-name' }, step), at ? [', after event ', seq, ', ', time(at)] : ', when recording began'),
      h('div', { class: 'well', 'data-past-state': index }, h('json-view', { raw: state }))));
  }

  return { describe };
}

/** An error as text, whatever is in it. */
export function reasonOf(reason) {
  return h('p', { class: 'soft event-reason', key: reason, mounted: (element) => element.replaceChildren(...plainText(reason)) });
}
