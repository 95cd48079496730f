// The recorded history of a machine: its stays at steps, its transitions, and its states one by
// one.

import { plural, span, words } from '../draw/format.js';
import { card, time } from '../draw/parts.js';
import { LANE, lanes, lanesOf } from './timeline.js';
import { h } from '../draw/view.js';
import { plainText } from '../draw/viewer.js';

/** Rows of earlier builds have `stop` for `fail`. */
const TONES = { retry: 'tone-warning', fail: 'tone-failed', stop: 'tone-failed', cancel: 'tone-cancelled', done: 'tone-done' };
const WAKERS = { signal: 'woken by', timeout: 'woken by its timeout', cancel: 'cancel requested' };

/** Returns whether these events are a machine's. */
export function isPast(events) {
  return events[0]?.kind === 'transitioned';
}

/**
 * Draws the steps of a machine as rows, to scale; `until` is the temporary end of an open stay.
 */
export function drawPast(events, { until, width }) {
  const { rows, moments } = lanesOf(events, until);
  return h('div', { class: 'timeline', 'data-lanes': true },
    h('ul', { class: 'timeline-names', style: { 'padding-top': `${LANE.top}px` } }, rows.map((row) => h('li', { key: row.step, 'data-lane': row.step, style: { height: `${LANE.height}px` } },
      h('span', { class: 'fold' }), h('span', { class: 'kind' }, 'step'), h('span', { class: 'name', title: row.step }, row.step),
      h('span', { class: 'call faint' }, `${plural(row.stays.length, 'visit')}, ${span(row.stays.reduce((sum, stay) => sum + stay.to - stay.from, 0))}`)))),
    lanes({ rows, moments, width }));
}

export function toneOfTransition({ outcome }) {
  return TONES[outcome] ?? 'tone-flow';
}

/** Describes a transition, in the line of its event. */
export function transitionLine({ transition: it, deadline }) {
  return [
    h('span', {}, words(it.outcome)), it.to && h('span', { class: 'event-name' }, `→ ${it.to}`),
    it.attempt > 0 && h('span', { class: 'tag' }, `attempt ${it.attempt + 1}`),
    it.crashes > 0 && h('span', { class: 'tag', title: 'Worker crashes during this step' }, plural(it.crashes, 'crash', 'crashes')),
    it.woken_by && h('span', { class: 'faint' }, it.woken_by === 'signal' ? `${WAKERS.signal} ${it.signals.join(', ')}` : WAKERS[it.woken_by]),
    it.children !== null && h('span', { class: 'faint' }, plural(it.children, 'child', 'children')),
    it.awaits.length > 0 && h('span', { class: 'faint' }, `waits for ${it.awaits.join(', ')}`),
    deadline && h('span', { class: 'faint' }, it.outcome === 'retry' ? 'again ' : 'until ', time(deadline)),
    it.left_out !== null && h('span', { class: 'faint' }, `state of ${plural(it.left_out, 'byte')} not recorded`),
  ];
}

/**
 * Returns the past states in order: `{ seq, at, step, state }`. The first one is the state when
 * recording began.
 */
export function statesOf(events) {
  const states = [];
  for (const event of events) {
    const it = event.transition;
    if (it?.began) states.push({ seq: event.seq - 1, at: null, step: event.name, state: it.began });
    if (it?.state) states.push({ seq: event.seq, at: event.at, step: it.to, state: it.state });
  }
  return states;
}

/**
 * Returns `describe(events)`: one past state at a time, with buttons for the previous and the
 * next.
 */
export function pastStates(draw) {
  // The chosen state, or null for the newest.
  let chosen = null;

  function describe(events) {
    const states = statesOf(events);
    if (states.length === 0) return null;
    const last = states.length - 1;
    const index = Math.min(chosen ?? last, last);
    const go = (to) => { chosen = to >= last ? null : Math.max(0, to); draw(); };
    const { seq, at, step, state } = states[index];
    return card('Past states', h('span', { class: 'actions' },
      h('button', { class: 'small', 'data-past': 'back', disabled: index === 0, title: 'Previous state', onclick: () => go(index - 1) }, '‹ Previous'),
      h('span', { class: 'badge', 'aria-live': 'polite' }, `${index + 1} of ${states.length}`),
      h('button', { class: 'small', 'data-past': 'on', disabled: index === last, title: 'Next state', onclick: () => go(index + 1) }, 'Next ›')),
    h('div', { class: 'body stack' },
      last > 0 && h('input', { type: 'range', class: 'past-range', min: '0', max: String(last), step: '1', value: String(index), 'aria-label': 'State', oninput: (moved) => go(Number(moved.target.value)) }),
      h('p', { class: 'soft', 'data-past-said': true }, 'At step ', h('b', { class: 'event-name' }, step), at ? [', after event ', seq, ', ', time(at)] : ', when recording began'),
      h('div', { class: 'well', 'data-past-state': index }, h('json-view', { raw: state }))));
  }

  return { describe };
}

/** Returns an error as text. */
export function reasonOf(reason) {
  return h('p', { class: 'soft event-reason', key: reason, mounted: (element) => element.replaceChildren(...plainText(reason)) });
}
