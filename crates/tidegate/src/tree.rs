//! Binary hierarchies over an ordered domain of any size.

use serde::{Deserialize, Serialize};

use crate::release::stated;

/// Shape of a perfect binary tree whose leaves are the values of a domain, padded to a power of two. Level 0 is the
/// root, level [`TreeShape::height`] the leaves. Nodes of a level are numbered from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct TreeShape {
    domain: u32,
    height: u32,
}

impl From<u32> for TreeShape {
    fn from(domain: u32) -> Self {
        Self::new(domain)
    }
}

impl From<TreeShape> for u32 {
    fn from(shape: TreeShape) -> Self {
        shape.domain
    }
}

/// Largest domain of a hierarchy.
const MAX_TREE_DOMAIN: u32 = 1 << 31;

impl TreeShape {
    /// Creates the shape for a domain. An empty domain counts as one value; a domain above 2^31 is cut to that.
    pub const fn new(domain: u32) -> Self {
        let domain = match domain {
            0 => 1,
            1..=MAX_TREE_DOMAIN => domain,
            _ => MAX_TREE_DOMAIN,
        };
        Self { domain, height: domain.next_power_of_two().ilog2() }
    }

    /// Number of values.
    pub const fn domain(&self) -> u32 {
        self.domain
    }

    /// Level of the leaves.
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// Number of leaves below a node of a level, including padding.
    pub const fn width(&self, level: u32) -> u32 {
        1 << (self.height - level)
    }

    /// Number of nodes of a level that cover at least one value.
    pub const fn nodes(&self, level: u32) -> u32 {
        self.domain.div_ceil(self.width(level))
    }

    /// Number of values below a node.
    pub fn leaves(&self, level: u32, node: u32) -> u32 {
        let width = self.width(level);
        self.domain.saturating_sub(node.saturating_mul(width)).min(width)
    }

    /// Index of a level's first node in a vector of all nodes, level after level.
    pub fn offset(&self, level: u32) -> usize {
        (0..level).map(|above| self.nodes(above) as usize).sum()
    }

    /// Returns the smallest set of nodes that covers exactly the values `first..=last`, as pairs of level and node.
    pub fn cover(&self, first: u32, last: u32) -> Vec<(u32, u32)> {
        let mut nodes = Vec::new();
        let (mut left, mut right) = (u64::from(first), u64::from(last) + 1);
        let mut level = self.height;
        // From the leaves up, keep the range of nodes whose parents are not fully covered. A range up to the end of the
        // domain may extend over the padding.
        if last + 1 == self.domain {
            right = u64::from(self.width(0));
        }
        while left < right {
            if left % 2 == 1 || level == 0 {
                nodes.push((level, left));
                left += 1;
            }
            if right % 2 == 1 && left < right {
                right -= 1;
                nodes.push((level, right));
            }
            left /= 2;
            right /= 2;
            if level == 0 {
                break;
            }
            level -= 1;
        }
        // Drop nodes of padding only.
        #[allow(clippy::cast_possible_truncation)] // at most the padded domain
        let real = |(level, node): (u32, u64)| (level, node as u32);
        nodes.into_iter().map(real).filter(|(level, node)| *node < self.nodes(*level)).collect()
    }
}

/// Frequency and variance of each node of a hierarchy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedTree")]
pub struct Tree {
    shape: TreeShape,
    /// Level after level, from left to right.
    frequencies: Vec<f64>,
    #[serde(with = "stated::each")]
    variances: Vec<f64>,
}

/// Loaded form, before validation.
#[derive(Deserialize)]
struct SavedTree {
    shape: TreeShape,
    frequencies: Vec<f64>,
    #[serde(with = "stated::each")]
    variances: Vec<f64>,
}

impl TryFrom<SavedTree> for Tree {
    type Error = &'static str;

    fn try_from(saved: SavedTree) -> Result<Self, Self::Error> {
        let SavedTree { shape, frequencies, variances } = saved;
        Self::new(shape, frequencies, variances).ok_or("a tree has a frequency and a variance for each of its nodes")
    }
}

impl Tree {
    /// Creates a tree from its nodes, level after level. `None` if their number does not fit the shape.
    pub fn new(shape: TreeShape, frequencies: Vec<f64>, variances: Vec<f64>) -> Option<Self> {
        let nodes = shape.offset(shape.height() + 1);
        (frequencies.len() == nodes && variances.len() == nodes).then_some(Self { shape, frequencies, variances })
    }

    /// Creates a tree from the frequency and variance at each index.
    pub(crate) fn from_positions(shape: TreeShape, node: impl FnMut(usize) -> (f64, f64)) -> Self {
        let (frequencies, variances) = (0..shape.offset(shape.height() + 1)).map(node).unzip();
        Self { shape, frequencies, variances }
    }

    /// Shape.
    pub const fn shape(&self) -> &TreeShape {
        &self.shape
    }

    /// Number of values.
    pub const fn domain(&self) -> usize {
        self.shape.domain as usize
    }

    /// Frequency and variance of a node.
    pub fn node(&self, level: u32, node: u32) -> (f64, f64) {
        let position = self.shape.offset(level) + node as usize;
        (self.frequencies[position], self.variances[position])
    }

    /// Frequencies and variances of all nodes, level after level.
    pub fn nodes(&self) -> (&[f64], &[f64]) {
        (&self.frequencies, &self.variances)
    }

    /// Frequencies and variances of the values.
    pub fn leaves(&self) -> (&[f64], &[f64]) {
        let first = self.shape.offset(self.shape.height());
        (&self.frequencies[first..], &self.variances[first..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cover_holds_exactly_its_range_with_as_few_nodes_as_possible() {
        for domain in 1..=19 {
            let shape = TreeShape::new(domain);
            for first in 0..domain {
                for last in first..domain {
                    let mut covered = vec![0; domain as usize];
                    let cover = shape.cover(first, last);
                    for &(level, node) in &cover {
                        let start = node * shape.width(level);
                        (start..(start + shape.width(level)).min(domain)).for_each(|v| covered[v as usize] += 1);
                    }
                    let expected: Vec<i32> = (0..domain).map(|v| i32::from((first..=last).contains(&v))).collect();
                    assert_eq!(covered, expected, "{domain} {first}..={last}: {cover:?}");
                    assert!(cover.len() <= 2 * shape.height().max(1) as usize);
                }
            }
            assert_eq!(shape.cover(0, domain - 1), [(0, 0)]);
        }
    }
}
