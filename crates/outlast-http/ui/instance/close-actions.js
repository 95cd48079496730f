// The operations on the children of an instance that its end, its join or the end of a tree
// caused.

import { get } from '../data/api.js';
import { words } from '../draw/format.js';
import { attempt, card, time } from '../draw/parts.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

const PAGE = 20;
const DONE = { cancel: 'asked to cancel', terminate: 'terminated' };

/**
 * Returns `{ load, describe }`. The log only grows, so a reload reads only the last page again.
 */
export function closeActionsOf(id, { signal, draw }) {
  const pages = [];

  async function load() {
    const cursor = pages.at(-1)?.cursor;
    const page = await get(`instances/${id}/close_actions`, { cursor, limit: PAGE }, signal);
    const index = pages.findIndex((each) => each.cursor === cursor);
    pages.splice(Math.max(0, index), 1, { ...page, cursor });
  }

  async function more() {
    const cursor = pages.at(-1).next;
    const page = await attempt(() => get(`instances/${id}/close_actions`, { cursor, limit: PAGE }, signal));
    // The user may have clicked twice.
    if (page && pages.at(-1).next === cursor) pages.push({ ...page, cursor });
    draw();
  }

  function describe() {
    const all = pages.flatMap((page) => page.close_actions);
    if (all.length === 0) return null;
    return card('Close actions on children', h('span', { class: 'badge' }, `${all.length}${pages.at(-1).next ? '+' : ''}`),
      h('ul', { class: 'list', 'data-close_actions': true }, all.map((each, index) => h('li', { key: each.id },
        h('div', { class: 'line' }, h('a', { href: href(`instances/${each.instance}`), class: 'mono' }, each.instance), h('b', {}, DONE[each.verb] ?? words(each.verb)),
          each.status_before && h('span', { class: 'faint' }, `when it was ${words(each.status_before)}`), h('span', { class: 'faint end-of-line' }, time(each.at))),
        each.reason && each.reason !== all[index - 1]?.reason && h('p', { class: 'soft' }, each.by === 'parent' ? each.reason : `${each.by}: ${each.reason}`)))),
      pages.at(-1).next && h('div', { class: 'body' }, h('button', { class: 'small quiet', onclick: more }, 'Show more')));
  }

  return { load, describe };
}
