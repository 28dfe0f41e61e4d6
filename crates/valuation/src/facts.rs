//! A graph as plain facts, and the checks that turn facts into a graph.
//!
//! A graph keeps sums, places and marks that agree with one another; code that reads it relies on that. Facts from
//! another process may say anything. [`Graph::from_facts`] therefore takes only what a ledger could have said: each
//! currency once, tickets between currencies that may be joined, no cycle, no path too deep, amounts within the
//! ledger's bounds, and exchanges that are covered. A graph that it returns cannot panic, hang or overflow.

use crate::exchanged::Goods;
use crate::graph::{Backing, Graph};
use ledger::{
    AMOUNT_MAX, BASE, Class, CurrencyId, HARD_TOTAL, ID_MAX, ISSUED_MAX, MEMORY_KIB_MAX, Part,
    Resource, TRANSFER_AMOUNT, TicketKind,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest path of currencies that is taken, transfers and jobs included. A ledger makes at most
/// [`ledger::DEPTH_MAX`] and a few jobs; values are computed by recursion, so this bounds the stack.
pub const PATH_MAX: usize = 128;

/// A graph as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphFacts {
    /// The resource.
    pub resource: Resource,
    /// Memory that base has to promise, in KiB; 0 where that was not told.
    pub memory_kib: u64,
    /// Every currency once, base among them.
    pub currencies: Vec<CurrencyFacts>,
}

/// A currency as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrencyFacts {
    /// The currency.
    pub id: CurrencyId,
    /// Whether it consumes.
    pub is_client: bool,
    /// How it competes.
    pub class: Class,
    /// Whether it is a client that was said to compete.
    pub competes: bool,
    /// Base tickets that it gives in exchanges.
    pub given: Goods,
    /// Base tickets that it receives in exchanges.
    pub received: Goods,
    /// The tickets that it holds.
    pub tickets: Vec<Backing>,
}

/// Why facts are no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Base is missing.
    #[error("the graph has no base")]
    NoBase,
    /// More currencies than a ledger may have.
    #[error("the graph has {0} currencies, more than any ledger")]
    TooMany(usize),
    /// A currency that no ledger can have made.
    #[error("{0} is an id that no ledger reaches")]
    NoSuchId(CurrencyId),
    /// A currency is named twice.
    #[error("{0} is there twice")]
    Twice(CurrencyId),
    /// A currency cannot be what it is said to be.
    #[error("{0} is no client, but competes as one")]
    NoClient(CurrencyId),
    /// A ticket of a currency that is not there.
    #[error("{holder} holds a ticket of {issuer}, which is not there")]
    UnknownIssuer {
        /// The currency that holds it.
        holder: CurrencyId,
        /// The currency that is not there.
        issuer: CurrencyId,
    },
    /// A ticket between currencies that no ticket of its kind can join.
    #[error("no ticket of this kind leads from {issuer} to {holder}")]
    CannotJoin {
        /// The currency that issued it.
        issuer: CurrencyId,
        /// The currency that holds it.
        holder: CurrencyId,
    },
    /// A second ticket of the same issuer, holder and kind.
    #[error("{holder} holds two tickets of one kind of {issuer}")]
    SecondTicket {
        /// The currency that issued both.
        issuer: CurrencyId,
        /// The currency that holds both.
        holder: CurrencyId,
    },
    /// A currency has issued more than any may.
    #[error("{0} has issued more than it may")]
    IssuedTooMuch(CurrencyId),
    /// More memory than any machine may promise.
    #[error("{0} KiB is more memory than any machine may promise")]
    TooMuchMemory(u64),
    /// A currency funds itself.
    #[error("{0} funds itself, directly or through others")]
    Cycle(CurrencyId),
    /// A path is too long.
    #[error("more than {PATH_MAX} currencies lie between base and {0}")]
    TooDeep(CurrencyId),
    /// What is given and what is received differ, or more is given than there is.
    #[error("exchanges do not add up")]
    Unbalanced,
    /// A currency gives what it does not cover.
    #[error("{0} gives more than it covers")]
    Uncovered(CurrencyId),
}

