// Charts over minutes as SVG: bars for counts, lines for measurements. A separate line shows the
// value under the pointer, so that nothing moves.

import { h } from './view.js';
import { clock } from './format.js';

const WIDTH = 380;
const HEIGHT = 128;
const LEFT = 42;
const BOTTOM = 18;
const TOP = 8;

/**
 * Describes a chart. `series` is a list of { name, hue, values, kind: 'bars' | 'line' }; `write`
 * formats a value. The scale reaches at least to `least`. `pointed` is the index under the
 * pointer, and `point` is called when it changes.
 */
export function chart({ minutes, series, write, least, pointed, point, label }) {
  const top = ceiling(Math.max(least, ...series.flatMap((each) => each.values.map((value) => value ?? 0))));
  const step = (WIDTH - LEFT) / Math.max(1, minutes.length);
  const x = (index) => LEFT + (index + 0.5) * step;
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  return h('svg', {
    class: 'chart', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': label,
    onpointermove: (event) => point(indexAt(event, step, minutes.length)),
    onpointerleave: () => point(null),
  },
  [0, 0.5, 1].map((part) => [
    h('line', { class: 'grid', x1: LEFT, x2: WIDTH, y1: y(part * top), y2: y(part * top) }),
    h('text', { class: 'tick', x: LEFT - 6, y: y(part * top) + 3.5, 'text-anchor': 'end' }, write(part * top)),
  ]),
  moments(minutes).map((index) => h('text', { class: 'tick', x: x(index), y: HEIGHT - 4, 'text-anchor': index > minutes.length * 0.9 ? 'end' : 'middle' }, clock(minutes[index]))),
  pointed !== null && pointed < minutes.length && h('rect', { class: 'pointed', x: x(pointed) - step / 2, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM }),
  series.map((each) => (each.kind === 'bars' ? bars(each, x, y, step) : line(each, x, y))));
}

function bars({ values, hue }, x, y, step) {
  const width = Math.max(1, Math.min(14, step - Math.min(2, step * 0.25)));
  return h('g', { class: 'bars', style: { fill: `var(--${hue})` } }, values.map((value, index) => value > 0 &&
    h('rect', { key: index, x: x(index) - width / 2, width, y: Math.min(y(value), y(0) - 1.5), height: Math.max(1.5, y(0) - y(value)), rx: Math.min(1.5, width / 3) })));
}

/** A line with gaps where there is no value; a single value is a dot. */
function line({ values, hue, dashed }, x, y) {
  const runs = [];
  values.forEach((value, index) => {
    if (value === null || value === undefined) return;
    if (index > 0 && values[index - 1] !== null && values[index - 1] !== undefined) runs.at(-1).push([x(index), y(value)]);
    else runs.push([[x(index), y(value)]]);
  });
  return h('g', { class: dashed ? 'line dashed' : 'line', style: { stroke: `var(--${hue})`, fill: `var(--${hue})` } }, runs.map((run) => (run.length === 1
    ? h('circle', { cx: run[0][0], cy: run[0][1], r: 2 })
    : h('path', { d: `M${run.map(([at, value]) => `${at.toFixed(1)} ${value.toFixed(1)}`).join('L')}`, fill: 'none' }))));
}

/** The line that shows the value under the pointer, or the newest one. */
export function legend({ minutes, series, write, pointed }) {
  const index = pointed !== null && pointed < minutes.length ? pointed : minutes.length - 1;
  return h('p', { class: 'legend' },
    series.map((each) => h('span', {}, h('i', { class: each.dashed ? 'dashed' : '', style: { background: `var(--${each.hue})` } }), each.name, ' ', h('b', {}, minutes.length ? write(each.values[index]) : '–'))),
    h('span', { class: 'faint' }, minutes.length ? clock(minutes[index]) : ''));
}

function indexAt(event, step, count) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = ((event.clientX - box.left) / box.width) * WIDTH;
  const index = Math.floor((at - LEFT) / step);
  return index >= 0 && index < count ? index : null;
}

/** Returns a round number at or above the value, so that the scale rarely changes. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((factor) => factor * power).find((each) => each >= value);
}

/** Returns about four minutes to label, at round times. */
function moments(minutes) {
  const every = [5, 10, 15, 30, 60, 120, 240, 360].find((each) => minutes.length / each <= 5) ?? 720;
  return minutes.map((at, index) => [at, index])
    .filter(([at, index]) => index > 1 && Math.round(Date.parse(at) / 60_000) % every === 0)
    .map(([, index]) => index);
}
