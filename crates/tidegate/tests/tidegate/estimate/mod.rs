//! State estimation.

mod class_track;
mod release_filter;
mod scalar_track;
