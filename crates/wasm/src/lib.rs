//! The device for browsers: [`core`], and its bindings to JavaScript, which only the npm package `@tidegate/device`
//! calls. The package stores and sends; here is everything that decides.
//!
//! A step that changes the state returns a `Save`. Its reply cannot be had before `confirm` was called with the bytes
//! that the store gives back.

pub mod core;
pub mod page;
#[cfg(feature = "vectors")]
pub mod vectors;
