//! The words that describe an experiment.

/// The words that describe an experiment, or one way to run it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct About {
    /// A title of a few words.
    pub title: &'static str,
    /// The figure or table that it repeats.
    pub paper: &'static str,
    /// A sentence or two on what runs and what that shows.
    pub summary: &'static str,
}
