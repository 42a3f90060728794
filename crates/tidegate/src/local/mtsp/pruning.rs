//! [`Pruned`]: the nodes of a tree that are asked about singly, and those asked about as a whole.

use serde::{Deserialize, Serialize};
use tidegate_kernel::View;

use crate::tree::TreeShape;

/// A node: level, number and index in a vector of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) level: u32,
    pub(super) number: u32,
    pub(super) position: usize,
}

/// All nodes of a level.
pub(super) fn nodes_of(shape: TreeShape, level: u32) -> impl Iterator<Item = Node> {
    let offset = shape.offset(level);
    (0..shape.nodes(level)).map(move |number| Node { level, number, position: offset + number as usize })
}

/// Nodes as ranges of values; they must partition the domain.
pub(super) fn view(shape: TreeShape, nodes: impl IntoIterator<Item = Node>) -> View {
    View::Ranges(nodes.into_iter().map(|node| node.number * shape.width(node.level)).collect())
}

/// A tree with closed nodes, below which nothing is asked.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pruned {
    closed: Vec<bool>,
}

impl Pruned {
    /// Closes the cold nodes. A node of one value is always closed.
    pub(super) fn new(shape: TreeShape, is_cold: impl Fn(Node) -> bool) -> Self {
        let all = (0..=shape.height()).flat_map(|level| nodes_of(shape, level));
        // The root is never cold.
        let closes = |node: Node| shape.leaves(node.level, node.number) == 1 || (node.level > 0 && is_cold(node));
        Self { closed: all.map(closes).collect() }
    }

    /// Whether it fits a tree of this shape.
    pub(super) fn fits(&self, shape: TreeShape) -> bool {
        let single = |node: Node| shape.leaves(node.level, node.number) == 1;
        let mut nodes = (0..=shape.height()).flat_map(|level| nodes_of(shape, level));
        self.closed.len() == shape.offset(shape.height() + 1)
            && nodes.all(|node| self.closed[node.position] || !single(node))
    }

    /// Partitions of the domain to ask about, from level 1 down to the last that refines the one above: open nodes of
    /// the level, and closed nodes of it and the levels above.
    pub(super) fn levels(&self, shape: TreeShape) -> Vec<Vec<Node>> {
        let mut levels = Vec::new();
        let mut current: Vec<Node> = nodes_of(shape, 0).collect();
        while current.iter().any(|node| !self.closed[node.position]) {
            let mut below = Vec::with_capacity(current.len() * 2);
            for node in current {
                if self.closed[node.position] {
                    below.push(node);
                } else {
                    below.extend(children(shape, node));
                }
            }
            levels.push(below.clone());
            current = below;
        }
        levels
    }
}

/// The one or two children of a node above the leaves.
fn children(shape: TreeShape, node: Node) -> impl Iterator<Item = Node> {
    below(shape, node, node.level + 1)
}

/// Descendants of a node at a lower level.
pub(super) fn below(shape: TreeShape, node: Node, level: u32) -> impl Iterator<Item = Node> {
    let generations = level - node.level;
    let (first, offset) = (node.number << generations, shape.offset(level));
    let end = ((node.number + 1) << generations).min(shape.nodes(level));
    (first..end).map(move |number| Node { level, number, position: offset + number as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(shape: TreeShape, nodes: &[Node]) -> Vec<u32> {
        match view(shape, nodes.iter().copied()) {
            View::Ranges(starts) => starts,
            View::Values | View::Sequence { .. } | View::Mean => Vec::new(),
        }
    }

    #[test]
    fn a_full_tree_over_any_domain_asks_each_level_once() {
        // Six values: a root, (0-3)(4-5), (0-1)(2-3)(4-5), then all; no padding.
        let shape = TreeShape::new(6);
        let levels = Pruned::new(shape, |_| false).levels(shape);
        let starts: Vec<_> = levels.iter().map(|level| starts(shape, level)).collect();
        assert_eq!(starts, [vec![0, 4], vec![0, 2, 4], vec![0, 1, 2, 3, 4, 5]]);
    }

    #[test]
    fn what_is_cold_stays_whole_and_the_rest_is_divided_further() {
        // Seven values; (4-6) is cold at level 1.
        let shape = TreeShape::new(7);
        let pruned = Pruned::new(shape, |node| (node.level, node.number) == (1, 1));
        let levels = pruned.levels(shape);
        let starts: Vec<_> = levels.iter().map(|level| starts(shape, level)).collect();
        assert_eq!(starts, [vec![0, 4], vec![0, 2, 4], vec![0, 1, 2, 3, 4]]);
        assert!(levels.iter().all(|level| level.last().map(|node| (node.level, node.number)) == Some((1, 1))));
    }

    #[test]
    fn where_all_is_cold_the_levels_below_are_not_asked() {
        let shape = TreeShape::new(8);
        assert_eq!(Pruned::new(shape, |node| node.level == 1).levels(shape).len(), 1);
        assert_eq!(Pruned::new(shape, |node| node.level == 2).levels(shape).len(), 2);
        // The root is never asked about, and never pruned.
        assert_eq!(Pruned::new(shape, |_| true).levels(shape).len(), 1);
    }

    #[test]
    fn every_level_of_every_pruned_tree_divides_the_whole_domain() {
        for domain in 2..40 {
            let shape = TreeShape::new(domain);
            for seed in 0..40_u64 {
                let mixed = |node: Node| (node.position as u64 + 1).wrapping_mul(seed * 2 + 0x9e37_79b9) >> 7 & 3 == 0;
                for level in Pruned::new(shape, mixed).levels(shape) {
                    let mut next = 0;
                    for node in &level {
                        assert_eq!(node.number * shape.width(node.level), next);
                        next += shape.leaves(node.level, node.number);
                    }
                    assert_eq!(next, domain);
                    assert!(level.len() >= 2);
                }
            }
        }
    }
}
