// Family: an instance and its descendants. Each round shows the progress of its join. Its children
// are grouped by status, and statuses that need attention are unfolded.

import { get } from '../data/api.js';
import { end } from '../instance/ending.js';
import { heldOf, joinMeter, marks, policyMark, sharedPolicy } from '../instance/family-parts.js';
import { ENDED, numberOf, plural, STATUSES, whole, words } from '../draw/format.js';
import { follow, repeat } from '../data/live.js';
import { attempt, glyph, problem, skeletons, statusOf, time } from '../draw/parts.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

const DEPTH = 4;
const UNFOLDED = new Set(['failed', 'executing', 'awaiting_children']);
const GATHER_MS = 500;
// Events cover the children; deeper levels are reloaded periodically.
const REFRESH_MS = 5_000;

export function screen({ parts: [id], signal, draw }) {
  let root = null;
  let truncated = false;
  let failed = null;
  let gathering = null;
  const folds = new Map();
  // Further children that are not part of the tree's response, by parent, round and status.
  const further = new Map();

  load();
  repeat(load, REFRESH_MS, signal);
  follow({ parent: id, limit: 50 }, { instance: soon, gone: soon }, load, signal);

  function soon() {
    gathering ??= setTimeout(() => {
      gathering = null;
      if (!signal.aborted) load();
    }, GATHER_MS);
  }

  async function load() {
    try {
      const tree = await get(`instances/${id}/tree`, { depth: DEPTH }, signal);
      root = tree.root;
      truncated = tree.truncated;
      failed = null;
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    draw();
  }

  async function loadMore(parent, round, status, place) {
    const before = further.get(place) ?? { children: [], next: undefined };
    const page = await attempt(() => get(`instances/${parent}/children`, { round, status, cursor: before.next, limit: 100 }, signal));
    if (!page) return;
    further.set(place, { children: [...before.children, ...page.children], next: page.next });
    draw();
  }

  async function endTree(verb) {
    if (await end(verb, root.instance, { tree: true })) load();
  }

  function describe() {
    const it = root?.instance;
    const mayLive = it?.round > 0 && (truncated || lives(root));
    return [
      h('p', { class: 'crumb' }, h('a', { href: href('instances') }, 'Instances'), ' / ', h('a', { href: href(`instances/${id}`) }, id), ' /'),
      h('div', { class: 'head' }, h('h1', {}, 'Family'), it && h('span', { class: 'faint' }, `of ${it.machine} ${it.id}`),
        it && h('div', { class: 'actions' },
          it.parent && h('a', { class: 'button', href: href(`instances/${it.parent.id}/family`) }, 'Show parent'),
          mayLive && h('button', { class: 'danger', onclick: () => endTree('cancel') }, 'Cancel tree …'),
          mayLive && h('button', { class: 'danger', onclick: () => endTree('terminate') }, 'Terminate tree …'))),
      failed && problem(failed, load),
      !root && !failed && h('div', { class: 'card' }, skeletons(10)),
      root && h('div', { class: 'card family' }, member(root, { alone: true })),
      root && (root.rounds ?? []).length === 0 && h('p', { class: 'faint' }, 'No children. They appear here when a step fans out.'),
      truncated && h('p', { class: 'faint' }, 'The family is too large to show in full. Open a member to see its own family.'),
    ];
  }

  /** One member: its line, then its rounds. */
  function member(node, { alone = false, shared = null } = {}) {
    const it = node.instance ?? node;
    const rounds = node.rounds ?? [];
    return h('div', { class: 'member', key: it.id },
      h('div', { class: 'member-line', 'data-row': it.id },
        !alone && it.position !== null && h('span', { class: 'faint mono position', title: 'Position in the fan-out' }, `#${it.position}`),
        h('a', { href: href(`instances/${it.id}`), class: 'mono' }, it.id),
        h('span', { class: 'what' }, `${it.machine} · ${it.step}`), it.key && h('code', { class: 'faint what' }, it.key),
        h('span', { class: 'member-status' }, marks(it), !alone && policyMark(it, shared), alone && statusOf(it.status)),
        h('span', { class: 'faint member-time' }, time(it.updated_at))),
      (it.status === 'failed' || it.status === 'cancelled') && it.last_error && h('p', { class: 'member-error' }, it.last_error.slice(0, 200)),
      rounds.length > 0 && h('div', { class: 'rounds' }, [...rounds].reverse().map((round) => roundOf(it, round))));
  }

  function roundOf(parent, round) {
    return h('div', { class: 'round', key: round.round }, joinMeter(round, parent),
      STATUSES.filter((status) => numberOf(round.counts?.[status]) > 0).map((status) => group(parent, round, status)));
  }

  function group(parent, round, status) {
    const place = `${parent.id} ${round.round} ${status}`;
    const all = numberOf(round.counts[status]);
    const given = (round.children ?? []).filter((child) => (child.instance ?? child).status === status);
    const extra = further.get(place);
    const known = extra ? unique([...given, ...extra.children]) : given;
    const held = status === 'runnable' ? heldOf(round, parent) : 0;
    const open = folds.get(place) ?? (UNFOLDED.has(status) || all <= 3);
    return h('details', { key: status, open, ontoggle: (event) => { folds.set(place, event.target.open); } },
      h('summary', { class: `is-${status}` }, h('span', { class: 'status' }, glyph(status), `${whole(all)} ${words(status)}${held > 0 ? `, ${whole(held)} held` : ''}`)),
      h('div', { class: 'members' }, known.map((child) => member(child, { shared: sharedPolicy(round) })),
        known.length < all && extra?.next !== null && h('button', { class: 'small quiet', onclick: () => loadMore(parent.id, round.round, status, place) }, known.length === 0 ? 'Show them' : `Show more of ${plural(all, 'child', 'children')}`)));
  }

  return { title: () => `Family of ${id}`, describe };
}

/** Returns whether it or any drawn descendant is live. */
function lives(node) {
  const it = node.instance ?? node;
  const rounds = node.rounds ?? [];
  return !ENDED.has(it.status) || rounds.some((round) =>
    Object.keys(round.counts).some((status) => !ENDED.has(status) && numberOf(round.counts[status]) > 0) || (round.children ?? []).some(lives));
}

function unique(children) {
  const seen = new Map(children.map((child) => [(child.instance ?? child).id, child]));
  return [...seen.values()];
}
