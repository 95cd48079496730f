// The client of the JSON API, which is beside the dashboard: `../v1/` of the page's <base>.

import { learnClock } from '../draw/format.js';
import { parse, Raw } from './json.js';

const ROOT = new URL('../v1/', document.baseURI);
const TOKEN = 'outlast.token';
const PATIENCE_MS = 35_000;
// Members with users' data. They stay text, because JSON.parse would round their numbers.
export const RAW = new Set(['state', 'began', 'result', 'payload', 'data']);

/** A refusal of the API: a problem with a stable code. */
export class Problem extends Error {
  constructor({ status, code, title, detail }) {
    super(detail || title || code);
    this.status = status;
    this.code = code;
    this.title = title;
  }
}

/** Asks for a token; set by the page. Returns the token, or null when the user cancels. */
export const gate = { ask: async () => null };

/**
 * Returns the address of an API path. `query` has strings, numbers, or arrays of them; empty
 * values are left out.
 */
export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== '') url.searchParams.append(name, one);
    }
  }
  return url;
}

/** Encodes a name as one segment of a path. */
export function segment(name) {
  return encodeURIComponent(name);
}

export function get(path, query, signal) {
  return request('GET', path, { query, signal });
}

export function post(path, body, signal) {
  return request('POST', path, { body: body ?? {}, signal });
}

/** Sends a piece of JSON, and returns the whole answer as one. */
export async function ask(path, raw, signal) {
  const response = await open('POST', address(path), { body: raw, signal, patience: PATIENCE_MS });
  return new Raw(await response.text());
}

// The reply to an update is users' data, and stays text.
const REPLY = new Set(['reply']);

/** Sends an update with a payload, a piece of JSON. */
export function sendUpdate(path, raw, query, signal) {
  return request('POST', path, { query, body: raw, signal, pieces: REPLY });
}

/** Returns what became of an update. */
export function getUpdate(path, query, signal) {
  return request('GET', path, { query, signal, pieces: REPLY });
}

export function remove(path, query, signal) {
  return request('DELETE', path, { query, signal });
}

async function request(method, path, { query, body, signal, pieces = RAW }) {
  const response = await open(method, address(path, query), { body, signal, patience: PATIENCE_MS });
  const text = await response.text();
  return text === '' ? null : parse(text, pieces);
}

/**
 * Sends a request and returns the response. Asks for a token when one is needed, and retries with
 * it.
 */
export async function open(method, url, { body, signal, accept = 'application/json', patience } = {}) {
  for (;;) {
    const token = storedToken();
    const headers = { accept };
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) headers['content-type'] = 'application/json';
    const limits = [signal, patience && AbortSignal.timeout(patience)].filter(Boolean);
    const response = await answered(fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : write(body),
      signal: limits.length ? AbortSignal.any(limits) : undefined,
      credentials: 'same-origin',
      cache: 'no-store',
    }));
    learnClock(response.headers.get('date'));
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401 || !(await askOnce(token, problem))) throw problem;
  }
}

async function answered(response) {
  try {
    return await response;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    const late = error.name === 'TimeoutError';
    throw new Problem({
      status: 0,
      code: late ? 'timeout' : 'unreachable',
      title: late ? 'Request timed out' : 'Server unreachable',
      detail: late ? `the server did not respond within ${PATIENCE_MS / 1000} s` : 'the server does not respond; it may be restarting',
    });
  }
}

async function problemOf(response) {
  const said = await response.text().then((text) => parse(text)).catch(() => ({}));
  return new Problem({
    status: response.status,
    code: said?.code ?? `http_${response.status}`,
    title: said?.title ?? response.statusText,
    detail: said?.detail,
  });
}

/** Serializes a body; a `Raw` within it is sent as it was typed. */
function write(value) {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${write(member)}`).join(',')}}`;
}

// Many requests may be refused at once; the user is asked once.
let asking = null;

async function askOnce(refused, problem) {
  if (storedToken() !== refused) return true;
  asking ??= gate.ask(problem).finally(() => { asking = null; });
  const token = await asking;
  if (!token) return false;
  keepToken(token);
  return true;
}

// Also kept in memory, because storage may be forbidden. The storage of a tab ends with the tab.
let inMemory = null;

export function storedToken() {
  try {
    return sessionStorage.getItem(TOKEN) ?? inMemory;
  } catch {
    return inMemory;
  }
}

function keepToken(token) {
  inMemory = token;
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // The token stays in memory.
  }
}

export function forgetToken() {
  inMemory = null;
  try {
    sessionStorage.removeItem(TOKEN);
  } catch {
    // There is no stored token.
  }
}
