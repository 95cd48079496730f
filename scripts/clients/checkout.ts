// Inserts a checkout, signals it and waits for its end, with the client that openapi-typescript generates.
//
// Arguments: the address of the server, and a token.

import createClient from 'openapi-fetch';
import type { paths } from './schema.js';

declare const process: { argv: string[] };

const [, , baseUrl, token] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } });

/** The data of an answer, or the end of the program with the problem. */
function expect<T>(answer: { data?: T; error?: { code: string; detail: string } }): T {
  if (answer.error || answer.data === undefined) throw new Error(`${answer.error?.code}: ${answer.error?.detail}`);
  return answer.data;
}

function check(holds: boolean, what: string) {
  if (!holds) throw new Error(what);
}

const key = 'typescript';
const body = { machine: 'checkout', step: 'start', state: { order: 2, amount: 50 }, key };
const inserted = expect(await client.POST('/v1/instances', { body }));
check(inserted.created, 'the checkout was there before');
const params = { path: { id: inserted.id } };

const settled = expect(await client.GET('/v1/instances/{id}/wait', { params: { ...params, query: { until: 'settled' } } }));
check(settled.instance.status === 'awaiting_signal', `it is ${settled.instance.status}`);

const signal = { name: 'payment_confirmed', payload: { amount: 50 }, dedup_key: 'payment-2' };
const holder = { path: { machine: 'checkout', key } };
const sent = expect(await client.POST('/v1/machines/{machine}/keys/{key}/signals', { params: holder, body: signal }));
check(sent.delivery === 'delivered' && sent.instance === inserted.id, 'the signal went astray');

const ended = expect(await client.GET('/v1/instances/{id}/wait', { params }));
check(ended.reached && ended.instance.status === 'done', `it is ${ended.instance.status}`);
check(ended.instance.result === 'order 2 is on its way', `it gave ${JSON.stringify(ended.instance.result)}`);

const missing = await client.GET('/v1/instances/{id}', { params: { path: { id: '999999999' } } });
check(missing.error?.code === 'not_found', 'an unknown id was found');
