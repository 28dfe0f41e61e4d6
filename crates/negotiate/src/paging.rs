//! The part of a cgroup's reads that is for want of memory. Pure.
//!
//! The kernel's pressure of memory counts such reads only where its own aging had found the pages worth keeping: not
//! those of a mapping that is read at random (`MADV_RANDOM`), as of a database's, nor what MGLRU lets go of for the first
//! time.
//!
//! 1. A page that is read and that the kernel remembers to have taken is a *refault*; any other is read for the first time.
//!    What was read for the first time, less what is held, is *lost*.
//! 2. A refault is for want of memory if some more of it would have kept the page: if what was read since is no more
//!    than what is held (mm/workingset.c takes that for part of the working set). That is so of all, where less is lost
//!    than is held; of as great a part as what is held is of what is lost, where what is lost is read again in no order.

/// Pages that a cgroup has read since it was made, and pages that it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// Pages read.
    pub read_pages: u64,
    /// Pages read that were refaults.
    pub refaulted_pages: u64,
    /// Pages held now.
    pub held_pages: u64,
}

impl Paging {
    /// The part of all reads since `before` that was for want of memory, 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn for_want_of_memory(&self, before: &Paging) -> f64 {
        let read = self.read_pages.saturating_sub(before.read_pages);
        let refaulted = self.refaulted_pages.saturating_sub(before.refaulted_pages).min(read);
        let first = self.read_pages.saturating_sub(self.refaulted_pages);
        let lost = first.saturating_sub(self.held_pages);
        let near = self.held_pages as f64 / self.held_pages.max(lost).max(1) as f64;
        refaulted as f64 / read.max(1) as f64 * near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn paging(read_pages: u64, refaulted_pages: u64, held_pages: u64) -> Paging {
        Paging { read_pages, refaulted_pages, held_pages }
    }

    /// As read from the kernel: two databases in 2.7 MiB each, of 3.9 MiB and of 59 MiB.
    #[test]
    fn who_nearly_fits_wants_memory_and_who_never_will_wants_the_disk() {
        let (before, after) = (paging(3192, 2195, 695), paging(3687, 2689, 683));
        let small = after.for_want_of_memory(&before);
        assert!(small > 0.99, "{small}");
        let (before, after) = (paging(3184, 426, 648), paging(3680, 538, 643));
        let big = after.for_want_of_memory(&before);
        assert!((0.05..0.07).contains(&big), "{big}");
        // Much later nearly all that it reads it has had before.
        let (before, after) = (paging(60_000, 45_500, 643), paging(60_500, 45_980, 643));
        let big = after.for_want_of_memory(&before);
        assert!((0.04..0.05).contains(&big), "{big}");
    }

    #[test]
    fn who_reads_once_or_not_at_all_wants_no_memory() {
        assert_eq!(paging(900, 0, 100).for_want_of_memory(&paging(0, 0, 0)), 0.0);
        assert_eq!(paging(900, 10, 100).for_want_of_memory(&paging(900, 10, 100)), 0.0);
    }

    #[test]
    fn it_is_a_part_whatever_was_counted() {
        let counts = [0, 1, 99, 100, 5000, u64::MAX];
        let each = || counts.into_iter().flat_map(move |read| counts.map(|other| (read, other)));
        for ((read, refaulted), (held, before)) in
            each().flat_map(|one| each().map(move |it| (one, it)))
        {
            for earlier in
                [paging(before, 0, held), paging(0, before, 0), paging(before, before, 1)]
            {
                let part = paging(read, refaulted, held).for_want_of_memory(&earlier);
                assert!((0.0..=1.0).contains(&part), "{read} {refaulted} {held} {earlier:?}");
            }
        }
    }
}
