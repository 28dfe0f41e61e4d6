//! Physical memory: frames, whose they are, and who loses one. Pure book-keeping; what the disk must do is told.
//!
//! 1. **A page belongs to who brought it in**, until it is taken. It is read, resident, being written back, or gone.
//! 2. **Exact LRU**: each owner's resident pages are in order of last use, and owners in order of their oldest page.
//!    VINO (paper 1, 5.4), with an active and an inactive list, approximates this; so does Linux.
//! 3. **By age** ([`Memory::oldest`]): the oldest page of all goes first, but for those of owners who hold no more
//!    than their guarantee (VINO's rule). Without guarantees this is plain LRU.
//! 4. **By policy** ([`Memory::holders`]): a rule of [`policy`] chooses an owner, who loses its oldest pages, never
//!    below its guarantee.
//! 5. A page that is read or written back stays where it is, and its owner holds it.
//! 6. A taken page that was changed occupies its frame until it is written, but its owner holds it no longer.

use std::collections::{BTreeMap, BTreeSet};

/// The size of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Names a frame of physical memory.
pub type FrameId = u32;
/// Names an owner.
pub type OwnerId = usize;
/// Names a file or a region of anonymous memory.
pub type ObjectId = usize;

/// No frame.
const NONE: FrameId = FrameId::MAX;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A file: every page is on the disk.
    File,
    /// Anonymous memory: a page is on the disk once it was taken.
    Anonymous,
}

/// Where a page of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// In memory.
    Resident(FrameId),
    /// Being read.
    InTransit(FrameId),
    /// On the disk.
    OnDisk,
    /// Nowhere yet: anonymous memory that was never written.
    Nowhere,
}

/// What was taken from an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The frame. Free now, unless it must be written first.
    pub frame: FrameId,
    /// Of what.
    pub object: ObjectId,
    /// Which page of that.
    pub page: u64,
    /// Whether it must be written; then tell [`Memory::written`].
    pub dirty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Reading,
    Resident,
    /// Written back, and stays.
    Cleaning,
    /// Taken, and written.
    Leaving,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    state: State,
    owner: OwnerId,
    object: ObjectId,
    page: u64,
    dirty: bool,
    /// Orders uses, and so ages.
    used: u64,
    used_at_ns: u64,
    /// When it was first changed since it was last written; orders write-back.
    dirtied: u64,
    older: FrameId,
    newer: FrameId,
}

#[derive(Debug)]
struct Owner {
    held: u64,
    guaranteed: u64,
    oldest: FrameId,
    newest: FrameId,
    /// Resident pages.
    listed: u64,
    /// The age under which it stands in [`Memory::ages`].
    age: Option<u64>,
    /// Changed pages of files, in order of change.
    dirty: BTreeMap<u64, FrameId>,
    refaults: u64,
    near_refaults: u64,
    taken: u64,
    taken_within_guarantee: u64,
}

#[derive(Debug)]
struct Object {
    backing: Backing,
    /// The frame of each page.
    frames: Vec<FrameId>,
    /// Which pages were taken before (and, of anonymous memory, are on the disk): when, by the number
    /// of pages that had been taken from their owner; 0: never.
    taken: Vec<u64>,
}

/// What an owner has, and what happened to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Pages that it holds.
    pub held: u64,
    /// Pages that it is sure to keep.
    pub guaranteed: u64,
    /// Changed pages of files that it holds.
    pub dirty: u64,
    /// Pages that it read again after they were taken.
    pub refaults: u64,
    /// Those of them that it would have had still with twice of what it held: fewer pages than that were
    /// taken from it in between (Linux: the refault distance is within the working set).
    pub near_refaults: u64,
    /// Pages that were taken from it.
    pub taken: u64,
    /// Those of them that were taken while it held no more than its guarantee.
    pub taken_within_guarantee: u64,
}

