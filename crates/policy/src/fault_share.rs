//! Memory by faults (paper 1, section 5.4, last paragraph, where it is future work): "processes' memory
//! allocations would be dynamically adjusted so that their time-averaged page-fault rates were proportional to
//! the value of their memory tickets".
//!
//! 1. **How the sentence is read**. To the letter, who holds more tickets faults more, so that tickets buy
//!    faults; to buy less memory than others have is nobody's wish. What tickets can mean here is patience: who
//!    holds twice as many waits half as often. So the rates are made *inversely* proportional to tickets:
//!    refaults · tickets becomes equal for all. [`Aim::Literal`] makes refaults / tickets equal, as written.
//! 2. **Choice**. A loss raises the loser's rate, so who is furthest below its due loses: the least
//!    refaults · tickets (to the letter: the least refaults / tickets, compared crosswise).
//! 3. **Which faults**: refaults, of what was taken from a client earlier. A first use is a fault however much
//!    memory there is, and says nothing of what is lacking.
//! 4. **Without tickets** a client loses before all others, and so do the others that pay as little (who does
//!    not refault): among those by fewest tickets (to the letter: most), then fewest refaults, then the greatest
//!    excess, then the least key.
//! 5. **Who takes part**: those that hold more than they are guaranteed ([`reclaim`](crate::reclaim), rule 1).
//!
//! Property: where each client's rate falls with the memory that it holds, products stay equal once they are. Who
//! refaults whatever it holds (one that reads far more than there is in a row) keeps what it has; the average's
//! length decides how much the rates swing. Both are the rule's, and reasons to take another.

use std::cmp::Ordering;

use crate::reclaim::{Holder, Reclaim, ReclaimName, eligible};

/// What is made equal (rule 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// refaults · tickets: more tickets, fewer faults.
    #[default]
    Inverse,
    /// refaults / tickets: more tickets, more faults; the paper's words.
    Literal,
}

/// Memory by faults. See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct FaultShare {
    aim: Aim,
}

impl FaultShare {
    /// Makes this equal.
    pub fn new(aim: Aim) -> Self {
        FaultShare { aim }
    }

    /// `Less` where the first loses before the second (rules 2 and 4).
    fn order(&self, one: &Holder, other: &Holder) -> Ordering {
        let product = |rate: u64, tickets: u64| u128::from(rate) * u128::from(tickets);
        let by_aim = match self.aim {
            Aim::Inverse => {
                let (first, second) =
                    (product(one.refaults, one.tickets), product(other.refaults, other.tickets));
                first.cmp(&second).then(one.tickets.cmp(&other.tickets))
            }
            // Without tickets the quotient would be beyond all others, and rule 4 says that it loses first.
            Aim::Literal => match (one.tickets, other.tickets) {
                (0, 0) => Ordering::Equal,
                (0, _) => Ordering::Less,
                (_, 0) => Ordering::Greater,
                _ => product(one.refaults, other.tickets)
                    .cmp(&product(other.refaults, one.tickets))
                    .then(other.tickets.cmp(&one.tickets)),
            },
        };
        by_aim
            .then(one.refaults.cmp(&other.refaults))
            .then(other.excess_bytes().cmp(&one.excess_bytes()))
            .then(one.key.cmp(&other.key))
    }
}

impl Reclaim for FaultShare {
    fn name(&self) -> &'static str {
        ReclaimName::FaultShare.as_str()
    }

    fn choose(&mut self, holders: &[Holder]) -> Option<usize> {
        let loser = eligible(holders).min_by(|(_, one), (_, other)| self.order(one, other));
        loser.map(|(index, _)| index)
    }
}
