// The form that sends an update to an instance, and shows the reply.

import { getUpdate, segment, sendUpdate } from '../data/api.js';
import { problemOf, Raw } from '../data/json.js';
import { h } from '../draw/view.js';

const WAIT_MS = 30_000;
const SAID = { rejected: 'was rejected', failed: 'failed' };

/**
 * Returns `{ describe, isShown }`. The form remains while it shows an answer, because an update may
 * end its instance. It calls `sent` after each update.
 */
export function updateForm(id, { signal, draw, sent }) {
  const typed = { name: '', payload: '', id: '' };
  let refused = null;
  let answer = null;
  let waiting = false;

  async function wait(request) {
    [refused, waiting] = [null, true];
    draw();
    try {
      answer = await request();
      sent();
    } catch (error) {
      if (error.name === 'AbortError') return;
      refused = error;
    }
    waiting = false;
    draw();
  }

  function send() {
    const name = typed.name.trim();
    const wrong = name === '' ? 'the name is required' : typed.payload.trim() === '' ? null : problemOf(typed.payload);
    answer = null;
    if (wrong) {
      refused = { message: wrong };
      draw();
      return;
    }
    const payload = new Raw(typed.payload.trim() === '' ? 'null' : typed.payload);
    wait(() => sendUpdate(`instances/${id}/updates/${segment(name)}`, payload, { id: typed.id.trim(), timeout_ms: WAIT_MS }, signal));
  }

  function waitOn() {
    const hex = answer.update_hex;
    wait(() => getUpdate(`instances/${id}/updates/${segment(hex ?? answer.update)}`, { hex: hex && 'true', timeout_ms: WAIT_MS }, signal));
  }

  function outcome() {
    const { name, update, state, kind, reply, reason } = answer;
    const said = state === 'pending' ? 'has no reply yet' : state === 'ended' ? 'has no reply: the instance has ended' : SAID[kind] ?? 'has a reply';
    return h('div', { 'data-update': update, 'data-kind': kind ?? state, role: 'status' },
      h('p', {}, h('b', {}, name), ' ', h('code', { class: 'faint' }, update), ` ${said}${reason ? `: ${reason}` : '.'}`),
      reply && h('div', { class: 'well' }, h('json-view', { raw: reply })),
      state === 'pending' && h('div', { class: 'actions' }, h('button', { type: 'button', disabled: waiting, onclick: waitOn }, waiting ? 'Waiting …' : 'Wait on')));
  }

  function describe(instance) {
    const awaited = instance.awaits ?? [];
    const field = (name) => ({ name, value: typed[name], autocomplete: 'off', spellcheck: 'false', oninput: (event) => { typed[name] = event.target.value; } });
    return h('form', { class: 'update-form', onsubmit: (event) => { event.preventDefault(); send(); } },
      h('div', { class: 'pair' },
        h('label', {}, 'Name', h('input', { ...field('name'), list: 'updates', placeholder: 'change_price' }), h('datalist', { id: 'updates' }, awaited.map((name) => h('option', { value: name })))),
        h('label', {}, 'Id (optional)', h('input', field('id')))),
      h('label', {}, 'Payload (JSON, optional)', h('textarea', { ...field('payload'), placeholder: '{"to": 90}', rows: '3' })),
      h('p', { class: 'field-problem', role: 'alert' }, refused && (refused.code ? `${refused.message} (${refused.code})` : refused.message)),
      h('div', { class: 'actions' }, h('button', { type: 'submit', disabled: waiting }, waiting ? 'Waiting …' : 'Send update'), h('span', { class: 'faint' }, 'A signal that wants a reply.')),
      // Last, so that it does not move the button under a click.
      answer && outcome());
  }

  return { describe, isShown: () => answer !== null || waiting };
}
