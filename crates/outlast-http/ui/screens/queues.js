// Queues: depth, age, rate, and whether they are paused.

import { get, post, segment } from '../data/api.js';
import { numberOf, whole } from '../draw/format.js';
import { repeat, follow } from '../data/live.js';
import { attempt, confirm, empty, linkedCount, problem, skeletons, time } from '../draw/parts.js';
import { h } from '../draw/view.js';

const REFRESH_MS = 3_000;

export function screen({ signal, draw }) {
  let queues = null;
  let failed = null;

  load();
  repeat(load, REFRESH_MS, signal);
  follow({}, { overview: load }, load, signal);

  async function load() {
    try {
      queues = (await get('queues', {}, signal)).queues;
      failed = null;
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    draw();
  }

  async function turn(queue) {
    const verb = queue.paused ? 'resume' : 'pause';
    const agreed = await confirm(queue.paused
      ? { title: `Resume ${queue.name}?`, text: 'Workers claim from it again.', action: 'Resume' }
      : { title: `Pause ${queue.name}?`, text: 'No further work is claimed until it is resumed. Running steps continue.', action: 'Pause' });
    if (!agreed) return;
    await attempt(() => post(`queues/${segment(queue.name)}/${verb}`, agreed), queue.paused ? `Queue ${queue.name} resumed.` : `Queue ${queue.name} paused.`);
    load();
  }

  function describe() {
    const deepest = Math.max(1, ...(queues ?? []).map((queue) => numberOf(queue.eligible)));
    return [
      h('div', { class: 'head' }, h('h1', {}, 'Queues')),
      failed && problem(failed, load),
      !failed && h('section', { class: 'card', 'aria-label': 'Queues' }, !queues ? skeletons(6) : queues.length === 0
        ? empty('No queues yet', 'A queue appears here while it has work, is served by a live worker or is paused.')
        : h('div', { class: 'table' }, h('table', { class: 'queues cards' },
          h('thead', {}, h('tr', {}, ['Queue', 'Depth', '', 'Oldest', 'Delayed', 'Executing', 'Per minute', ''].map((name, index) => h('th', { class: [1, 4, 5, 6].includes(index) ? 'right' : '' }, name)))),
          h('tbody', {}, queues.map((queue) => row(queue, deepest)))))),
    ];
  }

  function row(queue, deepest) {
    const share = numberOf(queue.eligible) / deepest;
    return h('tr', { key: queue.name, 'data-row': queue.name },
      h('td', { class: 'clip', title: queue.name }, h('b', {}, queue.name), ' ', queue.paused && h('span', { class: 'pill is-awaiting_signal' }, 'paused')),
      h('td', { class: 'right', 'data-depth': queue.name, 'data-label': 'Depth' }, linkedCount(queue.eligible, { queue: queue.name, status: 'runnable' })),
      h('td', { class: 'bar', 'aria-hidden': 'true' }, share > 0 && h('i', { style: { width: `${(share * 100).toFixed(1)}%` } })),
      h('td', { 'data-label': 'Oldest' }, time(queue.oldest_eligible_at, 'none waiting')),
      h('td', { class: 'right', 'data-label': 'Delayed' }, linkedCount(queue.delayed, { queue: queue.name, status: 'runnable' })),
      h('td', { class: 'right', 'data-label': 'Executing' }, linkedCount(queue.executing, { queue: queue.name, status: 'executing' })),
      h('td', { class: 'right', 'data-label': 'Per minute' }, queue.rate_per_minute === null || queue.rate_per_minute === undefined ? '–' : whole(Math.round(queue.rate_per_minute))),
      h('td', { class: 'right' }, h('button', { class: 'small', onclick: () => turn(queue), 'aria-label': `${queue.paused ? 'Resume' : 'Pause'} ${queue.name}` }, queue.paused ? 'Resume' : 'Pause')));
  }

  return { title: () => 'Queues', describe };
}
