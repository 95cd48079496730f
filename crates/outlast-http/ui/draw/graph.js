// The layered layout of a machine: each step is placed by its longest path from a start, with few
// crossings and straight edges. It computes only numbers; screens/machine.js draws them.

const ALONG = 64;      // between layers
const ACROSS = 26;     // between neighbours of a layer
const BEND = 10;       // room for an edge that crosses a layer
const SWEEPS = 12;

/**
 * Computes the layout. `nodes` are { id, width, height, last? }, `edges` { from, to, weight };
 * with `down` the layers go from top to bottom.
 * Returns { nodes: Map id → { x, y, width, height }, edges: [{ edge, points }], width, height }.
 * x and y are top left corners; points run from the start of the edge to its end.
 */
export function layout(nodes, edges, { down = false } = {}) {
  const real = nodes.map((node) => ({ node, length: down ? node.height : node.width, breadth: down ? node.width : node.height, before: [], after: [] }));
  const byId = new Map(real.map((each) => [each.node.id, each]));
  const links = edges
    .filter((edge) => edge.from !== edge.to && byId.has(edge.from) && byId.has(edge.to))
    .map((edge) => ({ edge, from: byId.get(edge.from), to: byId.get(edge.to), backward: false }));
  turnCycles(real, links);
  assignLayers(real, links);
  const layers = withBends(real, links);
  order(layers);
  const breadth = place(layers);
  const length = measure(layers);
  return {
    nodes: new Map(real.map((each) => [each.node.id, corner(each, down)])),
    edges: links.map((link) => ({ edge: link.edge, points: route(link, down) })),
    width: down ? breadth : length,
    height: down ? length : breadth,
  };
}

/** Reverses every edge that would close a cycle, so that edges lead away from the start. */
function turnCycles(real, links) {
  const incoming = new Map(real.map((each) => [each, 0]));
  for (const link of links) incoming.set(link.to, incoming.get(link.to) + 1);
  const outgoing = new Map(real.map((each) => [each, []]));
  for (const link of [...links].sort((a, b) => b.edge.weight - a.edge.weight)) outgoing.get(link.from).push(link);
  const state = new Map();
  const visit = (each) => {
    state.set(each, 'open');
    for (const link of outgoing.get(each)) {
      if (state.get(link.to) === 'open') link.backward = true;
      else if (!state.has(link.to)) visit(link.to);
    }
    state.set(each, 'closed');
  };
  const starts = real.filter((each) => incoming.get(each) === 0);
  for (const each of [...starts, ...real]) if (!state.has(each)) visit(each);
}

function ends(link) {
  return link.backward ? [link.to, link.from] : [link.from, link.to];
}

function assignLayers(real, links) {
  for (const each of real) each.layer = 0;
  // At most as many rounds as nodes: without cycles the longest path has fewer edges than nodes.
  for (let round = 0; round < real.length; round += 1) {
    let moved = false;
    for (const link of links) {
      const [from, to] = ends(link);
      if (to.layer <= from.layer) {
        to.layer = from.layer + 1;
        moved = true;
      }
    }
    if (!moved) break;
  }
  const final = Math.max(0, ...real.map((each) => each.layer));
  for (const each of real) if (each.node.last) each.layer = final;
}

/** Adds a bend to every layer that an edge crosses, and links neighbours in both directions. */
function withBends(real, links) {
  const layers = [];
  const into = (each) => (layers[each.layer] ??= []).push(each);
  real.forEach(into);
  for (const link of links) {
    const [from, to] = ends(link);
    const weight = 1 + Math.log1p(link.edge.weight);
    link.way = [from];
    for (let layer = from.layer + 1; layer < to.layer; layer += 1) {
      const bend = { bend: true, layer, length: 0, breadth: BEND, before: [], after: [] };
      into(bend);
      link.way.push(bend);
    }
    link.way.push(to);
    for (let index = 1; index < link.way.length; index += 1) {
      // An edge with bends is straightened before others.
      const pull = weight * (link.way[index].bend || link.way[index - 1].bend ? 2 : 1);
      link.way[index - 1].after.push({ other: link.way[index], pull });
      link.way[index].before.push({ other: link.way[index - 1], pull });
    }
  }
  return layers.map((layer) => layer ?? []);
}

/**
 * Orders each layer by the positions of its neighbours, forward and back; keeps the order with the
 * fewest crossings.
 */
function order(layers) {
  const number = () => layers.forEach((layer) => layer.forEach((each, index) => { each.index = index; }));
  number();
  let best = { crossings: crossings(layers), layers: layers.map((layer) => [...layer]) };
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const forth = sweep % 2 === 0;
    for (const layer of forth ? layers : [...layers].reverse()) {
      for (const each of layer) each.wanted = mean(forth ? each.before : each.after, (other) => other.index) ?? each.index;
      layer.sort((a, b) => a.wanted - b.wanted || a.index - b.index);
      layer.forEach((each, index) => { each.index = index; });
    }
    const now = crossings(layers);
    if (now < best.crossings) best = { crossings: now, layers: layers.map((layer) => [...layer]) };
  }
  best.layers.forEach((layer, index) => { layers[index] = layer; });
  number();
}