impl Graph {
    /// The graph as plain facts.
    pub fn facts(&self) -> GraphFacts {
        GraphFacts {
            resource: self.resource().clone(),
            memory_kib: self.memory_kib(),
            currencies: self.places().map(|place| self.facts_of(place)).collect(),
        }
    }

    fn facts_of(&self, place: u32) -> CurrencyFacts {
        let id = self.node_id(place);
        let (given, received) = self.exchanged(id);
        let (is_client, competes) = self.node_competes(place);
        let class = self.node_class(place);
        let tickets = self.backing(id).collect();
        CurrencyFacts { id, is_client, class, competes, given, received, tickets }
    }

    /// Builds a graph from facts that may say anything.
    ///
    /// # Errors
    /// When no ledger could have said so.
    pub fn from_facts(facts: &GraphFacts) -> Result<Graph, GraphError> {
        let known = check_currencies(facts)?;
        check_tickets(facts, &known)?;
        check_issued(facts, &known)?;
        check_paths(facts, &known)?;
        let mut graph = Graph::empty(facts.resource.clone(), facts.memory_kib);
        for it in &facts.currencies {
            graph.add_node(it.id, it.is_client, it.class);
        }
        graph.find_base();
        for it in &facts.currencies {
            it.tickets.iter().for_each(|ticket| graph.attach_edge(it.id, *ticket));
        }
        check_totals(facts, &graph)?;
        for it in &facts.currencies {
            graph.restore_exchanged(it.id, it.given, it.received);
        }
        match graph.first_uncovered() {
            Some(giver) => return Err(GraphError::Uncovered(giver)),
            None => graph.spoil_exchanged(),
        }
        for it in facts.currencies.iter().filter(|it| it.competes) {
            graph.set_active(it.id, true);
        }
        Ok(graph)
    }
}

/// The most currencies of a graph: all that ordinary persons may own, and as many clients as Linux has processes.
const CURRENCIES_MAX: usize = Part::Currency.quota().in_all + (1 << 22);

/// Each currency's index.
type Known = FxHashMap<CurrencyId, usize>;

fn check_currencies(facts: &GraphFacts) -> Result<Known, GraphError> {
    let count = facts.currencies.len();
    if count > CURRENCIES_MAX {
        return Err(GraphError::TooMany(count));
    }
    if facts.memory_kib > MEMORY_KIB_MAX {
        return Err(GraphError::TooMuchMemory(facts.memory_kib));
    }
    let mut known = Known::default();
    for (index, it) in facts.currencies.iter().enumerate() {
        if it.id.0 > ID_MAX {
            return Err(GraphError::NoSuchId(it.id));
        }
        if known.insert(it.id, index).is_some() {
            return Err(GraphError::Twice(it.id));
        }
        let must_be_client = it.competes || it.class == Class::Guest;
        if !it.is_client && must_be_client || it.is_client && it.id == BASE {
            return Err(GraphError::NoClient(it.id));
        }
    }
    known.contains_key(&BASE).then_some(known).ok_or(GraphError::NoBase)
}

/// Checks what each ticket joins, by the ledger's rules.
fn check_tickets(facts: &GraphFacts, known: &Known) -> Result<(), GraphError> {
    let mut seen = FxHashSet::default();
    for it in &facts.currencies {
        seen.clear();
        for ticket in &it.tickets {
            let (issuer, holder) = (ticket.issuer, it.id);
            let from = known.get(&issuer).map(|index| &facts.currencies[*index]);
            let Some(from) = from else {
                return Err(GraphError::UnknownIssuer { holder, issuer });
            };
            let fits = match ticket.kind {
                TicketKind::Transfer => from.is_client && it.is_client,
                TicketKind::Soft | TicketKind::Hard => !from.is_client && holder != BASE,
            };
            if !fits {
                return Err(GraphError::CannotJoin { issuer, holder });
            }
            if !seen.insert((issuer, ticket.kind)) {
                return Err(GraphError::SecondTicket { issuer, holder });
            }
        }
    }
    Ok(())
}

