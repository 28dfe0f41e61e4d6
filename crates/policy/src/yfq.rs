//! YFQ (Bruno, Brustoloni, Gabber, Özden & Silberschatz, ICMCS 1999), hierarchical as in paper 2 (section 3)
//! and paper 1 (section 5.5): whose request a disk serves next.
//!
//! 1. **Queues**. Requests of a leaf wait in order of arrival. Inner nodes are queues of their parents: the
//!    request at the head of one is the one at the head of the child that it would serve.
//! 2. **Tags**. Every node but the root has a start tag S and a finish tag F, in its parent's virtual time: when
//!    a request comes to its head, S = max(v, F) and F = S + length / weight. While it stays there F follows
//!    the weight, and the length, if another request comes to the head of an inner node (paper 1: the share is
//!    computed anew whenever a request reaches the head, and when tickets change).
//! 3. **Virtual time** v of an inner node is the least start tag of its busy children; where none is busy, the
//!    greatest finish tag that there was. A child is busy as long as a request of it waits or is in service.
//! 4. **Choice**. From the root down, the child with the least finish tag, the least key where several have it.
//! 5. **Batches**. Up to a batch of requests is in service at a time, which the device may reorder. A lone
//!    client is not held back by anybody.
//! 6. **Who has lent its tickets is skipped**, unless nobody else waits (paper 1, 5.5). So is who has none. Those
//!    take turns, and are charged nothing for what nobody else wanted.
//!
//! Property: of two children of a node that are backlogged from the start, what they got for their weights
//! differs by at most the largest request of each, for its weight; by a batch of them, counted when requests
//! are done. Who comes when others were served may be ahead of them by the largest request of the lightest
//! sibling besides: v is that one's start tag for as long as it waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::MAX_WEIGHT;

/// Names a node of the tree. Opaque; the order breaks ties.
pub type NodeKey = u64;

/// Names a request, for as long as it waits or is in service.
pub type RequestKey = u64;

/// The longest request.
pub const MAX_LENGTH: u64 = 1 << 40;

/// The root of every tree.
pub const ROOT: NodeKey = 0;

/// Binary places of a tag: one unit of length at the greatest weight is still 2¹⁶.
const TAG_SHIFT: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    key: RequestKey,
    length: u64,
}

/// A child as its parent sees it, in the order in which it chooses (rules 4 and 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    skipped: bool,
    /// The finish tag; of who is skipped, its turn.
    finish: u128,
    key: NodeKey,
}

#[derive(Debug, Default)]
struct Node {
    parent: NodeKey,
    weight: u64,
    lent: bool,
    /// Of a leaf.
    waiting: VecDeque<Request>,
    /// What its parent knows of it while something waits, and the start tag of that.
    rank: Option<Rank>,
    start: u128,
    /// The finish tag of what was served last.
    finish: u128,
    children: usize,
    /// Children for which something waits.
    ranked: BTreeSet<Rank>,
    /// Start tags of all that waits at a child's head or is in service, but for who is skipped.
    starts: BTreeMap<u128, usize>,
    /// The greatest finish tag of what was served.
    latest: u128,
    /// Counts the turns of who is skipped.
    turns: u128,
}

impl Node {
    /// Rule 3.
    fn now(&self) -> u128 {
        self.starts.first_key_value().map_or(self.latest, |(start, _)| *start)
    }

    fn add_start(&mut self, start: u128) {
        *self.starts.entry(start).or_default() += 1;
    }

    fn take_start(&mut self, start: u128) {
        let count = self.starts.get_mut(&start).expect("its start tag was counted");
        *count -= 1;
        if *count == 0 {
            self.starts.remove(&start);
        }
    }
}

/// A request that is in service: the nodes that had it at their heads, from the top, and their start tags if
/// they were not skipped.
#[derive(Debug)]
struct InService {
    path: Vec<(NodeKey, Option<u128>)>,
}

/// The scheduler of one device. See the [module](self).
#[derive(Debug)]
pub struct Yfq {
    nodes: BTreeMap<NodeKey, Node>,
    in_service: BTreeMap<RequestKey, InService>,
    batch: usize,
}

