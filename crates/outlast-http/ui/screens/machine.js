// Machine: drawn as a graph. Steps show live counts, failures and mean time; the width of an edge
// shows its run count; versions are side by side.

import { get } from '../data/api.js';
import { ENDED, plural, short, span, STATUSES, whole, words } from '../draw/format.js';
import { curve, layout } from '../draw/graph.js';
import { follow } from '../data/live.js';
import { empty, glyph, problem, skeletons, time } from '../draw/parts.js';
import { go, href } from '../router.js';
import { h } from '../draw/view.js';

const STEP = { width: 164, height: 74 };
const END = { width: 112, height: 34 };
const MARGIN = 26;
// An outcome without a next step ends the instance.
// Rows of earlier builds have `stop` for `fail` and `renew` for `continue_as_new`.
const ENDS = { done: 'done', fail: 'failed', stop: 'failed', cancel: 'cancelled' };
const ALIVE = STATUSES.filter((status) => !ENDED.has(status));
const HUES = { next: 'flow', wait: 'awaiting_signal', fan_out: 'awaiting_children', retry: 'warning', flow: 'executing', continue_as_new: 'runnable', renew: 'runnable', done: 'done', fail: 'failed', stop: 'failed', cancel: 'cancelled' };
const MEANINGS = { next: 'continues', wait: 'waits for a signal or sleeps, then continues', fan_out: 'starts children and joins them', retry: 'is retried', flow: 'continues its run, or waits', continue_as_new: 'starts another run', renew: 'starts another run', done: 'is done', fail: 'fails', stop: 'fails', cancel: 'is cancelled' };
// Text would be unreadable below this scale; then the layers go from top to bottom.
const SCALE_MIN = 0.8;