/// All frames. See the [module](self).
#[derive(Debug)]
pub struct Memory {
    frames: Vec<Frame>,
    free: Vec<FrameId>,
    leaving: u64,
    objects: Vec<Object>,
    owners: Vec<Owner>,
    /// Those who hold more than their guarantee and have a page to lose, by its age.
    ages: BTreeSet<(u64, OwnerId)>,
    uses: u64,
}

impl Memory {
    /// So many free frames.
    ///
    /// # Panics
    /// When there is none, or more than 2³² - 1: broken invariants.
    pub fn new(pages: u64) -> Memory {
        assert!(pages > 0 && pages < u64::from(NONE), "{pages} pages of memory");
        let frame = Frame {
            state: State::Free,
            owner: 0,
            object: 0,
            page: 0,
            dirty: false,
            used: 0,
            used_at_ns: 0,
            dirtied: 0,
            older: NONE,
            newer: NONE,
        };
        Memory {
            frames: vec![frame; pages as usize],
            free: (0..pages as FrameId).rev().collect(),
            leaving: 0,
            objects: Vec::new(),
            owners: Vec::new(),
            ages: BTreeSet::new(),
            uses: 0,
        }
    }

    /// A new owner, who holds nothing and is guaranteed nothing.
    pub fn add_owner(&mut self) -> OwnerId {
        self.owners.push(Owner {
            held: 0,
            guaranteed: 0,
            oldest: NONE,
            newest: NONE,
            listed: 0,
            age: None,
            dirty: BTreeMap::new(),
            refaults: 0,
            near_refaults: 0,
            taken: 0,
            taken_within_guarantee: 0,
        });
        self.owners.len() - 1
    }

    /// A new object of so many pages, none of them in memory.
    pub fn add_object(&mut self, backing: Backing, pages: u64) -> ObjectId {
        let pages = pages as usize;
        let (frames, taken) = (vec![NONE; pages], vec![0; pages]);
        self.objects.push(Object { backing, frames, taken });
        self.objects.len() - 1
    }

    /// What an object is, and how many pages it has.
    pub fn object(&self, object: ObjectId) -> (Backing, u64) {
        let object = &self.objects[object];
        (object.backing, object.frames.len() as u64)
    }

    /// Free frames.
    pub fn free_pages(&self) -> u64 {
        self.free.len() as u64
    }

    /// Frames of taken pages that are still written.
    pub fn leaving_pages(&self) -> u64 {
        self.leaving
    }

    /// All frames.
    pub fn pages(&self) -> u64 {
        self.frames.len() as u64
    }

    /// What an owner has.
    pub fn holdings(&self, owner: OwnerId) -> Holdings {
        let it = &self.owners[owner];
        Holdings {
            held: it.held,
            guaranteed: it.guaranteed,
            dirty: it.dirty.len() as u64,
            refaults: it.refaults,
            near_refaults: it.near_refaults,
            taken: it.taken,
            taken_within_guarantee: it.taken_within_guarantee,
        }
    }

    /// How many of an owner's pages can be taken now.
    pub fn resident(&self, owner: OwnerId) -> u64 {
        self.owners[owner].listed
    }

    /// How many of an owner's resident pages were used at this time or later.
    pub fn used_since(&self, owner: OwnerId, since_ns: u64) -> u64 {
        let mut count = 0;
        let mut frame = self.owners[owner].newest;
        while frame != NONE && self.frames[frame as usize].used_at_ns >= since_ns {
            count += 1;
            frame = self.frames[frame as usize].older;
        }
        count
    }

    /// An owner is sure to keep so many pages from now on.
    pub fn guarantee(&mut self, owner: OwnerId, pages: u64) {
        self.owners[owner].guaranteed = pages;
        self.settle(owner);
    }

