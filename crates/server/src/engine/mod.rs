//! The control step of a stream.
