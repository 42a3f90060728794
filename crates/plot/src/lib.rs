//! Charts and pages for people.
//!
//! | module | content |
//! | --- | --- |
//! | [`plot`] | charts as SVG and PNG |
//! | [`report`] | reports as self-contained HTML pages |
//!
//! Neither knows anything of privacy: callers pass numbers that may be shown.

pub mod plot;
pub mod report;