    /// Where a page is.
    ///
    /// # Panics
    /// When the object has no such page: a broken invariant.
    pub fn presence(&self, object: ObjectId, page: u64) -> Presence {
        let it = &self.objects[object];
        let frame = it.frames[page as usize];
        match it.backing {
            _ if frame != NONE => match self.frames[frame as usize].state {
                State::Reading => Presence::InTransit(frame),
                _ => Presence::Resident(frame),
            },
            Backing::Anonymous if it.taken[page as usize] == 0 => Presence::Nowhere,
            _ => Presence::OnDisk,
        }
    }

    /// A page that is nowhere in memory gets a frame, which `owner` holds from now on; it is read until
    /// [`Memory::arrived`]. `None` where no frame is free.
    pub fn bring(&mut self, object: ObjectId, page: u64, owner: OwnerId) -> Option<FrameId> {
        let frame = self.free.pop()?;
        let it = &mut self.objects[object];
        assert_eq!(it.frames[page as usize], NONE, "page {page} of object {object} is there");
        it.frames[page as usize] = frame;
        let taken = it.taken[page as usize];
        if taken > 0 {
            let owner = &mut self.owners[owner];
            owner.refaults += 1;
            owner.near_refaults += u64::from(owner.taken.saturating_sub(taken) < owner.held);
        }
        let state = State::Reading;
        let entry = &mut self.frames[frame as usize];
        *entry = Frame { state, owner, object, page, dirty: false, dirtied: 0, ..*entry };
        self.owners[owner].held += 1;
        self.settle(owner);
        Some(frame)
    }

    /// A page is there, and counts as used now.
    ///
    /// # Panics
    /// When it was not being read: a broken invariant.
    pub fn arrived(&mut self, frame: FrameId, now_ns: u64) {
        assert_eq!(self.frames[frame as usize].state, State::Reading, "frame {frame} is not read");
        self.append(frame, now_ns);
    }

    /// A page is used now, and changed.
    pub fn touch(&mut self, frame: FrameId, changed: bool, now_ns: u64) {
        if self.frames[frame as usize].state == State::Resident {
            self.unlist(frame);
            self.append(frame, now_ns);
        }
        if changed && !self.frames[frame as usize].dirty {
            self.frames[frame as usize].dirty = true;
            if self.frames[frame as usize].state != State::Cleaning {
                self.count_dirty(frame);
            }
        }
    }

    /// A changed page of a file is to be written back after all others that are now.
    fn count_dirty(&mut self, frame: FrameId) {
        let Frame { owner, object, .. } = self.frames[frame as usize];
        if self.objects[object].backing == Backing::File {
            self.uses += 1;
            self.frames[frame as usize].dirtied = self.uses;
            self.owners[owner].dirty.insert(self.uses, frame);
        }
    }

    /// Who holds the oldest page of those that may be taken (rule 3).
    pub fn oldest(&self) -> Option<OwnerId> {
        self.ages.first().map(|(_, owner)| *owner)
    }

    /// Those who hold more than their guarantee and have a page to lose.
    pub fn holders(&self) -> impl Iterator<Item = OwnerId> {
        self.ages.iter().map(|(_, owner)| *owner)
    }

    /// Takes an owner's oldest page. `None` where it has none that can be taken.
    pub fn take(&mut self, owner: OwnerId) -> Option<Taken> {
        let frame = self.owners[owner].oldest;
        if frame == NONE {
            return None;
        }
        self.unlist(frame);
        let Frame { object, page, dirty, dirtied, .. } = self.frames[frame as usize];
        let it = &mut self.objects[object];
        it.frames[page as usize] = NONE;
        // Anonymous memory that was never changed is nowhere again.
        let kept = it.taken[page as usize] > 0 || it.backing == Backing::File || dirty;
        it.taken[page as usize] = if kept { self.owners[owner].taken + 1 } else { 0 };
        let holder = &mut self.owners[owner];
        holder.taken += 1;
        holder.taken_within_guarantee += u64::from(holder.held <= holder.guaranteed);
        holder.held -= 1;
        holder.dirty.remove(&dirtied);
        if dirty {
            self.frames[frame as usize].state = State::Leaving;
            self.leaving += 1;
        } else {
            self.frames[frame as usize].state = State::Free;
            self.free.push(frame);
        }
        self.settle(owner);
        Some(Taken { frame, object, page, dirty })
    }

