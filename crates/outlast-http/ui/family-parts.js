// Children and their joins, as both the screen of an instance and that of its family show them.

import { numberOf, STATUSES, whole } from './format.js';
import { meter } from './parts.js';
import { h } from './view.js';

/** How a round of children stands: { total, ended, failed, counts }. */
export function tally(counts) {
  const of = (status) => numberOf(counts?.[status]);
  const total = STATUSES.reduce((sum, status) => sum + of(status), 0);
  return { total, ended: of('done') + of('failed') + of('cancelled'), failed: of('failed'), cancelled: of('cancelled') };
}

/** The join's meter: `37 of 50, 2 failed`. */
export function joinMeter(round) {
  const { total, ended, failed, cancelled } = tally(round.counts);
  const said = [`${whole(ended)} of ${whole(total)}`, failed && `${whole(failed)} failed`, cancelled && `${whole(cancelled)} cancelled`].filter(Boolean).join(', ');
  return h('div', { class: 'join' },
    h('span', { class: 'join-name' }, `Round ${round.round}`),
    h('span', { class: 'grow' }, meter(round.counts)),
    h('b', { class: 'join-said', 'data-join': round.round }, said));
}