impl Yfq {
    /// A tree of a root alone; at most `batch` requests are in service at a time.
    ///
    /// # Panics
    /// When `batch` is 0: a broken invariant.
    pub fn new(batch: usize) -> Self {
        assert!(batch > 0, "a batch of no requests would serve nobody");
        let nodes = BTreeMap::from([(ROOT, Node::default())]);
        Yfq { nodes, in_service: BTreeMap::new(), batch }
    }

    /// A new child of `parent` with this weight, 0 to [`MAX_WEIGHT`]; with weight 0 it is served when nobody else
    /// waits.
    ///
    /// # Panics
    /// When there is a node with this key, none with the parent's, the weight is too great, or requests wait
    /// at the parent itself: broken invariants.
    pub fn add(&mut self, key: NodeKey, parent: NodeKey, weight: u64) {
        assert!(weight <= MAX_WEIGHT, "weight {weight} is above {MAX_WEIGHT}");
        assert!(!self.nodes.contains_key(&key), "there is a node {key} already");
        let above = self.nodes.get_mut(&parent).expect("the parent is in the tree");
        assert!(above.waiting.is_empty(), "requests wait at node {parent} itself");
        above.children += 1;
        self.nodes.insert(key, Node { parent, weight, ..Node::default() });
    }

    /// A node without children is gone; answers its requests that waited. Those in service are still to be
    /// told done.
    ///
    /// # Panics
    /// When there is no such node, it has children, or it is the root: broken invariants.
    pub fn remove(&mut self, key: NodeKey) -> Vec<RequestKey> {
        assert_ne!(key, ROOT, "the root stays");
        let node = self.node(key);
        assert_eq!(node.children, 0, "node {key} has children");
        let parent = node.parent;
        let waited = std::mem::take(&mut node.waiting);
        self.settle(key);
        self.nodes.remove(&key);
        self.node(parent).children -= 1;
        // Of what is in service it no longer matters where in this node it began.
        for in_service in self.in_service.values_mut() {
            if let Some(place) = in_service.path.iter().position(|(node, _)| *node == key) {
                in_service.path.truncate(place + 1);
            }
        }
        waited.into_iter().map(|request| request.key).collect()
    }

    /// A node's weight from now on, also for the request at its head (rule 2).
    ///
    /// # Panics
    /// When there is no such node, or the weight is too great: broken invariants.
    pub fn reweigh(&mut self, key: NodeKey, weight: u64) {
        assert!(weight <= MAX_WEIGHT, "weight {weight} is above {MAX_WEIGHT}");
        self.node(key).weight = weight;
        self.settle(key);
    }

    /// Whether a node has lent its tickets (rule 6).
    ///
    /// # Panics
    /// When there is no such node: a broken invariant.
    pub fn set_lent(&mut self, key: NodeKey, lent: bool) {
        self.node(key).lent = lent;
        self.settle(key);
    }

    /// A request of so many bytes, sectors or ns (one unit for all), 1 to [`MAX_LENGTH`], waits at a leaf.
    ///
    /// # Panics
    /// When there is no such node, it has children, the length is out of range, or there is such a request: broken
    /// invariants.
    pub fn submit(&mut self, leaf: NodeKey, request: RequestKey, length: u64) {
        assert!(
            (1..=MAX_LENGTH).contains(&length),
            "a request has 1 to {MAX_LENGTH}, not {length}"
        );
        assert!(!self.in_service.contains_key(&request), "request {request} is in service");
        let node = self.node(leaf);
        assert!(leaf != ROOT && node.children == 0, "node {leaf} is no leaf");
        node.waiting.push_back(Request { key: request, length });
        if node.waiting.len() == 1 {
            self.settle(leaf);
        }
    }

    /// Whose request goes to the device next (rule 4), and which; `None` where nothing waits, or a batch is in
    /// service (rule 5).
    pub fn dispatch(&mut self) -> Option<(NodeKey, RequestKey)> {
        if self.in_service.len() >= self.batch {
            return None;
        }
        let mut nodes = Vec::new();
        let mut leaf = ROOT;
        while let Some(rank) = self.nodes[&leaf].ranked.first() {
            leaf = rank.key;
            nodes.push(leaf);
        }
        let request = self.node(leaf).waiting.pop_front()?;
        // From the leaf up: each goes on from where what is served now ends.
        let mut path = Vec::new();
        for &key in nodes.iter().rev() {
            let (rank, start) = self.unrank(key).expect("it was chosen");
            if !rank.skipped {
                let parent = self.nodes[&key].parent;
                self.node(key).finish = rank.finish;
                let above = self.node(parent);
                above.latest = above.latest.max(rank.finish);
                above.add_start(start);
            }
            path.push((key, (!rank.skipped).then_some(start)));
            self.arrange(key);
        }
        path.reverse();
        let in_service = InService { path };
        self.in_service.insert(request.key, in_service);
        Some((leaf, request.key))
    }

