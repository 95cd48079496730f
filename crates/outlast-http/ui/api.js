// Speaks to the JSON API, which lies beside the dashboard: `../v1/` of the page's <base>.

import { learnClock } from './format.js';
import { parse, Raw } from './json.js';

const ROOT = new URL('../v1/', document.baseURI);
const TOKEN = 'outlast.token';
const PATIENCE_MS = 35_000;
// Members that hold people's data, which is never turned into numbers.
export const RAW = new Set(['state', 'began', 'result', 'payload', 'data']);

/** What the API says when it refuses: a problem with a stable code. */
export class Problem extends Error {
  constructor({ status, code, title, detail }) {
    super(detail || title || code);
    this.status = status;
    this.code = code;
    this.title = title;
  }
}

/** Asks for a token; set by the page. Gives the token, or null when the person would rather not. */
export const gate = { ask: async () => null };

/** The address of an API path. `query` holds strings, numbers, or arrays of them; what is empty is left out. */
export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== '') url.searchParams.append(name, one);
    }
  }
  return url;
}

/** A name as one segment of a path. */
export function segment(name) {
  return encodeURIComponent(name);
}

export function get(path, query, signal) {
  return request('GET', path, { query, signal });
}

export function post(path, body, signal) {
  return request('POST', path, { body: body ?? {}, signal });
}

export function remove(path, query, signal) {
  return request('DELETE', path, { query, signal });
}

async function request(method, path, { query, body, signal }) {
  const response = await open(method, address(path, query), { body, signal, patience: PATIENCE_MS });
  const text = await response.text();
  return text === '' ? null : parse(text, RAW);
}

/** Sends a request and gives the answer's head; asks for a token when one is needed, and tries again with it. */
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
      title: late ? 'No answer in time' : 'The server cannot be reached',
      detail: late ? `the server did not answer within ${PATIENCE_MS / 1000} s` : 'the server does not answer: it may be stopped or restarting',
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

/** Writes a body; a `Raw` within it goes out as it was typed. */
function write(value) {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${write(member)}`).join(',')}}`;
}

// Many requests may be refused at once; the person is asked once.
let asking = null;

async function askOnce(refused, problem) {
  if (storedToken() !== refused) return true;
  asking ??= gate.ask(problem).finally(() => { asking = null; });
  const token = await asking;
  if (!token) return false;
  keepToken(token);
  return true;
}

// Also in memory: storage may be forbidden. A tab's storage ends with the tab.
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
    // It stays in memory.
  }
}

export function forgetToken() {
  inMemory = null;
  try {
    sessionStorage.removeItem(TOKEN);
  } catch {
    // There was nothing to forget.
  }
}
