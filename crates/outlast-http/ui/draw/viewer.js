// <json-view>: JSON as a folding tree, every token in its original text. It draws only what is
// open, so that a megabyte is no problem. It keeps what was unfolded while the page is redrawn.

import { members } from '../data/json.js';

const STRING_SHOWN = 2_000;
const MEMBERS_SHOWN = 100;
const DEPTH_OPEN = 4;
// Invisible characters, or characters that reorder text: controls, bidirectional marks, zero-width
// and tag characters, lone surrogates.
const ODD = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Cs}/gu;

class JsonView extends HTMLElement {
  #raw = null;

  get raw() {
    return this.#raw;
  }

  set raw(raw) {
    if (raw?.text === this.#raw?.text) return;
    this.#raw = raw;
    this.replaceChildren(raw ? valueOf(raw.text.trim(), 0) : '');
  }
}

function valueOf(text, depth) {
  const first = text[0];
  if (first === '{' || first === '[') return treeOf(text, depth);
  if (first === '"') return longText(text, 'string');
  return span(/[-\d]/.test(first) ? 'number' : 'word', text);
}

function treeOf(text, depth) {
  const [open, close] = text[0] === '{' ? ['{', '}'] : ['[', ']'];
  const all = members(text);
  const first = all.next();
  if (first.done) return document.createTextNode(open + close);
  const whole = document.createElement('span');
  const inside = document.createElement('div');
  inside.className = 'in';
  let drawn = false;
  const draw = () => {
    if (drawn) return;
    drawn = true;
    drawMembers(inside, chain(first.value, all), depth + 1);
  };
  const folded = span('faint', ` … ${text.length.toLocaleString('en')} characters `);
  const fold = button('▾', 'Fold', () => show(inside.hidden));
  fold.className = 'fold';
  const show = (unfold) => {
    if (unfold) draw();
    inside.hidden = !unfold;
    folded.hidden = unfold;
    fold.textContent = unfold ? '▾' : '▸';
    fold.setAttribute('aria-expanded', String(unfold));
  };
  show(depth < DEPTH_OPEN);
  whole.append(fold, open, folded, inside, close);
  return whole;
}

function* chain(first, rest) {
  yield first;
  yield* rest;
}

/** Draws members up to a bound, and a button for more. */
function drawMembers(inside, all, depth) {
  let drawn = 0;
  let last = null;
  for (;;) {
    const next = all.next();
    if (next.done) return;
    last?.append(',');
    last = document.createElement('div');
    if (next.value.name !== null) last.append(longText(next.value.name, 'name'), ': ');
    last.append(valueOf(next.value.text, depth));
    inside.append(last);
    drawn += 1;
    if (drawn === MEMBERS_SHOWN) {
      last.append(',');
      const more = button(`… show ${MEMBERS_SHOWN} more`, 'Show more members', () => {
        more.remove();
        drawMembers(inside, all, depth);
      });
      inside.append(more);
      return;
    }
  }
}

function longText(text, kind) {
  const part = span(kind, '');
  part.append(...plainText(text.slice(0, STRING_SHOWN)));
  if (text.length <= STRING_SHOWN) return part;
  const more = button(`… show all ${text.length.toLocaleString('en')} characters`, 'Show the whole string', () => {
    part.replaceChildren(...plainText(text));
  });
  part.append(more);
  return part;
}

/**
 * Text as nodes, in which invisible characters show their code; copying gives the original text.
 */
export function plainText(text) {
  const nodes = [];
  let from = 0;
  for (const odd of text.matchAll(ODD)) {
    nodes.push(document.createTextNode(text.slice(from, odd.index)));
    const mark = span('odd', odd[0]);
    mark.dataset.code = `U+${odd[0].codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
    nodes.push(mark);
    from = odd.index + odd[0].length;
  }
  nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

function span(kind, text) {
  const element = document.createElement('span');
  element.className = kind;
  element.textContent = text;
  return element;
}

function button(text, label, onclick) {
  const element = document.createElement('button');
  element.type = 'button';
  element.textContent = text;
  element.setAttribute('aria-label', label);
  element.onclick = onclick;
  return element;
}

customElements.define('json-view', JsonView);
