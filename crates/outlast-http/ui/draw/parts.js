// Elements that the screens share.

import { h, render, visible } from './view.js';
import { exact, numberOf, plural, STATUSES, whole, words } from './format.js';
import { href } from '../router.js';

const GLYPHS = {
  runnable: [['circle', { cx: 6, cy: 6, r: 4.4 }]],
  executing: [['path', { class: 'full', d: 'M3 1.6v8.8L10.6 6z' }]],
  awaiting_signal: [['path', { d: 'M2.4 1.4h7.2M2.4 10.6h7.2M3.3 1.4c0 2.7 2.7 3 2.7 4.6s-2.7 1.9-2.7 4.6M8.7 1.4c0 2.7-2.7 3-2.7 4.6s2.7 1.9 2.7 4.6' }]],
  sleeping: [['path', { d: 'M10.2 7.5A4.6 4.6 0 1 1 4.5 1.8a3.9 3.9 0 0 0 5.7 5.7z' }]],
  awaiting_children: [['path', { d: 'M6 1.4v3M6 4.4C6 7 2.4 6 2.4 9M6 4.4C6 7 9.6 6 9.6 9' }], ['circle', { class: 'full', cx: 2.4, cy: 9.8, r: 1.5 }], ['circle', { class: 'full', cx: 9.6, cy: 9.8, r: 1.5 }]],
  done: [['path', { d: 'M1.8 6.6l2.9 2.9 5.5-6.5' }]],
  failed: [['path', { d: 'M2.4 2.4l7.2 7.2M9.6 2.4l-7.2 7.2' }]],
  cancelled: [['circle', { cx: 6, cy: 6, r: 4.4 }], ['path', { d: 'M3 9l6-6' }]],
};

/** The shape of a status. */
export function glyph(status) {
  const shapes = GLYPHS[status] ?? GLYPHS.runnable;
  return h('svg', { class: 'glyph', viewBox: '0 0 12 12', 'aria-hidden': 'true' }, shapes.map(([tag, props]) => h(tag, props)));
}

/** A status: shape, colour and word. */
export function statusOf(status) {
  return h('span', { class: `status is-${status}` }, glyph(status), words(status));
}

/** A relative time, with the exact one on hover. */
export function time(at, otherwise = '–') {
  return at ? h('relative-time', { at }) : h('span', { class: 'faint' }, otherwise);
}

/** A fixed duration, with its end on hover. */
export function titled(text, at) {
  return h('span', { title: exact(at) }, text);
}

/** A bar of counts by status. */
export function meter(counts, { thin = false } = {}) {
  const present = STATUSES.filter((status) => numberOf(counts[status]) > 0);
  const label = present.map((status) => `${whole(numberOf(counts[status]))} ${words(status)}`).join(', ') || 'none';
  return h('div', { class: thin ? 'meter thin' : 'meter', role: 'img', 'aria-label': label, title: label },
    present.map((status) => h('span', { key: status, class: `is-${status}`, style: { 'flex-grow': String(numberOf(counts[status])) } })));
}

/** A card with a heading. */
export function card(title, aside, ...body) {
  return h('section', { class: 'card', 'aria-label': title }, h('header', {}, h('h2', {}, title), aside), body);
}

export function skeletons(lines = 5) {
  return h('div', { class: 'skeletons', 'aria-busy': 'true', 'aria-label': 'loading' },
    Array.from({ length: lines }, (_, line) => h('div', { class: 'skeleton', style: { width: `${92 - ((line * 23) % 47)}%` } })));
}

/** An empty state, and what to do about it. */
export function empty(title, hint, action) {
  return h('div', { class: 'empty' }, h('strong', {}, title), hint && h('p', {}, hint), action);
}

/** An error with its code, and a retry button. */
export function problem(error, again) {
  return h('div', { class: 'problem', role: 'alert' },
    h('strong', {}, error.title ?? 'Something went wrong'),
    h('span', {}, error.message),
    error.code && h('code', {}, error.code),
    again && h('div', { class: 'actions' }, h('button', { onclick: again }, 'Try again')));
}

/** A link to the list of instances that a filter matches. */
export function toInstances(filter, ...content) {
  return h('a', { href: href('instances', filter) }, content);
}

/** A number of instances that links to them, or a faint zero. */
export function linkedCount(count, filter) {
  if (!numberOf(count)) return h('span', { class: 'faint' }, '0');
  return h('a', { href: href('instances', filter), title: plural(count, 'instance') }, typeof count === 'object' ? `${whole(count.count)}${count.exact ? '' : '+'}` : whole(count));
}

/**
 * Shows a dialog and returns the value with which it is closed; Escape closes with null.
 * `describe(close, redraw)` returns the form's content; its submit calls `submit(close, redraw)`.
 */
export function dialog(describe, submit = (close) => close(true)) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const element = document.createElement('dialog');
    let answer = null;
    const close = (value) => {
      answer = value;
      element.close();
    };
    const redraw = () => {
      if (!element.isConnected) return;
      render(element, h('form', {
        method: 'dialog',
        onsubmit: (event) => {
          event.preventDefault();
          submit(close, redraw);
        },
      }, describe(close, redraw)));
    };
    element.addEventListener('close', () => {
      element.remove();
      before?.focus?.();
      resolve(answer);
    });
    document.body.append(element);
    redraw();
    element.showModal();
    element.querySelector('[autofocus]')?.focus();
  });
}

/** Asks for confirmation. Returns `{ reason }`, or null. */
export function confirm({ title, text, action, danger = false, reason = true }) {
  let said = '';
  return dialog((close) => [
    h('h2', {}, title),
    text && h('p', { class: 'soft' }, text),
    reason && h('label', {}, 'Reason (optional, recorded with the operation)',
      h('input', { name: 'reason', maxlength: '200', autofocus: true, autocomplete: 'off', oninput: (event) => { said = event.target.value; } })),
    h('div', { class: 'actions' },
      h('button', { type: 'button', onclick: () => close(null) }, 'Go back'),
      h('button', { type: 'submit', class: danger ? 'primary danger' : 'primary', autofocus: !reason }, action)),
  ], (close) => close({ reason: said.trim() || undefined }));
}

/** A note that disappears by itself; screen readers announce it. */
export function toast(text, { bad = false } = {}) {
  const note = document.createElement('div');
  note.className = bad ? 'toast bad' : 'toast';
  note.textContent = visible(text);
  document.querySelector('.toasts')?.append(note);
  setTimeout(() => note.remove(), bad ? 10_000 : 5_000);
}

/** Runs an action and shows the API's refusal. */
export async function attempt(doing, done) {
  try {
    const answer = await doing();
    if (done) toast(done);
    return answer;
  } catch (error) {
    if (error.name === 'AbortError') return undefined;
    toast(error.code ? `${error.message} (${error.code})` : error.message, { bad: true });
    return undefined;
  }
}
