// Live changes: a stream of server-sent events that reconnects, and polling while there is none.
// It uses fetch, because EventSource cannot send a token.

import { address, open, RAW } from './api.js';
import { parse } from './json.js';

const SILENCE_MS = 25_000;
const POLL_MS = 5_000;
const WAITS_MS = [500, 1_000, 2_000, 5_000, 10_000];

/**
 * How the page receives changes: `live`, `polling` or `connecting`. An observer sets `changed`.
 */
export const connection = { state: 'connecting', changed: () => {} };

/**
 * Follows `events` with the given filters until the signal is aborted. `on` has a function per
 * kind of event. `reload` fetches everything again: after a reconnect, and every few seconds
 * without a stream.
 */
export async function follow(query, on, reload, signal) {
  let failures = 0;
  let poll = null;
  const rest = () => {
    clearInterval(poll);
    poll = null;
  };
  signal.addEventListener('abort', rest);
  while (!signal.aborted) {
    try {
      await whenVisible(signal);
      await stream(query, on, signal, () => {
        if (failures > 0) reload();
        failures = 0;
        rest();
        become('live');
      });
    } catch (error) {
      if (signal.aborted) return;
      // If the stream is refused for good, polling continues and reports why it fails.
      if (error.status === 401 || error.status === 403) failures = WAITS_MS.length;
    }
    if (signal.aborted) return;
    failures += 1;
    become('polling');
    poll ??= setInterval(() => { if (!document.hidden) reload(); }, POLL_MS);
    await pause(WAITS_MS[Math.min(failures, WAITS_MS.length) - 1], signal);
  }
}

/** Calls `reload` every few seconds, for data without events. */
export function repeat(reload, every, signal) {
  const timer = setInterval(() => { if (!document.hidden) reload(); }, every);
  signal.addEventListener('abort', () => clearInterval(timer));
}

function become(state) {
  if (connection.state === state) return;
  connection.state = state;
  connection.changed();
}

async function stream(query, on, signal, opened) {
  const silence = new AbortController();
  let timer = null;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  const hide = () => { if (document.hidden) silence.abort(); };
  // A hidden tab needs no stream, and browsers allow few per server.
  document.addEventListener('visibilitychange', hide);
  heard();
  try {
    const response = await open('GET', address('events', query), {
      accept: 'text/event-stream',
      signal: AbortSignal.any([signal, silence.signal]),
    });
    opened();
    await read(response.body.pipeThrough(new TextDecoderStream()).getReader(), (event, data) => {
      heard();
      if (on[event] && data !== '') on[event](parse(data, RAW));
    });
  } finally {
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', hide);
  }
}

/**
 * Splits a stream into events. A line ends with \n, \r or \r\n; an empty one ends the event; `:`
 * begins a comment.
 */
async function read(reader, tell) {
  let rest = '';
  let event = 'message';
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      const [, name, text] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (line === '') {
        tell(event, data.join('\n'));
        event = 'message';
        data = [];
      } else if (name === 'event') event = text;
      else if (name === 'data') data.push(text);
      else if (name === '') tell('comment', '');
    }
  }
}

function whenVisible(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', done);
      resolve();
    };
    document.addEventListener('visibilitychange', done);
    signal.addEventListener('abort', done);
  });
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/**
 * Returns whether two reads saw the same version of an instance. A wake and a cancel request do
 * not change the revision.
 */
export function isSame(one, other) {
  return one?.revision === other?.revision && one?.status === other?.status && one?.cancel?.answered === other?.cancel?.answered;
}