    /// Begins to write back an owner's file page that was changed longest ago; tell [`Memory::written`].
    pub fn clean(&mut self, owner: OwnerId) -> Option<Taken> {
        let (_, frame) = self.owners[owner].dirty.pop_first()?;
        self.unlist(frame);
        let entry = &mut self.frames[frame as usize];
        (entry.state, entry.dirty) = (State::Cleaning, false);
        let (object, page) = (entry.object, entry.page);
        self.settle(owner);
        Some(Taken { frame, object, page, dirty: true })
    }

    /// A page was written. Its frame is free, or it stays, and counts as used now.
    ///
    /// # Panics
    /// When it was not being written: a broken invariant.
    pub fn written(&mut self, frame: FrameId, now_ns: u64) {
        match self.frames[frame as usize].state {
            State::Leaving => {
                self.frames[frame as usize].state = State::Free;
                self.leaving -= 1;
                self.free.push(frame);
            }
            State::Cleaning => {
                self.append(frame, now_ns);
                // It was changed meanwhile.
                if self.frames[frame as usize].dirty {
                    self.count_dirty(frame);
                }
            }
            state => panic!("frame {frame} is {state:?}, not written"),
        }
    }

    /// Counts all frames anew.
    ///
    /// # Panics
    /// When a count is wrong: a broken invariant.
    pub fn audit(&self) {
        let with =
            |wanted: State| self.frames.iter().filter(|it| it.state == wanted).count() as u64;
        let held: u64 = self.owners.iter().map(|owner| owner.held).sum();
        let listed: u64 = self.owners.iter().map(|owner| owner.listed).sum();
        assert_eq!(with(State::Free), self.free_pages(), "free frames");
        assert_eq!(with(State::Leaving), self.leaving, "frames of taken pages");
        assert_eq!(with(State::Resident), listed, "resident pages");
        assert_eq!(held, listed + with(State::Reading) + with(State::Cleaning), "held pages");
        assert_eq!(held + self.free_pages() + self.leaving, self.pages(), "all frames");
    }

    /// Puts a frame at the new end of its owner's pages.
    fn append(&mut self, frame: FrameId, now_ns: u64) {
        self.uses += 1;
        let owner = self.frames[frame as usize].owner;
        let older = std::mem::replace(&mut self.owners[owner].newest, frame);
        let entry = &mut self.frames[frame as usize];
        (entry.state, entry.used, entry.used_at_ns) = (State::Resident, self.uses, now_ns);
        (entry.older, entry.newer) = (older, NONE);
        match older {
            NONE => self.owners[owner].oldest = frame,
            _ => self.frames[older as usize].newer = frame,
        }
        self.owners[owner].listed += 1;
        self.settle(owner);
    }

    /// Takes a frame out of its owner's pages; who calls settles the owner.
    fn unlist(&mut self, frame: FrameId) {
        let Frame { owner, older, newer, .. } = self.frames[frame as usize];
        match older {
            NONE => self.owners[owner].oldest = newer,
            _ => self.frames[older as usize].newer = newer,
        }
        match newer {
            NONE => self.owners[owner].newest = older,
            _ => self.frames[newer as usize].older = older,
        }
        self.owners[owner].listed -= 1;
    }

    /// Where an owner stands among those who may lose a page.
    fn settle(&mut self, owner: OwnerId) {
        let it = &mut self.owners[owner];
        let may_lose = it.oldest != NONE && it.held > it.guaranteed;
        let age = may_lose.then(|| self.frames[it.oldest as usize].used);
        if age != it.age {
            if let Some(old) = std::mem::replace(&mut it.age, age) {
                self.ages.remove(&(old, owner));
            }
            if let Some(new) = age {
                self.ages.insert((new, owner));
            }
        }
    }
}
