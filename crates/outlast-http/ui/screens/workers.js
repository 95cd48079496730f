// Workers: their leases, the versions that they run, and their executing instances.

import { get } from '../data/api.js';
import { counted, numberOf, plural } from '../draw/format.js';
import { follow, repeat } from '../data/live.js';
import { empty, problem, skeletons, time } from '../draw/parts.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

const REFRESH_MS = 3_000;

export function screen({ signal, draw }) {
  let workers = null;
  let failed = null;

  load();
  repeat(load, REFRESH_MS, signal);
  follow({}, {}, load, signal);

  async function load() {
    try {
      workers = (await get('workers', {}, signal)).workers;
      failed = null;
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    draw();
  }

  function describe() {
    const alive = workers?.filter((worker) => worker.alive).length ?? 0;
    return [
      h('div', { class: 'head' }, h('h1', {}, 'Workers'), workers && h('span', { class: 'faint' }, `${alive} of ${workers.length} alive`)),
      failed && problem(failed, load),
      !workers && !failed && h('div', { class: 'card' }, skeletons(6)),
      workers?.length === 0 && h('div', { class: 'card' }, empty('No workers', 'No engine is running. Start one with `Engine::builder(store).machine(…).start()`.')),
      workers && h('div', { class: 'columns workers' }, workers.map((worker) => workerCard(worker))),
    ];
  }

  return { title: () => 'Workers', describe };
}

function workerCard(worker) {
  return h('section', { key: worker.id, class: `card worker${worker.alive ? '' : ' expired'}`, 'aria-label': worker.name },
    h('header', {}, h('h2', {}, worker.name), h('span', { class: 'faint' }, worker.host), h('span', { class: 'actions' },
      h('span', { class: `pill ${worker.alive ? 'is-done' : 'is-failed'}` }, worker.alive ? 'alive' : 'lease expired'))),
    h('div', { class: 'body stack' },
      h('dl', { class: 'facts' }, [
        ['Executing', counted(worker.executing)],
        ['Lease', time(worker.lease_expires_at)],
        ['Last heartbeat', time(worker.heartbeat_at)],
        ['Started', time(worker.started_at)],
        ['Program', worker.version || '–'],
        ['Id', h('span', { class: 'mono' }, worker.id)],
      ].map(([name, value]) => h('div', { key: name }, h('dt', {}, name), h('dd', {}, value)))),
      !worker.alive && numberOf(worker.executing) > 0 && h('p', { class: 'bad' }, `${plural(worker.executing, 'instance')} will be claimed by other workers.`),
      h('div', {}, h('h3', {}, 'Queues'), h('p', { class: 'tags' }, worker.queues.map((queue) => h('a', { class: 'tag', key: queue, href: href('instances', { queue }) }, queue)))),
      h('div', {}, h('h3', {}, 'Machines'), (worker.machines ?? []).length === 0
        ? h('p', { class: 'faint' }, 'Not declared.')
        : h('p', { class: 'tags' }, worker.machines.map((machine) => h('a', { class: 'tag', key: `${machine.name} ${machine.version}`, href: href('machine', { name: machine.name }), title: (machine.steps ?? []).join(', ') }, machine.name, h('span', { class: 'faint' }, ` v${machine.version} · ${plural((machine.steps ?? []).length, 'step')}`)))))));
}