export function screen({ query, signal, draw }) {
  let name = query.get('name') ?? '';
  let hidden = new Set(query.getAll('without'));
  let versions = null;
  let countedAt = null;
  let failed = null;
  let tables = null;

  load();
  follow({}, { overview: load }, load, signal);
  addEventListener('resize', draw, { signal });

  async function load() {
    try {
      const answer = await get('machines', {}, signal);
      versions = answer.machines.filter((machine) => machine.name === name).sort((a, b) => b.version - a.version);
      countedAt = answer.counted_at;
      failed = null;
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    draw();
  }

  function toggle(version) {
    const next = new Set(hidden);
    if (!next.delete(version)) next.add(version);
    go(href('machine', { name, without: [...next] }), { replace: true });
  }

  function describe() {
    const shown = versions?.filter((each) => !hidden.has(String(each.version))) ?? [];
    return [
      h('p', { class: 'crumb' }, h('a', { href: href('machines') }, 'Machines'), ' /'),
      h('div', { class: 'head' }, h('h1', {}, name),
        versions?.length > 1 && h('div', { class: 'actions', role: 'group', 'aria-label': 'Versions' }, versions.map((each) =>
          h('button', { class: 'small', 'aria-pressed': String(!hidden.has(String(each.version))), onclick: () => toggle(String(each.version)) }, `v${each.version}`)))),
      failed && problem(failed, load),
      !versions && !failed && h('div', { class: 'card' }, skeletons(8)),
      versions?.length === 0 && h('div', { class: 'card' }, empty('Unknown machine', 'No worker has registered it, and it has no instances.', h('a', { href: href('machines') }, 'Show all machines'))),
      h('div', { class: 'versions' }, shown.map((each) => versionCard(each, manner(shown), shown.length === 1))),
      versions?.length > 0 && key(),
    ];
  }

  function versionCard(machine, how, alone) {
    const alive = machine.steps.reduce((sum, step) => sum + ALIVE.reduce((all, status) => all + (step.counts?.[status] ?? 0), 0), 0);
    return h('section', { key: machine.version, class: 'card', 'aria-label': `Version ${machine.version}` },
      h('header', {}, h('h2', {}, `Version ${machine.version}`),
        h('span', { class: 'faint' }, `${whole(alive)} live · `, machine.workers ? plural(machine.workers, 'worker') : 'no workers', ' · counted ', time(countedAt, 'now')),
        h('span', { class: 'actions' }, h('a', { href: href('instances', { machine: name, version: machine.version }) }, 'Instances'))),
      h('div', { class: 'graph-room', tabindex: '0', role: 'group', 'aria-label': `Graph of ${name}, version ${machine.version}` }, graph(machine, how)),
      h('details', { class: 'as-table', open: tables ?? alone, ontoggle: (event) => { if (event.target.open !== (tables ?? alone)) tables = event.target.open; } }, h('summary', {}, 'As a table'), stepTable(machine)));
  }

  return {
    title: () => name,
    describe,
    moved(next) {
      hidden = new Set(next.getAll('without'));
      if (name !== next.get('name')) {
        name = next.get('name') ?? '';
        versions = null;
        load();
      }
      draw();
    },
  };
}

/** How adjacent graphs are drawn: all in the same direction, so that they can be compared. */
function manner(machines) {
  const all = (document.querySelector('main')?.clientWidth ?? innerWidth) - 60;
  const available = machines.length > 1 && all > 800 ? all / machines.length - 16 : all;
  const widest = Math.max(...machines.map((machine) => layout(nodesOf(machine), edgesOf(machine)).width));
  return { available, down: available / (widest + 2 * MARGIN) < SCALE_MIN };
}

function graph(machine, { available, down }) {
  const edges = edgesOf(machine);
  const most = Math.max(1, ...edges.map((edge) => edge.weight));
  const drawn = layout(nodesOf(machine), edges, { down });
  const width = drawn.width + 2 * MARGIN;
  const height = drawn.height + 2 * MARGIN + 10;
  const scale = Math.max(SCALE_MIN, Math.min(1, available / width));
  return h('div', { class: 'graph-size', style: { width: `${width * scale}px`, height: `${height * scale}px` } }, h('div', { class: 'graph', style: { width: `${width}px`, height: `${height}px`, transform: `scale(${scale.toFixed(3)})` } },
    h('svg', { viewBox: `${-MARGIN} ${-MARGIN - 10} ${width} ${height}`, width, height, 'aria-hidden': 'true' },
      drawn.edges.map(({ edge, points }) => edgeOf(edge, points, most, down)),
      edges.filter((edge) => edge.from === edge.to).map((edge, index, loops) => loop(edge, drawn.nodes.get(edge.from), most, loops.slice(0, index).filter((each) => each.from === edge.from).length))),
    [...drawn.nodes].map(([id, box]) => (ENDS[id.slice(4)] && id.startsWith('end:') ? endOf(machine, ENDS[id.slice(4)], box) : stepOf(machine, id, box)))));
}

/** A prefix distinguishes steps from ends: a step may be called "done". */
function edgesOf(machine) {
  return (machine.transitions ?? []).map((each) => ({
    from: `at:${each.from}`,
    to: each.to ? `at:${each.to}` : each.outcome === 'retry' ? `at:${each.from}` : `end:${each.outcome}`,
    weight: each.count,
    outcome: each.outcome,
    mean: each.mean_ms,
  }));
}

function nodesOf(machine) {
  const edges = edgesOf(machine);
  const steps = new Set(machine.steps.map((step) => `at:${step.name}`));
  for (const edge of edges) for (const id of [edge.from, edge.to]) if (id.startsWith('at:')) steps.add(id);
  const ends = Object.keys(ENDS).map((outcome) => `end:${outcome}`).filter((id) => edges.some((edge) => edge.to === id));
  return [...[...steps].map((id) => ({ id, ...STEP })), ...ends.map((id) => ({ id, ...END, last: true }))];
}

function edgeOf(edge, points, most, down) {
  const thick = thickness(edge, most);
  const tip = points.at(-1);
  const before = points.at(-2);
  const forward = down ? Math.sign(tip[1] - before[1]) || 1 : Math.sign(tip[0] - before[0]) || 1;
  const reach = 5 + thick;
  const short_of = down ? [tip[0], tip[1] - forward * reach] : [tip[0] - forward * reach, tip[1]];
  const half = 3 + thick * 0.75;
  const head = down
    ? `${tip[0]},${tip[1]} ${tip[0] - half},${short_of[1]} ${tip[0] + half},${short_of[1]}`
    : `${tip[0]},${tip[1]} ${short_of[0]},${tip[1] - half} ${short_of[0]},${tip[1] + half}`;
  const middle = middleOf(points);
  return h('g', { key: `${edge.from}>${edge.to}>${edge.outcome}`, class: 'edge', style: { '--hue': `var(--${HUES[edge.outcome] ?? 'flow'})` } },
    h('title', {}, told(edge)),
    h('path', { class: 'reach', d: curve([...points.slice(0, -1), short_of], { down }) }),
    h('path', { class: edge.outcome === 'wait' || edge.outcome === 'fan_out' ? 'way parked' : 'way', d: curve([...points.slice(0, -1), short_of], { down }), 'stroke-width': thick }),
    h('polygon', { points: head }),
    h('text', { x: middle[0], y: middle[1] - (down ? 0 : thick / 2 + 4), 'text-anchor': 'middle' }, short(edge.weight)));
}

/** A loop of a step that retries or of a workflow that continues; beside other loops. */
function loop(edge, box, most, beside) {
  if (!box) return null;
  const thick = thickness(edge, most);
  const [from, to, top] = [box.x + box.width - 52 - beside * 56, box.x + box.width - 22 - beside * 56, box.y];
  return h('g', { key: `${edge.from} ${edge.outcome}`, class: 'edge', style: { '--hue': `var(--${HUES[edge.outcome] ?? 'warning'})` } },
    h('title', {}, told(edge)),
    h('path', { class: 'way', d: `M${from} ${top}C${from - 4} ${top - 26} ${to + 4} ${top - 26} ${to} ${top - 6}`, 'stroke-width': Math.min(4, thick) }),
    h('polygon', { points: `${to - 0.5},${top} ${to - 4.5},${top - 8} ${to + 5},${top - 7}` }),
    h('text', { x: to + 9, y: top - 10 }, short(edge.weight)));
}

function thickness(edge, most) {
  return edge.weight === 0 ? 1 : 1.4 + 8 * (edge.weight / most) ** 0.7;
}

function told(edge) {
  const name = (id) => id.slice(id.indexOf(':') + 1);
  const to = edge.to.startsWith('end:') ? '' : ` to ${name(edge.to)}`;
  return `${name(edge.from)} ${MEANINGS[edge.outcome] ?? edge.outcome}${edge.from === edge.to ? '' : to}: ${plural(edge.weight, 'time')}${edge.mean === undefined || edge.mean === null ? '' : `, ${span(edge.mean)} on average`}`;
}

function middleOf(points) {
  const index = Math.floor((points.length - 1) / 2);
  return points.length % 2 ? points[index] : [(points[index][0] + points[index + 1][0]) / 2, (points[index][1] + points[index + 1][1]) / 2];
}

function stepOf(machine, id, box) {
  const name = id.slice(3);
  const step = machine.steps.find((each) => each.name === name) ?? { counts: {} };
  const filter = { machine: machine.name, version: machine.version, step: name };
  const statuses = STATUSES.filter((status) => status !== 'done' && status !== 'cancelled' && step.counts?.[status] > 0);
  return h('div', { key: id, class: `step${step.declared === false ? ' undeclared' : ''}${step.counts?.failed ? ' failing' : ''}`, 'data-row': true, style: { left: `${box.x + MARGIN}px`, top: `${box.y + MARGIN + 10}px`, width: `${box.width}px`, height: `${box.height}px` } },
    h('a', { class: 'over', href: href('instances', filter), title: step.declared === false ? `${name}: no live worker has this step` : name }, name),
    h('span', { class: 'chips' }, statuses.length === 0
      ? h('span', { class: 'faint' }, 'no instances')
      : statuses.map((status) => h('a', { key: status, class: `status is-${status}`, href: href('instances', { ...filter, status }), title: `${whole(step.counts[status])} ${words(status)}`, 'data-step-count': `${name} ${status}` }, glyph(status), short(step.counts[status])))),
    h('span', { class: 'faint', title: step.runs ? `${plural(step.runs, 'run')} in the last hour, ${span(step.mean_ms)} on average; ${whole(step.failures)} ended with a retry or a failure` : null },
      step.runs ? [`${short(step.runs)} × ${span(step.mean_ms)}`, step.failures ? h('span', { class: 'bad' }, ` · ${short(step.failures)} failed`) : ''] : 'no recent runs'));
}

function endOf(machine, status, box) {
  const total = machine.steps.reduce((sum, step) => sum + (step.counts?.[status] ?? 0), 0);
  return h('a', { key: `end ${status}`, class: `end is-${status}`, href: href('instances', { machine: machine.name, version: machine.version, status }), title: `${whole(total)} ${status}`, style: { left: `${box.x + MARGIN}px`, top: `${box.y + MARGIN + 10}px`, width: `${box.width}px`, height: `${box.height}px` } },
    glyph(status), words(status), h('b', {}, short(total)));
}

function stepTable(machine) {
  return h('div', { class: 'table' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', {}, 'Step'), STATUSES.map((status) => h('th', { class: 'right' }, words(status))), h('th', { class: 'right' }, 'Runs'), h('th', { class: 'right' }, 'Failed'), h('th', { class: 'right' }, 'Mean'))),
    h('tbody', {}, machine.steps.map((step) => h('tr', { key: step.name },
      h('td', {}, step.name), STATUSES.map((status) => figure(step.counts?.[status])), figure(step.runs), figure(step.failures), h('td', { class: 'right' }, span(step.mean_ms)))))));
}

/** A number in a table; zero is faint. */
function figure(count) {
  return h('td', { class: count ? 'right' : 'right faint' }, whole(count ?? 0));
}

function key() {
  return h('ul', { class: 'key faint', 'aria-label': 'Legend' }, Object.entries(MEANINGS).filter(([outcome]) => outcome !== 'stop' && outcome !== 'renew').map(([outcome, meaning]) =>
    h('li', {}, h('i', { class: outcome === 'wait' || outcome === 'fan_out' ? 'parked' : '', style: { '--hue': `var(--${HUES[outcome]})` } }), meaning)),
  h('li', {}, 'thicker: more often'));
}
