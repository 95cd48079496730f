// Instance: what it waits for, its data, its history, and the possible operations.

import { get, post, remove } from '../data/api.js';
import { closeActionsOf } from '../instance/close-actions.js';
import { end } from '../instance/ending.js';
import { joinMeter, marks, POLICIES } from '../instance/family-parts.js';
import { flowOf, hasHistory, isFlow } from '../instance/flow.js';
import { ENDED, plural, span, whole, words } from '../draw/format.js';
import { follow, isSame, repeat } from '../data/live.js';
import { attempt, card, confirm, problem, skeletons, statusOf, time, toast } from '../draw/parts.js';
import { go, href } from '../router.js';
import { queryForm } from '../instance/query-form.js';
import { signalForm } from '../instance/signal-form.js';
import { updateForm } from '../instance/update-form.js';
import { h } from '../draw/view.js';
import { plainText } from '../draw/viewer.js';

const GATHER_MS = 150;
// Events cover the instance; its inbox and children are reloaded periodically too.
const REFRESH_MS = 5_000;
// Open calls grow in the timeline while the page is shown.
const GROW_MS = 1_000;

export function screen({ parts: [id], query, signal, draw }) {
  let instance = null;
  let signals = null;
  let family = null;
  let operations = null;
  let views = [];
  let failed = null;
  let gone = false;
  let gathering = null;
  const closeActions = closeActionsOf(id, { signal, draw });
  const flow = flowOf(id, { signal, draw });
  flow.choose(query.get('run'));
  const form = signalForm(id, { draw, sent: () => load() });
  const updates = updateForm(id, { signal, draw, sent: () => load() });
  const queries = queryForm(id, { signal, draw });

  load();
  repeat(load, REFRESH_MS, signal);
  repeat(() => { if (instance && hasHistory(instance) && flow.isLive(instance)) draw(); }, GROW_MS, signal);
  addEventListener('resize', draw, { signal });
  follow({ id }, { instance: soon, gone: () => { gone = true; draw(); } }, load, signal);

  /** Several events in a row cause one reload. */
  function soon(news) {
    if (isSame(news, instance)) return;
    gathering ??= setTimeout(() => {
      gathering = null;
      if (!signal.aborted) load();
    }, GATHER_MS);
  }

  async function load() {
    try {
      const [it, inbox, tree, done, published] = await Promise.all([
        get(`instances/${id}`, {}, signal),
        get(`instances/${id}/signals`, {}, signal),
        get(`instances/${id}/tree`, { depth: 1 }, signal),
        get(`instances/${id}/operations`, {}, signal),
        get(`instances/${id}/views`, {}, signal),
        closeActions.load(),
      ]);
      instance = it;
      signals = inbox.signals;
      family = tree.root;
      operations = done.operations;
      views = published.views;
      failed = null;
      // The answers need a replay, so nothing waits for them.
      if (isFlow(instance)) queries.load(instance);
      if (hasHistory(instance)) await flow.load(instance);
    } catch (error) {
      if (error.name === 'AbortError') return;
      // The shown data stays; a deleted instance shows that itself.
      if (gone || (instance && error.code === 'not_found')) gone = true;
      else failed = error;
    }
    draw();
  }

  async function operate(verb, asked) {
    const agreed = await confirm(asked);
    if (!agreed) return;
    await attempt(() => post(`instances/${id}/${verb}`, agreed), asked.done);
    load();
  }

  async function finish(verb) {
    if (await end(verb, instance)) load();
  }

  async function destroy() {
    const agreed = await confirm({ title: `Delete instance ${id}?`, text: 'Its data, its inbox and the link from its children are deleted permanently.', action: 'Delete', danger: true });
    if (!agreed) return;
    const deleted = await attempt(() => remove(`instances/${id}`, agreed));
    if (deleted) {
      toast(`Instance ${id} deleted.`);
      go(href('instances'));
    }
  }

  function describe() {
    return [
      h('p', { class: 'crumb' }, h('a', { href: href('instances') }, 'Instances'), ' / ',
        instance && h('a', { href: href('machine', { name: instance.machine }) }, instance.machine), instance && ` v${instance.version}`,
        instance?.parent && [' / child of ', h('a', { href: href(`instances/${instance.parent.id}`) }, instance.parent.id)]),
      h('div', { class: 'head' }, h('h1', {}, `Instance ${id}`), instance && !gone && h('span', { class: `pill is-${instance.status}`, 'data-status': instance.status }, statusOf(instance.status)), instance && !gone && marks(instance), instance && !gone && buttons()),
      gone && h('div', { class: 'problem' }, h('strong', {}, 'Deleted'), 'This instance was deleted. The data below is the last known.'),
      failed && problem(failed, load),
      !instance && !failed && h('div', { class: 'card' }, skeletons(10)),
      instance && h('div', { class: 'stack' },
        instance.waiting && h('p', { class: `waiting is-${instance.status}`, 'data-waiting': true, 'aria-live': 'polite' }, instance.waiting),
        // Keyed, so that elements which come and go above do not move the user's focus into
        // another one.
        hasHistory(instance) && [h('div', { key: 'waits', class: 'stack' }, flow.waits(instance)), h('div', { key: 'timeline' }, flow.drawing(instance)), h('div', { key: 'handled', class: 'stack' }, flow.handled(instance))],
        h('div', { key: 'halves', class: 'halves' },
          h('div', { class: 'stack' }, published(), facts(), errorCard(), instance.status === 'failed' && result('Error value'), data(isFlow(instance) ? 'Input' : 'State', instance.state), instance.status !== 'failed' && result('Result')),
          h('div', { class: 'stack' }, !ENDED.has(instance.status) && !gone && card('Send a signal', null, h('div', { class: 'body' }, form(instance))), updateCard(), inbox(), children(), closeActions.describe(), history(), queryCard())),
        hasHistory(instance) && [h('div', { key: 'states' }, flow.states()), h('div', { key: 'events' }, flow.list())]),
    ];
  }

  function buttons() {
    const ended = ENDED.has(instance.status);
    return h('div', { class: 'actions' },
      (family?.rounds?.length > 0 || instance.parent) && h('a', { class: 'button', href: href(`instances/${id}/family`) }, 'Family'),
      (instance.status === 'failed' || instance.status === 'cancelled') && h('button', { onclick: () => operate('retry', { title: `Retry instance ${id}?`, text: `It runs step ${instance.step} again with its current state.`, action: 'Retry', done: `Instance ${id} is runnable again.` }) }, 'Retry'),
      instance.liveness === 'repair_needed' && h('button', { 'data-repair': true, title: 'Nothing would ever wake it', onclick: () => operate('repair', { title: `Repair instance ${id}?`, text: `It ${instance.waiting}.`, action: 'Repair', done: `Instance ${id} is repaired.` }) }, 'Repair'),
      !ended && !instance.cancel && h('button', { class: 'danger', title: 'Ask the machine to cancel; it decides how', onclick: () => finish('cancel') }, 'Cancel'),
      !ended && h('button', { class: 'danger', title: 'End it immediately', onclick: () => finish('terminate') }, 'Terminate'),
      ended && h('button', { class: 'danger', onclick: destroy }, 'Delete'));
  }

  function facts() {
    const it = instance;
    const rows = [
      it.liveness && ['Liveness', words(it.liveness)],
      !isFlow(it) && ['Step', it.step], isFlow(it) && ['Run', whole(it.run)], isFlow(it) && ['Events', whole(it.events)], !isFlow(it) && ['History', hasHistory(it) ? plural(it.events, 'transition') : 'not recorded'], ['Attempt', whole(it.attempt)], ['Crashes', whole(it.crashes)],
      ['Queue', h('a', { href: href('instances', { queue: it.queue }) }, it.queue)], ['Priority', it.priority], ['Revision', whole(it.revision)],
      it.key !== null && ['Key', it.key], it.partition_key !== null && ['Partition key', h('a', { href: href('instances', it.partition_key_hex ? { partition_key_hex: it.partition_key_hex } : { partition_key: it.partition_key }) }, it.partition_key)],
      it.awaits?.length > 0 && !it.needs_all && ['Awaits', it.awaits.join(', ')], it.awaits?.length > 0 && !it.needs_all && ['Until', time(it.await_deadline, 'no deadline')],
      it.needs_all && it.awaits?.length > 0 && ['Awaits all of', it.awaits.join(', ')], it.needs_all && it.status !== 'sleeping' && it.await_deadline && ['Not before', time(it.await_deadline)],
      it.status === 'sleeping' && ['Sleeps until', time(it.await_deadline)],
      it.status === 'awaiting_children' && ['Open children', whole(it.children_pending)],
      it.parent && ['Position', `${whole(it.position)} of round ${whole(it.parent.round)}`],
      it.origin && ['Started by', h('a', { href: href(`instances/${it.parent.id}`, { run: it.origin.run }), 'data-origin': it.origin.call }, `call ${whole(it.origin.call)} of run ${whole(it.origin.run)}`)],
      it.parent && ['When parent ends', `it ${POLICIES[it.on_parent_close]}`],
      it.held !== null && ['Window', it.held ? 'held, waits for a slot' : 'has a slot'],
      it.cancel && ['Cancel requested', h('span', {}, time(it.cancel.requested_at), it.cancel.answered || ENDED.has(it.status) ? '' : ', not answered yet', h('span', { class: 'soft cancel-reason' }, it.cancel.reason))],
      it.worker && ['Worker', h('a', { href: href('workers') }, it.worker)],
      it.status === 'runnable' && ['Eligible', time(it.eligible_at)],
      !ENDED.has(it.status) && it.timeout_at && ['Times out', time(it.timeout_at)], !ENDED.has(it.status) && it.run_timeout_at && ['Run times out', time(it.run_timeout_at)],
      ['Inserted', time(it.inserted_at)], ['Updated', time(it.updated_at)],
      it.finished_at && ['Finished', time(it.finished_at)],
      it.finished_at && ['Took', span(Date.parse(it.finished_at) - Date.parse(it.inserted_at))],
    ];
    return card('Details', null, h('dl', { class: 'facts body' }, rows.filter(Boolean).map(([name, value]) => h('div', { key: name }, h('dt', {}, name), h('dd', {}, value)))));
  }

  function errorCard() {
    if (!instance.last_error) return null;
    return card(ENDED.has(instance.status) ? 'Error' : 'Last error', copyButton(instance.last_error),
      h('div', { class: 'body' }, h('pre', { class: 'well', key: instance.last_error, 'data-error': true, mounted: (element) => element.replaceChildren(...plainText(instance.last_error)) })));
  }

  /** What the instance ended with: its output when it is done, a value when it failed with one. */
  function result(title) {
    if (instance.result === null || instance.result === undefined) return null;
    return data(title, instance.result);
  }

  /** What the workflow shows of its progress. */
  function published() {
    if (views.length === 0) return null;
    return card('Views', h('span', { class: 'badge' }, views.length), h('ul', { class: 'list' }, views.map((each) => h('li', { key: each.name, 'data-view': each.name },
      h('div', { class: 'line' }, h('b', {}, each.name), h('span', { class: 'faint end-of-line' }, 'published ', time(each.at))),
      h('div', { class: 'well' }, h('json-view', { raw: each.data }))))));
  }

  /** Above the inbox, which grows with each update and would move the form under a click. */
  function updateCard() {
    if (gone || (ENDED.has(instance.status) && !updates.isShown())) return null;
    return card('Send an update', null, h('div', { class: 'body' }, updates.describe(instance)));
  }

  /** What the code of the workflow answers, where the code is. It appears late, so it is last. */
  function queryCard() {
    const asked = !gone && isFlow(instance) && queries.describe(instance);
    return asked && card('Query', null, h('div', { class: 'body' }, asked));
  }

  function inbox() {
    if (signals.length === 0) return card('Inbox', null, h('p', { class: 'body faint' }, 'No signals. Signals sent to this instance appear here.'));
    return card('Inbox', h('span', { class: 'badge' }, signals.length), h('ul', { class: 'list' }, signals.map((each) => h('li', { key: each.id },
      h('div', { class: 'line' }, h('b', {}, each.name), each.wants_reply && h('span', { class: 'tag', title: 'Its sender waits for a reply' }, 'update'), each.dedup_key && h('code', { class: 'faint' }, each.dedup_key),
        h('span', { class: 'faint end-of-line' }, 'received ', time(each.inserted_at), each.consumed_at ? [', consumed ', time(each.consumed_at)] : ', waiting')),
      each.payload && h('div', { class: 'well' }, h('json-view', { raw: each.payload }))))));
  }

  function children() {
    const rounds = family?.rounds ?? [];
    if (rounds.length === 0) return null;
    return card('Children', h('span', { class: 'actions' }, h('a', { href: href(`instances/${id}/family`) }, 'Show family'), h('a', { href: href('instances', { parent: id }) }, 'Show as list')),
      h('div', { class: 'body stack' }, rounds.map((round) => joinMeter(round, family.instance))));
  }

  function history() {
    if (!operations || operations.length === 0) return null;
    return card('Operations', null, h('ul', { class: 'list' }, operations.map((each, index) => h('li', { key: `${each.at} ${index}` },
      h('div', { class: 'line' }, h('b', {}, words(each.verb)), ` by ${each.by}`, each.cause && h('a', { href: href(`instances/${each.cause}`) }, each.cause), each.status_before && h('span', { class: 'faint' }, ` when it was ${words(each.status_before)}`), h('span', { class: 'faint end-of-line' }, time(each.at))),
      each.reason && h('p', { class: 'soft' }, each.reason)))));
  }

  function moved(next) {
    if (flow.choose(next.get('run')) && instance) flow.load(instance).then(draw);
    draw();
  }

  return { moved, title: () => (instance ? `${instance.machine} ${id}` : `Instance ${id}`), describe };
}

function data(title, raw) {
  return card(title, raw && copyButton(raw.text), h('div', { class: 'body' }, raw
    ? h('div', { class: 'well', 'data-json': title.toLowerCase() }, h('json-view', { raw }))
    : h('p', { class: 'faint' }, 'null')));
}

function copyButton(text) {
  return h('span', { class: 'actions' },
    h('span', { class: 'faint' }, text.length > 1000 ? plural(text.length, 'character') : ''),
    h('button', { class: 'quiet small', onclick: () => attempt(() => navigator.clipboard.writeText(text), 'Copied.') }, 'Copy'));
}
