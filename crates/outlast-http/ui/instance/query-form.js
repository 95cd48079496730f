// The form that asks a workflow. Its code answers, so the form is shown only where the code is.

import { ask, get, segment } from '../data/api.js';
import { problemOf, Raw } from '../data/json.js';
import { h } from '../draw/view.js';

// A query replays the whole history. A longer one is replayed only when the user asks for it.
const EVENTS_MAX = 2_000;
// The workflows whose code is not on this server, by name and version.
const elsewhere = new Set();

/** Returns `{ load, describe }`; `describe` is null where nothing can be asked. */
export function queryForm(id, { signal, draw }) {
  const typed = { name: null, query: '' };
  let names = null;
  // What was read last: the run and, until it answers something, its events.
  let read = null;
  let refused = null;
  let reply = null;
  let asking = false;

  /** Reads the names of the queries, if they may have changed. `now`: the user asks for them. */
  async function load(instance, now = false) {
    const code = `${instance.machine}/${instance.version}`;
    const next = `${instance.run} ${names?.length > 0 ? '' : instance.events}`;
    if (!now && (elsewhere.has(code) || read === next || instance.events > EVENTS_MAX)) return;
    read = next;
    try {
      names = (await get(`instances/${id}/queries`, {}, signal)).queries;
      refused = null;
    } catch (error) {
      if (error.name === 'AbortError') return;
      names = null;
      if (error.code === 'no_code') elsewhere.add(code);
      if (now) refused = error;
    }
    draw();
  }

  function chosen() {
    return names.includes(typed.name) ? typed.name : names[0];
  }

  async function send() {
    const wrong = typed.query.trim() === '' ? null : problemOf(typed.query);
    refused = wrong && { message: wrong };
    reply = null;
    if (!wrong) {
      asking = true;
      draw();
      const query = new Raw(typed.query.trim() === '' ? 'null' : typed.query);
      try {
        reply = await ask(`instances/${id}/queries/${segment(chosen())}`, query, signal);
      } catch (error) {
        if (error.name === 'AbortError') return;
        refused = error;
      }
      asking = false;
    }
    draw();
  }

  function describe(instance) {
    const problem = h('p', { class: 'field-problem', role: 'alert' }, refused && (refused.code ? `${refused.message} (${refused.code})` : refused.message));
    if (names === null && instance.events > EVENTS_MAX) {
      return h('div', { class: 'query-form' },
        h('p', { class: 'faint' }, 'Its history is long, and a query replays it as a whole.'), problem,
        h('div', { class: 'actions' }, h('button', { onclick: () => load(instance, true) }, 'List its queries')));
    }
    if (names === null || names.length === 0) return null;
    return h('form', { class: 'query-form', onsubmit: (event) => { event.preventDefault(); send(); } },
      h('label', {}, 'Name', h('select', { name: 'query', onchange: (event) => { typed.name = event.target.value; reply = null; draw(); } }, names.map((name) => h('option', { key: name, value: name, selected: name === chosen() }, name)))),
      h('label', {}, 'Value (JSON, optional)', h('textarea', { name: 'value', value: typed.query, rows: '2', autocomplete: 'off', spellcheck: 'false', placeholder: '{"prefix": "a"}', oninput: (event) => { typed.query = event.target.value; } })),
      problem,
      reply && h('div', { class: 'well', 'data-reply': chosen() }, h('json-view', { raw: reply })),
      h('div', { class: 'actions' }, h('button', { type: 'submit', disabled: asking }, asking ? 'Asking …' : 'Ask')));
  }

  return { load, describe };
}
