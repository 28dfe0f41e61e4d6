//! `market`: many clients with mixed needs trade through the dealer, beside other ways to divide.

mod simulated;

use crate::about::About;
use crate::experiment::{Experiment, Runs, Seconds, Simulated};

/// The experiment `market`.
pub(crate) const E: Experiment = Experiment { name: "market", runs: Runs::Simulated(SIMULATED) };

const SIMULATED: Simulated = Simulated {
    about: About {
        title: "A market of many",
        paper: "paper 1, 4.2; DRF (2011); Karma (2023)",
        summary: "1000, 10 000 (from --seconds 10 on) and 100 000 (from 100 on) clients with \
                  equal rights and mixed needs: trade through the dealer, equal dominant shares \
                  and Karma's credits, against no trade.",
    },
    seconds: Seconds { least: 1.0, usual: 10.0 },
    run: simulated::run,
};
