// The view: `h` describes nodes, and `render` changes the page to match and touches only what
// differs. So focus, selection and scroll position survive live updates. Text always stays text:
// there is no way to pass markup.

const SVG = 'http://www.w3.org/2000/svg';
// Names that must be set as properties: the attribute is only the initial value, or does not
// exist.
const PROPERTIES = new Set(['raw', 'value', 'checked', 'open', 'indeterminate', 'selected', 'disabled', 'hidden']);

/**
 * Describes an element. `props.key` identifies siblings; `props.mounted(element)` is called once
 * it is in the page.
 */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flatten(children, []) };
}

/** Makes the children of `parent` match the description. */
export function render(parent, ...children) {
  const mounted = [];
  patchChildren(parent, parent.drawn ?? [], parent.drawn = flatten(children, []), mounted);
  for (const [call, element] of mounted) call(element);
}

/** Draws at most once per frame, however often it is called. */
export function drawer(parent, describe) {
  let asked = false;
  return function draw() {
    if (asked) return;
    asked = true;
    // A hidden page gets no frames; a timer draws there, so that the page is current when it is
    // shown again.
    const soon = document.hidden ? (call) => setTimeout(call, 200) : requestAnimationFrame;
    soon(() => {
      asked = false;
      if (parent.isConnected) render(parent, describe());
    });
  };
}

// Control and format characters except line breaks and tabs: a name with one of them is not
// displayed as it is.
const UNSEEN = /[^\P{Cc}\t\n\r]|[\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Returns text in which invisible characters are written as `\u{202e}`. */
export function visible(text) {
  return text.replace(UNSEEN, (unseen) => `\\u{${unseen.codePointAt(0).toString(16)}}`);
}

function flatten(children, into) {
  for (const child of children) {
    if (Array.isArray(child)) flatten(child, into);
    else if (child === null || child === undefined || child === false || child === true) continue;
    else into.push(typeof child === 'object' ? child : { text: visible(String(child)) });
  }
  return into;
}

function patchChildren(parent, olds, news, mounted) {
  const keyed = new Map();
  const unkeyed = [];
  for (const old of olds) {
    if (old.props?.key !== undefined) keyed.set(old.props.key, old);
    else unkeyed.push(old);
  }
  let at = parent.firstChild;
  for (const next of news) {
    const old = next.props?.key !== undefined ? take(keyed, next) : takeAlike(unkeyed, next);
    if (old) patch(old, next, mounted);
    else create(next, parent, mounted);
    if (next.node === at) at = at.nextSibling;
    else parent.insertBefore(next.node, at);
  }
  for (const old of keyed.values()) old.node.remove();
  for (const old of unkeyed) old.node.remove();
}

function take(keyed, next) {
  const old = keyed.get(next.props.key);
  if (old?.tag !== next.tag) return undefined;
  keyed.delete(next.props.key);
  return old;
}

function takeAlike(unkeyed, next) {
  const index = unkeyed.findIndex((old) => old.tag === next.tag);
  return index < 0 ? undefined : unkeyed.splice(index, 1)[0];
}

function create(next, parent, mounted) {
  if (next.tag === undefined) {
    next.node = document.createTextNode(next.text);
    return;
  }
  const svg = next.tag === 'svg' || (parent.namespaceURI === SVG && parent.tagName !== 'foreignObject');
  next.node = svg ? document.createElementNS(SVG, next.tag) : document.createElement(next.tag);
  patchChildren(next.node, [], next.children, mounted);
  patchProps(next.node, {}, next.props);
  if (next.props.mounted) mounted.push([next.props.mounted, next.node]);
}

function patch(old, next, mounted) {
  next.node = old.node;
  if (next.tag === undefined) {
    if (old.text !== next.text) next.node.data = next.text;
    return;
  }
  patchChildren(next.node, old.children, next.children, mounted);
  patchProps(next.node, old.props, next.props);
}

function patchProps(node, olds, news) {
  for (const name in olds) {
    if (!(name in news)) setProp(node, name, undefined, olds[name]);
  }
  for (const name in news) setProp(node, name, news[name], olds[name]);
}

function setProp(node, name, value, before) {
  if (name === 'key' || name === 'mounted') return;
  if (name.startsWith('on')) node[name] = value ?? null;
  else if (name === 'style') setStyle(node, value ?? {}, before ?? {});
  else if (PROPERTIES.has(name)) {
    // The user may have changed it, so it is compared with the current value.
    const wanted = value ?? (name === 'value' ? '' : false);
    if (node[name] !== wanted) node[name] = wanted;
  } else if (value === before) return;
  else if (value === undefined || value === null || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : value);
}

function setStyle(node, style, before) {
  for (const name in before) if (!(name in style)) node.style.removeProperty(name);
  for (const name in style) if (style[name] !== before[name]) node.style.setProperty(name, style[name]);
}
