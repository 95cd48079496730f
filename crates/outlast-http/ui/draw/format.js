// Formats numbers and times, the same on every screen.

const WHOLE = new Intl.NumberFormat('en');
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

export const STATUSES = [
  'runnable', 'executing', 'awaiting_signal', 'sleeping', 'awaiting_children', 'done', 'failed', 'cancelled',
];
export const ENDED = new Set(['done', 'failed', 'cancelled']);

/** 1234567 as 1,234,567. */
export function whole(number) {
  return number === null || number === undefined ? '–' : WHOLE.format(number);
}

/** 1234567 as 1.2M; exact below 10,000. */
export function short(number) {
  if (number === null || number === undefined) return '–';
  return Math.abs(number) < 10_000 ? WHOLE.format(number) : SHORT.format(number);
}

/**
 * A count, with a plus sign when counting stopped at a bound: 100,000+. Plain numbers are exact.
 */
export function counted(count) {
  if (count === null || count === undefined) return '–';
  if (typeof count === 'number') return whole(count);
  return whole(count.count) + (count.exact ? '' : '+');
}

/** Returns the number of a count in either form. */
export function numberOf(count) {
  return typeof count === 'object' && count !== null ? count.count : count ?? 0;
}

/** `1 instance`, `2 instances`. */
export function plural(count, one, many = `${one}s`) {
  return `${counted(count)} ${numberOf(count) === 1 ? one : many}`;
}

/** `awaiting_signal` in words. */
export function words(name) {
  return name.replaceAll('_', ' ');
}

/** Milliseconds in the unit that reads best: 0.4 ms, 12 ms, 3.2 s, 4 min, 2 h 5 min, 3 d. */
export function span(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 1) return ms === 0 ? '0 ms' : ms < 0.1 ? '< 0.1 ms' : `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return days < 10 && hours % 24 ? `${days} d ${hours % 24} h` : `${days} d`;
}

// The difference of the server's clock, learned from its responses: ages must not depend on the
// laptop's clock.
let skew = 0;

/** Returns the server's time. */
export function now() {
  return Date.now() + skew;
}

/**
 * Learns from the `Date` of a response. It has a resolution of seconds, so small differences are
 * ignored.
 */
export function learnClock(date) {
  const difference = Date.parse(date) - Date.now();
  if (Number.isFinite(difference)) skew = Math.abs(difference) < 2000 ? 0 : difference;
}

/** `3 min ago`, `in 12 s`, `now`. */
export function relative(at) {
  const ago = now() - Date.parse(at);
  if (Number.isNaN(ago)) return '–';
  if (Math.abs(ago) < 1000) return 'now';
  const rough = span(Math.abs(ago) < 60_000 ? Math.floor(Math.abs(ago) / 1000) * 1000 : Math.abs(ago)).replace('.0', '');
  return ago > 0 ? `${rough} ago` : `in ${rough}`;
}

/** The full time, local and in UTC. */
export function exact(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return '';
  const local = date.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });
  return `${local} here\n${at}`;
}

/** 14:05 */
export function clock(at) {
  return new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}

// <relative-time at="…"> keeps itself up to date; one timer serves all of them.
const shown = new Set();

class RelativeTime extends HTMLElement {
  static observedAttributes = ['at'];

  connectedCallback() {
    shown.add(this);
    this.write();
  }

  disconnectedCallback() {
    shown.delete(this);
  }

  attributeChangedCallback() {
    this.write();
  }

  write() {
    const at = this.getAttribute('at');
    const text = relative(at);
    if (this.textContent !== text) this.textContent = text;
    if (this.written !== at) {
      this.written = at;
      this.title = exact(at);
    }
  }
}

customElements.define('relative-time', RelativeTime);
setInterval(() => {
  if (!document.hidden) for (const time of shown) time.write();
}, 1000);
