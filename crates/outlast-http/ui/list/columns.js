// The columns of a list of instances, and the user's choice of them.

import { marks, POLICIES } from '../instance/family-parts.js';
import { span, whole } from '../draw/format.js';
import { plainText } from '../draw/viewer.js';
import { dialog, statusOf, time } from '../draw/parts.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

const STORED = 'outlast.columns';
const FIRST = ['id', 'machine', 'step', 'status', 'key', 'attempt', 'updated_at', 'last_error'];

export const COLUMNS = [
  { name: 'id', label: 'Id', class: 'id', cell: (each) => h('a', { href: href(`instances/${each.id}`) }, each.id) },
  { name: 'machine', label: 'Machine', class: 'clip', cell: (each) => each.machine },
  { name: 'version', label: 'Version', class: 'right', cell: (each) => `v${each.version}` },
  { name: 'step', label: 'Step', class: 'clip', cell: (each) => each.step },
  { name: 'status', label: 'Status', cell: (each) => [statusOf(each.status), marks(each)] },
  { name: 'queue', label: 'Queue', class: 'clip', cell: (each) => each.queue },
  { name: 'priority', label: 'Priority', class: 'right', cell: (each) => each.priority },
  { name: 'key', label: 'Key', class: 'clip', cell: (each) => each.key },
  { name: 'partition_key', label: 'Partition key', class: 'clip', cell: (each) => each.partition_key },
  { name: 'parent', label: 'Parent', class: 'id', cell: (each) => each.parent && h('a', { href: href(`instances/${each.parent.id}`) }, each.parent.id) },
  { name: 'position', label: 'Position', class: 'right', cell: (each) => each.position },
  { name: 'on_parent_close', label: 'When parent ends', cell: (each) => each.on_parent_close && `it ${POLICIES[each.on_parent_close]}` },
  { name: 'cancel', label: 'Cancel requested', cell: (each) => each.cancel && time(each.cancel.requested_at) },
  { name: 'attempt', label: 'Attempt', class: 'right', cell: (each) => whole(each.attempt) },
  { name: 'crashes', label: 'Crashes', class: 'right', cell: (each) => whole(each.crashes) },
  { name: 'awaits', label: 'Awaits', class: 'clip', cell: (each) => each.awaits?.join(', ') },
  { name: 'await_deadline', label: 'Deadline', cell: (each) => each.await_deadline && time(each.await_deadline) },
  { name: 'children_pending', label: 'Open children', class: 'right', cell: (each) => (each.status === 'awaiting_children' ? whole(each.children_pending) : '') },
  { name: 'eligible_at', label: 'Eligible', cell: (each) => time(each.eligible_at) },
  { name: 'inserted_at', label: 'Inserted', cell: (each) => time(each.inserted_at) },
  { name: 'updated_at', label: 'Updated', cell: (each) => time(each.updated_at) },
  { name: 'finished_at', label: 'Finished', cell: (each) => each.finished_at && time(each.finished_at) },
  { name: 'took', label: 'Took', class: 'right', cell: (each) => each.finished_at && span(Date.parse(each.finished_at) - Date.parse(each.inserted_at)) },
  { name: 'worker', label: 'Worker', class: 'id', cell: (each) => each.worker },
  { name: 'last_error', label: 'Last error', class: 'clip wider', cell: (each) => each.last_error && h('span', { title: each.last_error, class: 'soft' }, oneLine(each.last_error)) },
];

/** Returns the chosen columns. */
export function chosen() {
  let names = null;
  try {
    names = JSON.parse(localStorage.getItem(STORED));
  } catch {
    // Storage may be forbidden or hold an invalid value; then the default applies.
  }
  const wanted = Array.isArray(names) ? names : FIRST;
  return COLUMNS.filter((column) => column.name === 'id' || wanted.includes(column.name));
}

/** Asks which columns to show. */
export async function choose() {
  const names = new Set(chosen().map((column) => column.name));
  const agreed = await dialog((close) => [
    h('h2', {}, 'Columns'),
    h('div', { class: 'columns-choice' }, COLUMNS.slice(1).map((column) => h('label', { class: 'check' },
      h('input', { type: 'checkbox', name: column.name, checked: names.has(column.name), onchange: (event) => (event.target.checked ? names.add(column.name) : names.delete(column.name)) }), column.label))),
    h('div', { class: 'actions' },
      h('button', { type: 'button', class: 'quiet', onclick: () => { names.clear(); FIRST.forEach((name) => names.add(name)); close(true); } }, 'Reset'),
      h('button', { type: 'submit', class: 'primary' }, 'Apply')),
  ]);
  if (!agreed) return;
  try {
    localStorage.setItem(STORED, JSON.stringify([...names]));
  } catch {
    // Then the choice is not stored.
  }
}

/** Returns the first line of an error, short enough for a table. */
function oneLine(text) {
  const line = text.slice(0, 300).split('\n')[0];
  return h('span', { mounted: (element) => element.replaceChildren(...plainText(line)), key: line });
}