    /// Whether a request of this length would be the next to be served, if it came now to this leaf, at which
    /// none waits. So a device can be kept for who is about to come back (Iyer & Druschel 2001: anticipation).
    /// Never for who would be skipped.
    ///
    /// # Panics
    /// When there is no such node: a broken invariant.
    pub fn would_be_next(&self, leaf: NodeKey, length: u64) -> bool {
        let mut key = leaf;
        while key != ROOT {
            let node = &self.nodes[&key];
            if node.lent || node.weight == 0 {
                return false;
            }
            let above = &self.nodes[&node.parent];
            let start = match node.rank {
                Some(rank) if !rank.skipped => node.start,
                _ => above.now().max(node.finish),
            };
            let finish = start + (u128::from(length) << TAG_SHIFT) / u128::from(node.weight);
            let rank = Rank { skipped: false, finish, key };
            let other = above.ranked.iter().find(|other| other.key != key);
            if other.is_some_and(|other| *other < rank) {
                return false;
            }
            key = node.parent;
        }
        true
    }

    /// A request is done.
    ///
    /// # Panics
    /// When it is not in service: a broken invariant.
    pub fn complete(&mut self, request: RequestKey) {
        let done = self.in_service.remove(&request).expect("the request is in service");
        let mut above = ROOT;
        for (key, start) in done.path {
            if let Some(start) = start {
                self.node(above).take_start(start);
            }
            above = key;
        }
    }

    /// How many requests wait, and how many are in service.
    pub fn pending(&self) -> (usize, usize) {
        (self.nodes.values().map(|node| node.waiting.len()).sum(), self.in_service.len())
    }

    fn node(&mut self, key: NodeKey) -> &mut Node {
        self.nodes.get_mut(&key).expect("it is in the tree")
    }

    /// The length of the request at a node's head, and whether it would be skipped.
    fn head(&self, key: NodeKey) -> Option<(u64, bool)> {
        let node = &self.nodes[&key];
        let (length, skipped) = match node.ranked.first() {
            Some(rank) => (self.head(rank.key)?.0, rank.skipped),
            None => (node.waiting.front()?.length, false),
        };
        Some((length, skipped || node.lent || node.weight == 0))
    }

    /// What is at the head of this node may have changed: then its tags do, and those above.
    fn settle(&mut self, key: NodeKey) {
        let mut key = key;
        while key != ROOT {
            match self.unrank(key) {
                Some((rank, start)) if !rank.skipped => self.rank_from(key, start),
                _ => self.arrange(key),
            }
            key = self.nodes[&key].parent;
        }
    }

    /// Takes a node out of what its parent chooses from; answers how it stood there, if it did, and its start
    /// tag.
    fn unrank(&mut self, key: NodeKey) -> Option<(Rank, u128)> {
        let node = self.node(key);
        let (rank, start, parent) = (node.rank.take()?, node.start, node.parent);
        let above = self.node(parent);
        above.ranked.remove(&rank);
        if !rank.skipped {
            above.take_start(start);
        }
        Some((rank, start))
    }

    /// Rule 2, for a request that comes to the head now.
    fn arrange(&mut self, key: NodeKey) {
        let node = &self.nodes[&key];
        let start = self.nodes[&node.parent].now().max(node.finish);
        self.rank_from(key, start);
    }

    fn rank_from(&mut self, key: NodeKey, start: u128) {
        let Some((length, skipped)) = self.head(key) else { return };
        let (parent, weight) = (self.nodes[&key].parent, self.nodes[&key].weight);
        let above = self.node(parent);
        let finish = if skipped {
            above.turns += 1;
            above.turns
        } else {
            above.add_start(start);
            start + (u128::from(length) << TAG_SHIFT) / u128::from(weight)
        };
        let rank = Rank { skipped, finish, key };
        above.ranked.insert(rank);
        let node = self.node(key);
        (node.start, node.rank) = (start, Some(rank));
    }
}
