// Overview: instances by status, conditions that need an operator, and the last hour.

import { get } from '../data/api.js';
import { chart, legend } from '../draw/chart.js';
import { short, span, STATUSES, whole, words } from '../draw/format.js';
import { follow, repeat } from '../data/live.js';
import { card, empty, glyph, meter, problem, skeletons, time } from '../draw/parts.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

const REFRESH_MS = 10_000;
const SEVERITIES = { error: '!', warning: '!', notice: 'i' };

export function screen({ signal, draw }) {
  let overview = null;
  let machines = null;
  let failed = null;
  const pointed = { throughput: null, failures: null, delay: null };

  load();
  repeat(load, REFRESH_MS, signal);
  follow({}, { overview: heard }, load, signal);

  async function load() {
    try {
      [overview, machines] = await Promise.all([get('overview', {}, signal), get('machines', {}, signal)]);
      failed = null;
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    draw();
  }

  function heard(news) {
    if (overview) Object.assign(overview, news);
    draw();
  }

  function describe() {
    return [
      h('div', { class: 'head' }, h('h1', {}, 'Overview'),
        overview && h('span', { class: 'faint' }, 'counted ', time(overview.counted_at, 'just now'), overview.complete === false && ', still counting')),
      failed && problem(failed, load),
      !overview && !failed && h('div', { class: 'card' }, skeletons(9)),
      overview && h('div', { class: 'stack' }, standing(), attention(), charts(), machineList()),
    ];
  }

  function standing() {
    const counts = overview.counts;
    return h('section', { 'aria-label': 'Instances by status' },
      h('div', { class: 'tiles' }, STATUSES.map((status) =>
        h('a', { class: `tile is-${status}`, href: href('instances', { status }), title: `${whole(counts[status] ?? 0)} ${words(status)}` },
          h('span', { class: 'status' }, glyph(status), words(status)),
          h('b', { 'data-count': status }, short(counts[status] ?? 0))))),
      meter(counts));
  }

  function attention() {
    const items = overview.attention ?? [];
    return card('Needs attention', items.length > 0 && h('span', { class: 'badge' }, items.length),
      items.length === 0
        ? h('p', { class: 'body calm' }, h('span', { class: 'status is-done' }, glyph('done')), ' Nothing. Leases, timers, deadlines and retries are fine, and every machine has a worker.')
        : h('ul', { class: 'attention' }, items.map((item) => h('li', { key: item.kind + (item.filter ?? ''), class: `is-${item.severity}`, 'data-row': true },
          h('span', { class: 'mark', 'aria-label': item.severity }, SEVERITIES[item.severity] ?? '!'),
          h('span', { class: 'grow' }, item.sentence),
          h('a', { href: leadsTo(item) }, 'Show')))));
  }

  function charts() {
    const series = overview.series ?? { minutes: [] };
    const figures = [
      ['throughput', 'Steps per minute', short, 4, [{ name: 'run', hue: 'accent', values: series.runs ?? [], kind: 'bars' }, { name: 'finished', hue: 'done', values: series.done ?? [], kind: 'line' }]],
      ['failures', 'Failures per minute', short, 4, [{ name: 'failed', hue: 'failed', values: series.failures ?? [], kind: 'bars' }]],
      ['delay', 'Queue delay', span, 1, [{ name: 'p50', hue: 'executing', values: series.delay_p50_ms ?? [], kind: 'line' }, { name: 'p99', hue: 'awaiting_signal', values: series.delay_p99_ms ?? [], kind: 'line', dashed: true }]],
    ];
    return h('div', { class: 'charts' }, figures.map(([name, title, write, least, lines]) => {
      const point = (index) => {
        if (pointed[name] === index) return;
        pointed[name] = index;
        draw();
      };
      const all = { minutes: series.minutes, series: lines, write, least, pointed: pointed[name], point, label: `${title}, the last ${series.minutes.length} minutes` };
      return card(title, null, h('div', { class: 'body' }, legend(all), chart(all)));
    }));
  }

  function machineList() {
    const list = [...machines?.machines ?? []].sort((a, b) => a.name.localeCompare(b.name) || b.version - a.version);
    return card('Machines', h('span', { class: 'actions' }, h('a', { href: href('machines') }, 'All machines')), list.length === 0
      ? empty('No machines yet', 'A machine appears here when a worker registers it or an instance is started.')
      : h('div', { class: 'table' }, h('table', {}, h('tbody', {}, list.slice(0, 12).map((machine) => machineRow(machine))))));
  }

  return { title: () => 'Overview', describe };
}

function machineRow(machine) {
  const counts = sum(machine.steps.map((step) => step.counts ?? {}));
  const total = Object.values(counts).reduce((all, count) => all + count, 0);
  return h('tr', { key: `${machine.name} ${machine.version}`, 'data-row': true },
    h('td', { class: 'clip', title: machine.name }, h('a', { href: href('machine', { name: machine.name }) }, machine.name), h('span', { class: 'faint' }, ` v${machine.version}`)),
    h('td', { class: 'wide' }, meter(counts, { thin: true })),
    h('td', { class: 'right nowrap' }, whole(total)),
    h('td', { class: 'right nowrap' }, counts.failed ? h('a', { class: 'is-failed status', href: href('instances', { machine: machine.name, version: machine.version, status: 'failed' }) }, glyph('failed'), whole(counts.failed)) : ''));
}

/** Adds counts by name. */
function sum(all) {
  const total = {};
  for (const counts of all) for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count;
  return total;
}

/** Returns the link of an item: a list of instances, or one of our screens. */
function leadsTo(item) {
  if (item.filter) return href('instances', item.filter);
  return href(['queues', 'workers', 'machines'].includes(item.link) ? item.link : 'instances');
}
