// Instances: a filtered, paged table, and the bulk verbs.

import { get } from '../data/api.js';
import { actOnAll, hindrance, VERBS } from '../list/bulk.js';
import { choose, chosen } from '../list/columns.js';
import { FIELDS, inWords, isEmpty, MORE_FIELDS, read, toAddress, toQuery } from '../list/filters.js';
import { counted, plural, STATUSES, words } from '../draw/format.js';
import { follow, isSame, repeat } from '../data/live.js';
import { empty, glyph, problem, skeletons } from '../draw/parts.js';
import { go, href } from '../router.js';
import { h } from '../draw/view.js';

const PAGE = 50;
const TYPING_MS = 250;
const COUNT_MS = 10_000;

export function screen({ query, signal, draw }) {
  let filter = read(query);
  let cursor = query.get('cursor');
  let more = MORE_FIELDS.some((field) => query.has(field.name));
  let page = null;
  let count = null;
  let failed = null;
  let suggestions = { machines: [], steps: [], queues: [] };
  let typing = null;
  let asked = new AbortController();
  let searched = 0;
  const fresh = new Set();
  const changed = new Map();

  start();
  loadSuggestions();
  repeat(recount, COUNT_MS, signal);

  /** A new filter or page: earlier requests no longer matter. */
  function start() {
    asked.abort();
    asked = new AbortController();
    const ends = AbortSignal.any([signal, asked.signal]);
    page = null;
    count = null;
    searched = 0;
    fresh.clear();
    changed.clear();
    load(ends).then(() => {
      if (ends.aborted || !page) return;
      follow({ ...toQuery(filter), limit: PAGE, cursor }, { instance: heard, gone }, () => load(ends), ends);
    });
    draw();
  }

  async function load(ends) {
    try {
      [page, count] = await Promise.all([
        get('instances', { ...toQuery(filter), limit: PAGE, cursor }, ends),
        get('instances/count', toQuery(filter), ends),
      ]);
      failed = null;
      fresh.clear();
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
    }
    draw();
  }

  async function recount() {
    const of = filter;
    const fresher = await get('instances/count', toQuery(of), signal).catch(() => null);
    if (fresher && of === filter) count = fresher;
    draw();
  }

  async function loadSuggestions() {
    const [machines, queues] = await Promise.all([get('machines', {}, signal), get('queues', {}, signal)]).catch(() => [null, null]);
    if (!machines) return;
    suggestions = {
      machines: [...new Set(machines.machines.map((each) => each.name))],
      steps: machines.machines.flatMap((each) => each.steps.map((step) => [each.name, step.name])),
      queues: queues.queues.map((each) => each.name),
    };
    draw();
  }

  function heard(instance) {
    const index = page?.instances.findIndex((each) => each.id === instance.id) ?? -1;
    if (index >= 0) {
      // A stream begins with the current state of everything.
      if (isSame(page.instances[index], instance)) return;
      page.instances[index] = instance;
      mark(instance.id, filter.statuses.length > 0 && !filter.statuses.includes(instance.status));
    } else if (page && !cursor && BigInt(instance.id) > BigInt(page.instances[0]?.id ?? 0)) {
      fresh.add(instance.id);
    }
    draw();
  }

  /** An instance that left the end of the page has only made room for newer ones. */
  function gone({ id }) {
    const index = page?.instances.findIndex((each) => each.id === id) ?? -1;
    if (index >= 0 && index < page.instances.length - fresh.size) mark(id, true);
  }

  /** A changed row lights up; a row that no longer matches the filter fades. */
  function mark(id, left) {
    const before = changed.get(id);
    changed.set(id, { turn: (before?.turn ?? 0) + 1, left });
    draw();
  }

  function set(change, { soon = false } = {}) {
    clearTimeout(typing);
    filter = { statuses: change.statuses ?? filter.statuses, values: { ...filter.values, ...change.values } };
    for (const name in filter.values) if (filter.values[name] === '') delete filter.values[name];
    const apply = () => go(href('instances', toAddress(filter)), { replace: true });
    if (soon) typing = setTimeout(apply, TYPING_MS);
    else apply();
    draw();
  }

  async function act(verb) {
    const done = await actOnAll(verb, filter);
    if (done !== null) start();
  }

  function describe() {
    return [
      h('div', { class: 'head' }, h('h1', {}, 'Instances'),
        h('span', { class: 'faint', 'aria-live': 'polite', 'data-total': true }, count ? (isEmpty(filter) ? plural(count, 'instance') : `${counted(count)} match`) : ' '),
        h('div', { class: 'actions' },
          Object.entries(VERBS).map(([verb, { name, danger }]) => {
            const why = hindrance(verb, filter);
            return h('button', { class: danger ? 'danger' : '', disabled: Boolean(why) || count?.count === 0, title: why ?? `${name} all matching instances, after a confirmation`, onclick: () => act(verb) }, `${name} all …`);
          }))),
      filterBar(),
      failed && problem(failed, start),
      !failed && h('section', { class: 'card', 'aria-label': 'Instances' }, table(), foot()),
    ];
  }

  function filterBar() {
    const extra = MORE_FIELDS.filter((field) => filter.values[field.name]).length;
    return h('form', { class: 'filters', role: 'search', 'aria-label': 'Filter', onsubmit: (event) => event.preventDefault() },
      h('div', { class: 'statuses', role: 'group', 'aria-label': 'Status' }, STATUSES.map((status) => {
        const on = filter.statuses.includes(status);
        return h('button', { type: 'button', class: `small is-${status}`, 'aria-pressed': String(on), onclick: () => set({ statuses: on ? filter.statuses.filter((each) => each !== status) : [...filter.statuses, status] }) },
          h('span', { class: 'status' }, glyph(status)), words(status));
      })),
      h('div', { class: 'fields' }, FIELDS.map((field, index) => fieldOf(field, index === 0)), more && MORE_FIELDS.map((field) => fieldOf(field, false))),
      h('div', { class: 'actions' },
        h('button', { type: 'button', class: 'quiet small', 'aria-expanded': String(more), onclick: () => { more = !more; draw(); } }, more ? 'Fewer filters' : `More filters${extra ? ` (${extra} set)` : ''}`),
        !isEmpty(filter) && h('button', { type: 'button', class: 'quiet small', onclick: () => go(href('instances')) }, 'Clear'),
        h('button', { type: 'button', class: 'quiet small', onclick: () => choose().then(draw) }, 'Columns'),
        fresh.size > 0 && h('button', { type: 'button', class: 'small primary', onclick: start }, `Show ${plural(fresh.size, 'new instance')}`)));
  }

  function fieldOf(field, search) {
    const value = filter.values[field.name] ?? '';
    const props = { name: field.name, class: value ? 'set' : '', value: field.moment ? value.slice(0, 16) : value, key: field.name };
    if (field.choices) {
      return h('label', { key: field.name }, field.label, h('select', { ...props, onchange: (event) => set({ values: { [field.name]: event.target.value } }) },
        field.choices.map(([each, text]) => h('option', { value: each, selected: each === value }, text))));
    }
    const steps = suggestions.steps.filter(([machine]) => !filter.values.machine || machine === filter.values.machine).map(([, step]) => step);
    const options = field.suggest === 'steps' ? [...new Set(steps)] : suggestions[field.suggest];
    return h('label', { key: field.name }, field.label,
      h('input', {
        ...props, 'data-search': search, autocomplete: 'off', spellcheck: 'false', placeholder: 'any',
        type: field.moment ? 'datetime-local' : 'text', inputmode: field.digits ? 'numeric' : null,
        list: options ? `suggest-${field.name}` : null,
        oninput: (event) => set({ values: { [field.name]: field.moment ? utc(event.target.value) : event.target.value } }, { soon: true }),
      }),
      options && h('datalist', { id: `suggest-${field.name}` }, options.slice(0, 100).map((option) => h('option', { value: option }))));
  }

  function table() {
    if (!page) return skeletons(12);
    if (page.instances.length === 0) return nothing();
    const columns = chosen();
    return h('div', { class: 'table' }, h('table', { class: 'instances' },
      h('thead', {}, h('tr', {}, columns.map((column) => h('th', { key: column.name, class: column.class, scope: 'col' }, column.label)))),
      h('tbody', {}, page.instances.map((each) => {
        const mine = changed.get(each.id);
        return h('tr', { key: each.id, 'data-row': each.id, class: mine ? `${mine.left ? 'gone' : `changed-${mine.turn % 2}`}` : '' },
          columns.map((column) => h('td', { key: column.name, class: column.class, title: column.class?.includes('clip') ? plain(each[column.name]) : null }, column.cell(each))));
      }))));
  }

  function nothing() {
    if (page.next) {
      return empty('No match yet', 'No instance searched so far matches this filter. Older ones have not been searched.',
        searched > 0
          ? h('p', { class: 'faint', role: 'status' }, `Searching: ${plural(searched, 'page')} so far …`)
          : h('button', { class: 'primary', onclick: search }, 'Search older'));
    }
    if (isEmpty(filter)) return empty('No instances', 'Start one from your program, with `outlast insert` or with POST /v1/instances.');
    return empty('No matches', `No instance matches: ${inWords(filter)}.`, h('button', { onclick: () => go(href('instances')) }, 'Clear filter'));
  }

  /**
   * Continues page after page to the first one with results; a new filter or another screen ends
   * it.
   */
  async function search() {
    const ends = AbortSignal.any([signal, asked.signal]);
    let at = page.next;
    try {
      while (at) {
        searched += 1;
        draw();
        const further = await get('instances', { ...toQuery(filter), limit: PAGE, cursor: at }, ends);
        if (further.instances.length > 0 || !further.next) break;
        at = further.next;
      }
      go(href('instances', { ...toAddress(filter), cursor: at }));
    } catch (error) {
      if (error.name === 'AbortError') return;
      failed = error;
      draw();
    }
  }

  function older() {
    go(href('instances', { ...toAddress(filter), cursor: page.next }));
  }

  function foot() {
    if (!page || (page.instances.length === 0 && !cursor)) return null;
    return h('footer', { class: 'pager' },
      h('span', { class: 'faint' }, 'Newest first'),
      h('div', { class: 'actions' },
        h('button', { disabled: !cursor, onclick: () => go(href('instances', toAddress(filter))) }, 'Newest'),
        h('button', { disabled: !cursor, onclick: () => history.back() }, 'Newer'),
        h('button', { disabled: !page.next, onclick: older, 'data-older': true }, 'Older')));
  }

  return {
    title: () => 'Instances',
    describe,
    moved(next) {
      filter = read(next);
      cursor = next.get('cursor');
      start();
    },
  };
}

function plain(value) {
  return typeof value === 'string' ? value : null;
}

function utc(local) {
  return local ? `${local}:00Z` : '';
}