function crossings(layers) {
  let count = 0;
  for (const layer of layers) {
    const pairs = layer.flatMap((each) => each.after.map(({ other }) => [each.index, other.index]));
    for (let one = 0; one < pairs.length; one += 1) {
      for (let two = one + 1; two < pairs.length; two += 1) {
        if ((pairs[one][0] - pairs[two][0]) * (pairs[one][1] - pairs[two][1]) < 0) count += 1;
      }
    }
  }
  return count;
}

function mean(neighbours, of) {
  const weight = neighbours.reduce((sum, { pull }) => sum + pull, 0);
  return weight === 0 ? null : neighbours.reduce((sum, { other, pull }) => sum + of(other) * pull, 0) / weight;
}

/**
 * Finds a position across for every node: near its neighbours, in the found order, without
 * overlap.
 */
function place(layers) {
  for (const layer of layers) {
    let at = 0;
    for (const each of layer) {
      each.across = at + each.breadth / 2;
      at += each.breadth + ACROSS;
    }
    for (const each of layer) each.across -= (at - ACROSS) / 2;
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const layer of sweep % 2 === 0 ? layers : [...layers].reverse()) {
      settle(layer, layer.map((each) => mean([...each.before, ...each.after], (other) => other.across) ?? each.across));
    }
  }
  const all = layers.flat();
  const least = Math.min(0, ...all.map((each) => each.across - each.breadth / 2));
  for (const each of all) each.across -= least;
  return Math.max(0, ...all.map((each) => each.across + each.breadth / 2));
}

/**
 * Returns the positions nearest to the desired ones that keep order and distance: colliding
 * neighbours move as one block.
 */
function settle(layer, wanted) {
  const offsets = [0];
  for (let index = 1; index < layer.length; index += 1) {
    offsets.push(offsets[index - 1] + (layer[index - 1].breadth + layer[index].breadth) / 2 + ACROSS);
  }
  const blocks = [];
  layer.forEach((_, index) => {
    blocks.push({ sum: wanted[index] - offsets[index], count: 1 });
    while (blocks.length > 1) {
      const [before, last] = blocks.slice(-2);
      if (before.sum / before.count <= last.sum / last.count) break;
      blocks.splice(-2, 2, { sum: before.sum + last.sum, count: before.count + last.count });
    }
  });
  const starts = blocks.flatMap((block) => Array(block.count).fill(block.sum / block.count));
  layer.forEach((each, index) => { each.across = starts[index] + offsets[index]; });
}

function measure(layers) {
  let at = 0;
  for (const layer of layers) {
    const length = Math.max(0, ...layer.map((each) => each.length));
    for (const each of layer) each.along = at + length / 2;
    at += length + ALONG;
  }
  return Math.max(0, at - ALONG);
}

function corner(each, down) {
  const { width, height } = each.node;
  const [x, y] = down ? [each.across, each.along] : [each.along, each.across];
  return { x: x - width / 2, y: y - height / 2, width, height };
}

/** The path of an edge, which leaves and enters a node on the side of its neighbour. */
function route(link, down) {
  const { way } = link;
  const points = way.map((each, index) => {
    if (each.bend) return [each.along, each.across];
    const first = index === 0;
    return [each.along + (first ? 1 : -1) * each.length / 2, each.across + port(each, first ? 'after' : 'before', way[first ? 1 : index - 1])];
  });
  if (link.backward) points.reverse();
  return down ? points.map(([along, across]) => [across, along]) : points;
}

/** Edges on the same side of a node leave side by side, in the order of their targets. */
function port(each, side, other) {
  const all = [...each[side]].sort((a, b) => a.other.across - b.other.across);
  const index = all.findIndex((neighbour) => neighbour.other === other && !neighbour.taken?.has(side + each.node.id));
  if (index >= 0) (all[index].taken ??= new Set()).add(side + each.node.id);
  const room = Math.min(18, (each.breadth * 0.7) / Math.max(1, all.length));
  return (Math.max(0, index) - (all.length - 1) / 2) * room;
}

/** A smooth path through points, straight at both ends. */
export function curve(points, { down = false } = {}) {
  let way = `M${at(points[0])}`;
  for (let index = 1; index < points.length; index += 1) {
    const [from, to] = [points[index - 1], points[index]];
    const half = down ? (to[1] - from[1]) / 2 : (to[0] - from[0]) / 2;
    const [one, two] = down ? [[from[0], from[1] + half], [to[0], to[1] - half]] : [[from[0] + half, from[1]], [to[0] - half, to[1]]];
    way += `C${at(one)} ${at(two)} ${at(to)}`;
  }
  return way;
}

function at([x, y]) {
  return `${x.toFixed(1)} ${y.toFixed(1)}`;
}
