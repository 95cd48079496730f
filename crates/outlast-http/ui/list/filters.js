// The filters of instances, with the names of the API and of the address. `age` and `older` count
// back from now, so that a saved address stays meaningful.

import { now, STATUSES, words } from '../draw/format.js';

export const AGES = [['15m', '15 minutes'], ['1h', '1 hour'], ['6h', '6 hours'], ['1d', '1 day'], ['7d', '7 days'], ['30d', '30 days']];
const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The text fields; the first ones are always shown, the others on demand. */
export const FIELDS = [
  { name: 'machine', label: 'Machine', suggest: 'machines' },
  { name: 'step', label: 'Step', suggest: 'steps' },
  { name: 'queue', label: 'Queue', suggest: 'queues' },
  { name: 'key', label: 'Correlation key' },
  { name: 'error', label: 'Error contains' },
];
export const MORE_FIELDS = [
  { name: 'version', label: 'Version', digits: true },
  { name: 'partition_key', label: 'Partition key' },
  { name: 'key_hex', label: 'Correlation key (hex)' },
  { name: 'partition_key_hex', label: 'Partition key (hex)' },
  { name: 'parent', label: 'Parent id', digits: true },
  { name: 'attempts_from', label: 'Min. retries', digits: true },
  { name: 'deadline', label: 'Wait deadline', choices: [['', 'any'], ['none', 'none'], ['overdue', 'overdue']] },
  { name: 'age', label: 'Inserted in the last', choices: [['', 'any time'], ...AGES] },
  { name: 'older', label: 'Inserted before the last', choices: [['', 'any time'], ...AGES] },
  { name: 'inserted_from', label: 'Inserted from (UTC)', moment: true },
  { name: 'inserted_until', label: 'Inserted until (UTC)', moment: true },
  { name: 'ended_from', label: 'Finished from (UTC)', moment: true },
  { name: 'ended_until', label: 'Finished until (UTC)', moment: true },
];
const NAMES = [...FIELDS, ...MORE_FIELDS].map((field) => field.name);
const NUMBERS = new Set(['version', 'attempts_from']);

/** Reads the filter of an address: { statuses, values }. Ignores unknown names. */
export function read(query) {
  const statuses = query.getAll('status').flatMap((each) => each.split(',')).filter((each) => STATUSES.includes(each));
  const values = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? '']).filter(([, value]) => value !== ''));
  return { statuses: [...new Set(statuses)], values };
}

/** Returns the filter for an address. */
export function toAddress({ statuses, values }) {
  return { ...values, status: statuses };
}

/** Returns the filter for the API's list. */
export function toQuery({ statuses, values }) {
  const { age, older, ...rest } = values;
  const query = { ...rest, status: statuses };
  if (age) query.inserted_from = momentBefore(age);
  if (older) query.inserted_until = momentBefore(older);
  return query;
}

/** Returns the filter for the API's bulk verbs: JSON, with numbers as numbers. */
export function toBody(filter) {
  const entries = Object.entries(toQuery(filter)).filter(([, value]) => value.length > 0);
  return Object.fromEntries(entries.map(([name, value]) => [name, NUMBERS.has(name) ? Number(value) : value]));
}

/** Returns the filter in words. */
export function inWords({ statuses, values }) {
  const said = [];
  if (statuses.length > 0) said.push(statuses.map(words).join(' or '));
  for (const field of [...FIELDS, ...MORE_FIELDS]) {
    if (values[field.name]) {
      const choice = field.choices?.find(([value]) => value === values[field.name]);
      said.push(`${field.label.toLowerCase()} ${choice ? choice[1] : values[field.name]}`);
    }
  }
  return said.join(', ') || 'everything';
}

export function isEmpty({ statuses, values }) {
  return statuses.length === 0 && Object.keys(values).length === 0;
}

function momentBefore(age) {
  const [, count, unit] = /^(\d{1,4})([mhd])$/.exec(age) ?? [null, 0, 'm'];
  return new Date(now() - count * UNITS_MS[unit]).toISOString();
}
