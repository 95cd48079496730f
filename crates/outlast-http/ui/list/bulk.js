// Bulk verbs on a filter: counts, asks for confirmation, then works page by page and shows the
// progress.

import { post } from '../data/api.js';
import { ENDINGS } from '../instance/ending.js';
import { inWords, toBody } from './filters.js';
import { counted, ENDED, numberOf, plural, STATUSES, whole, words } from '../draw/format.js';
import { dialog } from '../draw/parts.js';
import { h } from '../draw/view.js';

// The statuses to which each verb applies.
export const VERBS = {
  retry: { name: 'Retry', done: 'retried', to: ['failed', 'cancelled'], unless: ['failed'] },
  cancel: { ...ENDINGS.cancel, done: 'asked to cancel', to: STATUSES.filter((status) => !ENDED.has(status)), left: 'had changed or already had a request', danger: true },
  terminate: { ...ENDINGS.terminate, done: 'terminated', to: STATUSES.filter((status) => !ENDED.has(status)), danger: true },
  delete: { name: 'Delete', done: 'deleted', to: [...ENDED], danger: true },
};

/** Returns the filter with the statuses to which the verb applies, or null when none is left. */
export function narrowed(verb, filter) {
  const { to, unless } = VERBS[verb];
  const statuses = filter.statuses.length > 0 ? filter.statuses.filter((status) => to.includes(status)) : unless ?? to;
  return statuses.length > 0 ? { ...filter, statuses } : null;
}

/** Asks and acts. Returns the number of changed instances, or null when the user cancels. */
export async function actOnAll(verb, filter) {
  const { name, done, danger, means, left = 'had changed meanwhile' } = VERBS[verb];
  const chosen = narrowed(verb, filter);
  const body = toBody(chosen);
  const work = { count: null, problem: null, running: false, finished: false, stopped: false, matched: 0, changed: 0, reason: '' };
  let redraw = () => {};

  post(`bulk/${verb}`, { filter: body, dry_run: true })
    .then((count) => { work.count = count; })
    .catch((problem) => { work.problem = problem; })
    .finally(() => redraw());

  async function run() {
    work.running = true;
    let cursor;
    try {
      do {
        const page = await post(`bulk/${verb}`, { filter: body, reason: work.reason.trim() || undefined, cursor });
        work.matched += page.matched;
        work.changed += page.changed;
        cursor = page.next ?? undefined;
        redraw();
      } while (cursor !== undefined && !work.stopped);
    } catch (problem) {
      work.problem = problem;
    }
    work.running = false;
    work.finished = true;
    redraw();
  }

  await dialog((close, draw) => {
    redraw = draw;
    return [
      h('h2', {}, `${name} all matching instances`),
      h('p', { class: 'soft' }, 'Filter: ', h('bdi', {}, inWords(chosen)), '.'),
      means && h('p', { class: 'soft' }, means('Each instance')),
      work.problem && h('div', { class: 'problem', role: 'alert' }, h('strong', {}, work.problem.title ?? 'Refused'), work.problem.message, h('code', {}, work.problem.code)),
      h('p', { 'aria-live': 'polite', 'data-bulk': work.finished ? 'finished' : 'open' }, progressText()),
      work.count && (work.running || work.finished) && h('progress', { max: Math.max(1, numberOf(work.count)), value: Math.min(work.matched, numberOf(work.count)), 'aria-label': 'Progress' }),
      !work.running && !work.finished && h('label', {}, 'Reason (optional, recorded with each operation)', h('input', { name: 'reason', maxlength: '200', autofocus: true, autocomplete: 'off', oninput: (event) => { work.reason = event.target.value; } })),
      h('div', { class: 'actions' }, buttons(close)),
    ];
  }, (close) => {
    if (work.finished) close(true);
    else if (!work.running && work.count && numberOf(work.count) > 0) {
      run();
      redraw();
    }
  });
  work.stopped = true;
  return work.running || work.finished ? work.changed : null;

  function progressText() {
    if (work.finished) return `${plural(work.changed, 'instance')} ${done}${work.matched > work.changed ? `; ${whole(work.matched - work.changed)} ${left}` : ''}.`;
    if (work.running) return `${whole(work.changed)} ${done} so far …`;
    if (work.count) return h('span', {}, h('b', {}, plural(work.count, 'instance')), ` will be ${done}.`);
    return work.problem ? '' : 'Counting …';
  }

  function buttons(close) {
    if (work.finished) return h('button', { type: 'submit', class: 'primary', key: 'end' }, 'Close');
    if (work.running) return h('button', { type: 'button', key: 'stop', onclick: () => { work.stopped = true; } }, 'Stop');
    return [
      h('button', { type: 'button', key: 'leave', onclick: () => close(null) }, 'Go back'),
      h('button', { type: 'submit', key: 'do', class: danger ? 'primary danger' : 'primary', disabled: !work.count || numberOf(work.count) === 0 },
        work.count ? `${name} ${counted(work.count)}` : name),
    ];
  }
}

/** Returns why a verb cannot be used on this filter, or null. */
export function hindrance(verb, filter) {
  return narrowed(verb, filter) ? null : `Only ${VERBS[verb].to.map(words).join(' or ')} instances can be ${VERBS[verb].done}`;
}
