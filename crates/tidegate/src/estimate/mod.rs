//! Estimates of what moves, from what was published about it: free of budget, because nothing else is looked at.
//!
//! | module | what is estimated | from what |
//! | --- | --- | --- |
//! | [`bank`] | many numbers, such as the frequencies of a domain | estimates of each with noise of known variance |
//! | [`density`] | one bounded number | answers to coarse questions about it |
//! | [`follower`] | the counts or frequencies of a domain, and the releases of any mechanism | releases with stated variances |
//! | [`noise`] | nothing: how observations are distributed around what they observe | |
//! | [`profile`] | how far numbers are from their mean | the same, by a bank of numbers and a bank of ranges |
//! | [`simplex`] | numbers that are nowhere negative and have a known sum | estimates that are not like that |
//!
//! None of them sees anything secret: they take plain numbers, which the kernel hands out only once they are published.

pub mod bank;
mod chunk;
pub mod density;
pub mod follower;
mod model;
pub mod noise;
pub mod profile;
mod scatter;
mod season;
pub mod simplex;
