// JSON without loss. `JSON.parse` would round 9223372036854775807 and drop the notation of
// numbers. So users' data is cut out of the response's text and never becomes numbers.

/** A piece of JSON in its original text. */
export class Raw {
  constructor(text) {
    this.text = text;
  }
}

/** Parses a response; the members named in `raw` become `Raw`. */
export function parse(text, raw = new Set()) {
  const reader = new Reader(text);
  const value = reader.value(raw);
  reader.space();
  if (reader.at < text.length) throw new SyntaxError(`unexpected text at ${reader.at}`);
  return value;
}

/** Returns what is wrong with a text that should be JSON, or null. */
export function problemOf(text) {
  try {
    const reader = new Reader(text);
    reader.skip();
    reader.space();
    return reader.at < text.length ? `unexpected text after the value at character ${reader.at + 1}` : null;
  } catch (error) {
    return error.message;
  }
}

/**
 * Yields the members of an object or array in their original text, with the start and end of each
 * value.
 */
export function* members(text) {
  const reader = new Reader(text);
  reader.space();
  const end = text[reader.at] === '{' ? '}' : ']';
  reader.at += 1;
  reader.space();
  while (text[reader.at] !== end) {
    let name = null;
    if (end === '}') {
      name = reader.string();
      reader.space();
      reader.expect(':');
      reader.space();
    }
    const from = reader.at;
    reader.skip();
    yield { name, text: text.slice(from, reader.at) };
    reader.space();
    if (text[reader.at] !== ',') break;
    reader.at += 1;
    reader.space();
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORDS = new Map([['true', true], ['false', false], ['null', null]]);

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  value(raw) {
    this.space();
    const first = this.text[this.at];
    if (first === '{') return this.object(raw);
    if (first === '[') return this.array(raw);
    if (first === '"') return JSON.parse(this.string());
    const from = this.at;
    this.scalar();
    const token = this.text.slice(from, this.at);
    return WORDS.has(token) ? WORDS.get(token) : Number(token);
  }

  object(raw) {
    // Without a prototype: a member may be called `__proto__`.
    const object = Object.create(null);
    for (const { name } of this.#each('}')) {
      this.space();
      if (raw.has(name)) {
        const from = this.at;
        this.skip();
        const text = this.text.slice(from, this.at);
        object[name] = text === 'null' ? null : new Raw(text);
      } else {
        object[name] = this.value(raw);
      }
    }
    return object;
  }

  array(raw) {
    const array = [];
    for (const _ of this.#each(']')) array.push(this.value(raw));
    return array;
  }

  /** Skips one value without recursion, because the sender chooses the depth. */
  skip() {
    const open = [];
    do {
      this.space();
      const first = this.text[this.at];
      if (first === '{' || first === '[') {
        open.push(first);
        this.at += 1;
        this.space();
        if (this.text[this.at] !== (first === '{' ? '}' : ']')) {
          if (first === '{') this.#name();
          continue;
        }
        this.at += 1;
        open.pop();
      } else if (first === '"') this.string();
      else this.scalar();
      this.#close(open);
    } while (open.length > 0);
  }

  /** After a value: closes what ends here, or continues with the next member. */
  #close(open) {
    while (open.length > 0) {
      this.space();
      const innermost = open[open.length - 1];
      if (this.text[this.at] === ',') {
        this.at += 1;
        if (innermost === '{') this.#name();
        return;
      }
      this.expect(innermost === '{' ? '}' : ']');
      open.pop();
    }
  }

  #name() {
    this.space();
    this.string();
    this.space();
    this.expect(':');
  }

  *#each(end) {
    this.at += 1;
    this.space();
    if (this.text[this.at] === end) {
      this.at += 1;
      return;
    }
    for (;;) {
      this.space();
      let name = null;
      if (end === '}') {
        name = JSON.parse(this.string());
        this.space();
        this.expect(':');
      }
      yield { name };
      this.space();
      if (this.text[this.at] === ',') {
        this.at += 1;
        continue;
      }
      this.expect(end);
      return;
    }
  }

  string() {
    const from = this.at;
    this.expect('"');
    for (;;) {
      const quote = this.text.indexOf('"', this.at);
      if (quote < 0) throw new SyntaxError(`the string at character ${from + 1} is not terminated`);
      let slashes = 0;
      while (this.text[quote - 1 - slashes] === '\\') slashes += 1;
      this.at = quote + 1;
      if (slashes % 2 === 0) break;
    }
    const token = this.text.slice(from, this.at);
    // The server would also refuse what the browser refuses within a string: a wrong escape or a
    // bare line end.
    try {
      JSON.parse(token);
    } catch {
      throw new SyntaxError(`the string at character ${from + 1} is not valid JSON`);
    }
    return token;
  }

  scalar() {
    for (const word of WORDS.keys()) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return;
      }
    }
    NUMBER.lastIndex = this.at;
    const number = NUMBER.exec(this.text);
    if (!number) {
      throw new SyntaxError(this.at >= this.text.length
        ? 'the text ends where a value is expected'
        : `unexpected ${this.text[this.at]} at character ${this.at + 1}`);
    }
    this.at += number[0].length;
  }

  expect(character) {
    if (this.text[this.at] !== character) throw new SyntaxError(`${character} expected at character ${this.at + 1}`);
    this.at += 1;
  }

  space() {
    while (' \t\n\r'.includes(this.text[this.at] ?? 'x')) this.at += 1;
  }
}
