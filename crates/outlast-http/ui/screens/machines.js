// Machines: every machine that a worker has or that has instances, with all its versions.

import { get } from '../data/api.js';
import { plural, short, STATUSES, whole } from '../draw/format.js';
import { follow } from '../data/live.js';
import { empty, glyph, meter, problem, skeletons } from '../draw/parts.js';
import { href } from '../router.js';
import { h } from '../draw/view.js';

export function screen({ signal, draw }) {
  let machines = null;
  let failed = null;

  load();
  follow({}, { overview: load }, load, signal);

  async function load() {
    try {
      machines = byName((await get('machines', {}, signal)).machines);
      failed = null;
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    draw();
  }

  function describe() {
    return [
      h('div', { class: 'head' }, h('h1', {}, 'Machines')),
      failed && problem(failed, load),
      !machines && !failed && h('div', { class: 'card' }, skeletons(6)),
      machines?.size === 0 && h('div', { class: 'card' }, empty('No machines yet', 'A machine appears here when a worker registers it or an instance is started.')),
      machines && h('div', { class: 'columns machines' }, [...machines].map(([name, versions]) => tile(name, versions))),
    ];
  }

  return { title: () => 'Machines', describe };
}

function tile(name, versions) {
  const counts = Object.fromEntries(STATUSES.map((status) =>
    [status, versions.reduce((sum, version) => sum + version.steps.reduce((all, step) => all + (step.counts?.[status] ?? 0), 0), 0)]));
  const workers = versions.reduce((most, version) => Math.max(most, version.workers ?? 0), 0);
  const steps = new Set(versions.flatMap((version) => version.steps.map((step) => step.name)));
  return h('a', { key: name, class: 'card machine-tile', href: href('machine', { name }), 'data-row': true },
    h('h2', {}, name),
    h('p', { class: 'faint' }, [
      versions.map((version) => `v${version.version}`).join(', '), plural(steps.size, 'step'),
      workers ? plural(workers, 'worker') : 'no workers',
    ].join(' · ')),
    meter(counts),
    h('p', { class: 'chips' }, STATUSES.filter((status) => counts[status] > 0).map((status) =>
      h('span', { class: `status is-${status}`, title: `${whole(counts[status])} ${status}` }, glyph(status), short(counts[status])))));
}

/** Groups machines by name, in their order; the newest version first. */
function byName(machines) {
  const names = new Map();
  for (const machine of machines) names.set(machine.name, [...(names.get(machine.name) ?? []), machine]);
  for (const versions of names.values()) versions.sort((a, b) => b.version - a.version);
  return names;
}
