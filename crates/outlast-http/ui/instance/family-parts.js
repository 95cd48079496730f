// Children and their joins, shared by the screens of an instance and of its family.

import { ENDED, numberOf, plural, STATUSES, whole } from '../draw/format.js';
import { meter, time } from '../draw/parts.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

// The close policies: what happens to a live child when its parent finishes or continues without
// it.
export const POLICIES = { abandon: 'continues', request_cancel: 'is asked to cancel', terminate: 'is terminated' };
// The effect of each policy.
export const APPLIED = { request_cancel: 'asked to cancel', terminate: 'terminated' };
const MARKS = { abandon: 'continues without parent', request_cancel: 'cancels with parent', terminate: 'terminates with parent' };
const POLICIES_OF_MANY = { abandon: 'continue', request_cancel: 'are asked to cancel', terminate: 'are terminated' };

const WOKEN = {
  all: 'Joined: all children finished',
  failure: 'Joined by the first failure',
  quorum: 'Joined by the quorum',
  impossible: 'Joined without the quorum',
  deadline: 'Joined by the deadline',
};

/** Sums up a round of children: { total, ended, failed, cancelled }. */
export function roundCounts(counts) {
  const of = (status) => numberOf(counts?.[status]);
  const total = STATUSES.reduce((sum, status) => sum + of(status), 0);
  return { total, ended: of('done') + of('failed') + of('cancelled'), failed: of('failed'), cancelled: of('cancelled') };
}

/**
 * The progress of a join: `37 of 50, 2 failed`; for the last round also its condition and why it
 * was woken.
 */
export function joinMeter(round, parent) {
  const { total, ended, failed, cancelled } = roundCounts(round.counts);
  const said = [`${whole(ended)} of ${whole(total)}`, failed && `${whole(failed)} failed`, cancelled && `${whole(cancelled)} cancelled`].filter(Boolean).join(', ');
  const barrier = barrierOf(round, parent);
  return h('div', { class: 'joining' },
    h('div', { class: 'join' },
      h('span', { class: 'join-name' }, `Round ${round.round}`),
      h('span', { class: 'grow' }, meter(round.counts)),
      h('b', { class: 'join-said', 'data-join': round.round }, said)),
    barrier && h('ul', { class: 'tags', 'data-terms': round.round }, terms(barrier, parent, sharedPolicy(round)).map((term) => h('li', { class: 'tag' }, term))));
}

/** Returns how many children of a round wait for a slot in its window. */
export function heldOf(round, parent) {
  const barrier = barrierOf(round, parent);
  return barrier?.window ? Math.max(0, barrier.pending - barrier.window) : 0;
}

/** Returns the close policy of a round, if all shown children have the same. */
export function sharedPolicy(round) {
  const policies = new Set((round.children ?? []).map((child) => child.instance.on_parent_close));
  return policies.size === 1 ? [...policies][0] : 'abandon';
}

/** Only the barrier of the last fan-out is stored. */
function barrierOf(round, parent) {
  return parent?.round === round.round ? parent.barrier : null;
}

function terms(barrier, parent, policy) {
  const atItsEnd = policy !== 'abandon' && !ENDED.has(parent.status) ? [`When it ends, they ${POLICIES_OF_MANY[policy]}`] : [];
  return [...until(barrier), ...window(barrier), ...ending(barrier, parent), ...atItsEnd];
}

function until({ until: kind, needs, started, pending, failed }) {
  if (kind === 'fail_fast') return ['Until all finish or one fails'];
  if (kind === 'quorum') return [h('span', {}, needs === 1 ? 'Any of ' : `Quorum ${whole(needs)} of `, whole(started), `: ${whole(started - pending - failed)} done`)];
  return ['Until all finish'];
}

function window({ window: places, pending }) {
  if (!places) return [];
  const held = Math.max(0, pending - places);
  return [`Window ${whole(places)}${held > 0 ? `: ${plural(held, 'child waits', 'children wait')} for a slot` : ''}`];
}

function ending({ joined, deadline, rest, first_failure: first, pending }, parent) {
  const waits = parent.status === 'awaiting_children';
  return [
    deadline && h('span', {}, 'Deadline ', time(deadline)),
    rest !== 'abandon' && (waits || pending > 0) && `The rest ${POLICIES[rest]}`,
    first && h('span', {}, 'First failure ', h('a', { href: href(`instances/${first}`) }, first)),
    joined && WOKEN[joined],
    !joined && !waits && parent.cancel && 'Not joined: cancelled first',
  ].filter(Boolean);
}

/** Marks beside the status: held, or asked to cancel. */
export function marks({ cancel, held, status }) {
  if (ENDED.has(status)) return [];
  return [
    held === true && h('span', { class: 'tag', title: 'Waiting for a slot in the window of its parent’s fan-out' }, 'held'),
    cancel && h('span', { class: 'tag asked', title: cancel.reason, 'data-cancel': cancel.answered ? 'answered' : 'pending' }, cancel.answered ? 'cancel handled' : 'cancel requested'),
  ].filter(Boolean);
}

/** The close policy of a child, unless its round already shows it. */
export function policyMark({ on_parent_close: policy, status }, shared) {
  if (ENDED.has(status) || !policy || policy === shared) return null;
  return h('span', { class: 'tag', title: `When its parent ends, it ${POLICIES[policy]}` }, MARKS[policy]);
}