/// Checks what each currency has issued against the ledger's bounds.
fn check_issued(facts: &GraphFacts, known: &Known) -> Result<(), GraphError> {
    // Soft, hard and transfers by currency.
    let mut issued = vec![[0_u64; 3]; facts.currencies.len()];
    let is_amount = facts.resource.is_amount() && facts.memory_kib > 0;
    let base_total = if is_amount { facts.memory_kib } else { HARD_TOTAL };
    for ticket in facts.currencies.iter().flat_map(|it| &it.tickets) {
        let hard_total = if ticket.issuer == BASE { base_total } else { HARD_TOTAL };
        let (most, total, pool) = match ticket.kind {
            TicketKind::Soft => (AMOUNT_MAX, ISSUED_MAX, 0),
            TicketKind::Hard => (hard_total, hard_total, 1),
            TicketKind::Transfer => (TRANSFER_AMOUNT, TRANSFER_AMOUNT, 2),
        };
        let sum = &mut issued[known[&ticket.issuer]][pool];
        // Both are far below 2⁶³: no overflow.
        if ticket.amount > most || *sum + ticket.amount > total {
            return Err(GraphError::IssuedTooMuch(ticket.issuer));
        }
        *sum += ticket.amount;
    }
    Ok(())
}

/// Checks that there is no cycle and no path that is too long, issuers first.
fn check_paths(facts: &GraphFacts, known: &Known) -> Result<(), GraphError> {
    let count = facts.currencies.len();
    let mut holders: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut left = vec![0_usize; count];
    for (holder, it) in facts.currencies.iter().enumerate() {
        left[holder] = it.tickets.len();
        it.tickets.iter().for_each(|ticket| holders[known[&ticket.issuer]].push(holder));
    }
    let mut depth = vec![0_usize; count];
    let mut open: Vec<usize> = (0..count).filter(|index| left[*index] == 0).collect();
    let mut done = 0;
    while let Some(issuer) = open.pop() {
        done += 1;
        if depth[issuer] > PATH_MAX {
            return Err(GraphError::TooDeep(facts.currencies[issuer].id));
        }
        for &holder in &holders[issuer] {
            depth[holder] = depth[holder].max(depth[issuer] + 1);
            left[holder] -= 1;
            if left[holder] == 0 {
                open.push(holder);
            }
        }
    }
    match (0..count).find(|index| left[*index] > 0) {
        Some(index) if done < count => Err(GraphError::Cycle(facts.currencies[index].id)),
        _ => Ok(()),
    }
}

/// Checks that as much is received as is given, and no more than base has issued. Base itself trades nothing.
fn check_totals(facts: &GraphFacts, graph: &Graph) -> Result<(), GraphError> {
    let mut given = Goods::default();
    let mut received = Goods::default();
    let add = |sum: &mut u64, more: u64| match sum.checked_add(more) {
        Some(total) => {
            *sum = total;
            Ok(())
        }
        None => Err(GraphError::Unbalanced),
    };
    for it in &facts.currencies {
        if it.id == BASE && (it.given, it.received) != Default::default() {
            return Err(GraphError::Unbalanced);
        }
        add(&mut given.soft, it.given.soft)?;
        add(&mut given.hard, it.given.hard)?;
        add(&mut received.soft, it.received.soft)?;
        add(&mut received.hard, it.received.hard)?;
    }
    let issued = graph.node_issued(graph.base());
    match given == received && given.soft <= issued.soft && given.hard <= issued.hard {
        true => Ok(()),
        false => Err(GraphError::Unbalanced),
    }
}

impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.facts().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Graph, D::Error> {
        let facts = GraphFacts::deserialize(from)?;
        Graph::from_facts(&facts).map_err(serde::de::Error::custom)
    }
}
