// The binary tree over an ordered domain that `mtsp` publishes: nodes level by level, root first.

export interface Node {
  level: number;
  index: number;
  /** Place among all nodes. */
  place: number;
  /** First and last value, both included. */
  first: number;
  last: number;
}

/** Levels below the root. */
export function heightOf(domain: number): number {
  return Math.ceil(Math.log2(Math.max(domain, 1)));
}

export function nodesOf(domain: number): Node[] {
  const height = heightOf(domain);
  const nodes: Node[] = [];
  for (let level = 0; level <= height; level++) {
    const width = 2 ** (height - level);
    for (let index = 0; index * width < domain; index++) {
      const first = index * width;
      nodes.push({ level, index, place: nodes.length, first, last: Math.min(first + width, domain) - 1 });
    }
  }
  return nodes;
}

/** The fewest nodes that hold exactly the values from `first` to `last`. */
export function cover(domain: number, first: number, last: number): Node[] {
  const nodes = nodesOf(domain);
  const chosen: Node[] = [];
  const reach = (node: Node): void => {
    if (node.last < first || node.first > last) return;
    if (node.first >= first && node.last <= last) {
      chosen.push(node);
      return;
    }
    for (const child of nodes) {
      if (child.level === node.level + 1 && child.index >> 1 === node.index) reach(child);
    }
  };
  const [root] = nodes;
  if (root && first <= last) reach(root);
  return chosen;
}
