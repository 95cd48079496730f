// The dialog that cancels or terminates an instance or its whole tree. It explains the difference,
// and counts a tree first.

import { get, post } from '../data/api.js';
import { counted, ENDED, STATUSES, whole, words } from '../draw/format.js';
import { dialog, toast } from '../draw/parts.js';
import { h } from '../draw/view.js';

// The difference is who decides how the instance ends: its machine or the operator.
export const ENDINGS = {
  cancel: {
    name: 'Cancel',
    means: (who) => `${who} is asked to cancel, and its machine decides how: it may first undo its work. A wait ends at once. A running step is notified and finishes.`,
  },
  terminate: {
    name: 'Terminate',
    means: (who) => `${who} ends immediately. The outcome of a running step is dropped, and nothing is undone.`,
  },
};

/**
 * Asks, then cancels or terminates; `tree` preselects all descendants. Returns whether it was
 * done.
 */
export async function end(verb, instance, { tree = false } = {}) {
  const { name, means } = ENDINGS[verb];
  const { id } = instance;
  const asked = { reason: '', tree, family: null, problem: null, sending: false, done: false };
  const mayBeTree = instance.round > 0;
  let redraw = () => {};

  if (mayBeTree) {
    get(`instances/${id}/family`)
      .then((family) => { asked.family = family; })
      .catch((problem) => { asked.problem = problem; asked.tree = false; })
      .finally(() => redraw());
  }

  async function send(close) {
    asked.sending = true;
    redraw();
    try {
      const { answer } = await post(`instances/${id}/${verb}`, { reason: asked.reason.trim() || undefined, tree: asked.tree || undefined });
      toast(said(answer, id, asked.tree));
      asked.done = true;
      close(true);
    } catch (problem) {
      asked.problem = problem;
      asked.sending = false;
      redraw();
    }
  }

  await dialog((close, draw) => {
    redraw = draw;
    return [
      h('h2', {}, tree ? `${name} the tree of instance ${id}?` : `${name} instance ${id}?`),
      h('p', { class: 'soft' }, means(tree ? 'Each live instance' : 'It')),
      mayBeTree && !tree && h('p', { class: 'soft' }, 'When it ends, the close policy of each child applies. By default, children continue.'),
      mayBeTree && !tree && h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'tree', checked: asked.tree, disabled: !asked.family, onchange: (event) => { asked.tree = event.target.checked; draw(); } }),
        'Include all descendants, whatever their close policies'),
      mayBeTree && h('p', { 'data-tree': asked.family ? 'counted' : 'open', 'aria-live': 'polite', class: asked.tree ? '' : 'faint' }, count()),
      asked.problem && h('div', { class: 'problem', role: 'alert' }, h('strong', {}, asked.problem.title ?? 'Refused'), asked.problem.message, h('code', {}, asked.problem.code)),
      h('label', {}, 'Reason (optional, recorded with the operation)',
        h('input', { name: 'reason', maxlength: '200', autofocus: true, autocomplete: 'off', oninput: (event) => { asked.reason = event.target.value; } })),
      h('div', { class: 'actions' },
        h('button', { type: 'button', onclick: () => close(null) }, 'Go back'),
        h('button', { type: 'submit', class: 'primary danger', disabled: !ready() }, asked.tree ? `${name} ${counted(live())}` : `${name} instance`)),
    ];
  }, (close) => {
    if (ready()) send(close);
  });
  return asked.done;

  function ready() {
    if (asked.sending) return false;
    return asked.tree ? asked.family?.live > 0 : !tree;
  }

  function live() {
    return asked.family ? { count: asked.family.live, exact: asked.family.complete } : null;
  }

  function count() {
    if (!asked.family) return asked.problem ? '' : 'Counting …';
    const { members } = asked.family;
    const total = STATUSES.reduce((sum, status) => sum + (members[status] ?? 0), 0);
    const open = STATUSES.filter((status) => !ENDED.has(status) && members[status] > 0).map((status) => `${whole(members[status])} ${words(status)}`);
    const all = counted({ count: total, exact: asked.family.complete });
    return [h('b', {}, `${counted(live())} of ${all}`), ` instances ${asked.family.live === 1 ? 'is' : 'are'} live${open.length > 0 ? `: ${open.join(', ')}` : ''}.`];
  }
}

function said(answer, id, tree) {
  const one = {
    requested: `Requested the cancel of instance ${id}.`,
    already_requested: `The cancel of instance ${id} was already requested.`,
    never_started: `Instance ${id} cancelled. It had never run.`,
    terminated: `Instance ${id} terminated.`,
    already_ended: `Instance ${id} had already finished.`,
  }[answer] ?? answer;
  return tree ? `${one} Its descendants follow in the background.` : one;
}
