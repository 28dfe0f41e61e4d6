//! Cycles of goods: which queues can be rings.

use super::{CYCLES_MAX, RING_MAX};
use std::collections::BTreeMap;

/// All simple cycles of 2 to [`RING_MAX`] goods, shortest first, the first [`CYCLES_MAX`] of them. A
/// cycle is a list of queues, each of which wants what the next one gives. `queues` is by what is
/// given and what is wanted, among `goods` goods.
pub(super) fn cycles(queues: &BTreeMap<(usize, usize), usize>, goods: usize) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    for length in 2..=RING_MAX {
        for first in 0..goods {
            extend(queues, &mut vec![first], length, &mut found);
        }
    }
    found
}

/// Extends a path of goods, the first of which is the least, to cycles of `length`.
fn extend(
    queues: &BTreeMap<(usize, usize), usize>,
    path: &mut Vec<usize>,
    length: usize,
    found: &mut Vec<Vec<usize>>,
) {
    if found.len() >= CYCLES_MAX {
        return;
    }
    let (first, last) = (path[0], path[path.len() - 1]);
    if path.len() == length {
        if queues.contains_key(&(last, first)) {
            let queue = |place: usize| queues[&(path[place], path[(place + 1) % length])];
            found.push((0..length).map(queue).collect());
        }
        return;
    }
    let wanted: Vec<usize> =
        queues.range((last, first + 1)..(last + 1, 0)).map(|(&(_, wants), _)| wants).collect();
    for good in wanted {
        if !path.contains(&good) {
            path.push(good);
            extend(queues, path, length, found);
            path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_goods_that_all_want_each_other_have_twenty_cycles() {
        let mut queues = BTreeMap::new();
        for gives in 0..4 {
            for wants in (0..4).filter(|&wants| wants != gives) {
                queues.insert((gives, wants), queues.len());
            }
        }
        let found = cycles(&queues, 4);
        let of = |length: usize| found.iter().filter(|cycle| cycle.len() == length).count();
        // Pairs: 4 over 2; of three: 2 directions of 4 over 3; of four: 3!.
        assert_eq!([of(2), of(3), of(4)], [6, 8, 6]);
    }

    #[test]
    fn a_chain_has_none() {
        let queues = BTreeMap::from([((0, 1), 0), ((1, 2), 1), ((2, 3), 2)]);
        assert!(cycles(&queues, 4).is_empty());
    }
}
