// The form that sends a signal to an instance.

import { post } from '../data/api.js';
import { problemOf, Raw } from '../data/json.js';
import { toast } from '../draw/parts.js';
import { h } from '../draw/view.js';

/** A form that sends signals; it calls `sent` after each. */
export function signalForm(id, { draw, sent }) {
  const typed = { name: null, payload: '', dedup_key: '' };
  let refused = null;
  let sending = false;

  async function send(awaited) {
    const name = (typed.name ?? awaited[0] ?? '').trim();
    const wrong = name === '' ? 'the name is required' : typed.payload.trim() === '' ? null : problemOf(typed.payload);
    refused = wrong && { message: wrong };
    if (!wrong) {
      sending = true;
      draw();
      try {
        const payload = typed.payload.trim() === '' ? undefined : new Raw(typed.payload);
        const answer = await post(`instances/${id}/signals`, { name, payload, dedup_key: typed.dedup_key.trim() || undefined });
        toast(answer.delivery === 'duplicate' ? 'Duplicate: a signal with this dedup key was already delivered.' : `Signal ${name} sent.`);
        Object.assign(typed, { name: null, payload: '', dedup_key: '' });
        sent();
      } catch (error) {
        refused = error;
      }
      sending = false;
    }
    draw();
  }

  return function describe(instance) {
    const awaited = instance.awaits ?? [];
    const field = (name) => ({ name, value: typed[name] ?? '', autocomplete: 'off', spellcheck: 'false', oninput: (event) => { typed[name] = event.target.value; } });
    return h('form', { class: 'signal-form', onsubmit: (event) => { event.preventDefault(); send(awaited); } },
      h('div', { class: 'pair' },
        h('label', {}, 'Name', h('input', { ...field('name'), value: typed.name ?? awaited[0] ?? '', list: 'awaited', placeholder: 'payment_confirmed' }), h('datalist', { id: 'awaited' }, awaited.map((name) => h('option', { value: name })))),
        h('label', {}, 'Dedup key (optional)', h('input', field('dedup_key')))),
      h('label', {}, 'Payload (JSON, optional)', h('textarea', { ...field('payload'), placeholder: '{"amount": 100}', rows: '3' })),
      h('p', { class: 'field-problem', role: 'alert' }, refused && (refused.code ? `${refused.message} (${refused.code})` : refused.message)),
      h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary', disabled: sending }, sending ? 'Sending …' : 'Send signal'),
        awaited.length > 0 && h('span', { class: 'faint' }, `Waiting for ${awaited.join(' or ')}.`)));
  };
}
