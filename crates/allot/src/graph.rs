//! The funding graph as allotd shows it, indexed for walking and for names.

use command_line::CliError;
use command_line::style::clean;
use std::collections::{BTreeMap, BTreeSet};
use wire::{
    CurrencyKind, CurrencyView, LedgerView, MemberView, ResourceValue, TicketKind, TicketView,
};

/// An indexed view.
pub struct Graph<'a> {
    by_id: BTreeMap<u64, &'a CurrencyView>,
    held: BTreeMap<u64, Vec<&'a TicketView>>,
    issued: BTreeMap<u64, Vec<&'a TicketView>>,
}

impl<'a> Graph<'a> {
    /// Indexes a view.
    pub fn new(view: &'a LedgerView) -> Graph<'a> {
        let mut held: BTreeMap<u64, Vec<&TicketView>> = BTreeMap::new();
        let mut issued: BTreeMap<u64, Vec<&TicketView>> = BTreeMap::new();
        for ticket in &view.tickets {
            held.entry(ticket.holder).or_default().push(ticket);
            issued.entry(ticket.issuer).or_default().push(ticket);
        }
        let by_id = view.currencies.iter().map(|currency| (currency.id, currency)).collect();
        Graph { by_id, held, issued }
    }

    /// Every currency, in order of id.
    pub fn currencies(&self) -> impl Iterator<Item = &'a CurrencyView> {
        self.by_id.values().copied()
    }

    /// A currency by id.
    pub fn get(&self, id: u64) -> Option<&'a CurrencyView> {
        self.by_id.get(&id).copied()
    }

    /// The tickets that fund a currency, oldest first.
    pub fn held(&self, id: u64) -> &[&'a TicketView] {
        self.held.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The tickets that it issued, oldest first.
    pub fn issued(&self, id: u64) -> &[&'a TicketView] {
        self.issued.get(&id).map_or(&[], Vec::as_slice)
    }

    /// The client of a process.
    pub fn client(&self, pid: u32) -> Option<&'a CurrencyView> {
        self.currencies()
            .find(|currency| currency.process.as_ref().is_some_and(|process| process.pid == pid))
    }

    /// The currency that a text names, by the rules of [`wire::CurrencyRef`], for a caller.
    pub fn find(&self, text: &str, caller_uid: u32) -> Result<&'a CurrencyView, CliError> {
        let unknown = || {
            CliError::Unknown(format!(
                "there is no currency `{}`; `allot currency show` lists them",
                clean(text)
            ))
        };
        if text == "base" {
            return self
                .currencies()
                .find(|one| one.kind == CurrencyKind::Base)
                .ok_or_else(unknown);
        }
        if let Some(id) = text.strip_prefix('#') {
            return id.parse().ok().and_then(|id| self.get(id)).ok_or_else(unknown);
        }
        let everybodys = match text {
            "kernel" => Some(MemberView::Kernel),
            "rest" => Some(MemberView::Rest),
            _ => None,
        };
        if let Some(founder) = everybodys
            && let Some(client) =
                self.currencies().find(|one| one.founder.as_ref() == Some(&founder))
        {
            return Ok(client);
        }
        if let Some(pid) = text.strip_prefix("pid:") {
            return pid.parse().ok().and_then(|pid| self.client(pid)).ok_or_else(|| {
                CliError::Unknown(format!("process {} is no client of this allotd", clean(pid)))
            });
        }
        let (user, name) = match text.split_once(':') {
            Some((user, name)) => (Some(user), name),
            None => (None, text),
        };
        let is_users = |one: &CurrencyView| match user {
            None => true,
            Some(user) => one.owner_name == user || user.parse() == Ok(one.owner),
        };
        let named: Vec<_> = self
            .currencies()
            .filter(|one| one.kind == CurrencyKind::Pure && one.name == name && is_users(one))
            .collect();
        if user.is_some() {
            return named.first().copied().ok_or_else(unknown);
        }
        let base = self.currencies().find(|one| one.kind == CurrencyKind::Base);
        let of = |uid: u32| named.iter().find(|one| one.owner == uid).copied();
        if let Some(found) = of(caller_uid).or_else(|| of(base?.owner)) {
            return Ok(found);
        }
        if named.is_empty() {
            return Err(unknown());
        }
        let names: Vec<_> = named
            .iter()
            .map(|one| format!("{}:{}", clean(&one.owner_name), clean(&one.name)))
            .collect();
        Err(CliError::Unknown(format!(
            "you have no currency `{}`; say whose is meant: {}",
            clean(text),
            names.join(", ")
        )))
    }

    /// The ticket that funds a client first, of the CPU: what paper 3 calls its process
    /// tickets.
    pub fn process_tickets(&self, id: u64) -> Option<&'a TicketView> {
        self.held(id)
            .iter()
            .find(|ticket| ticket.resource == "cpu" && ticket.kind == TicketKind::Soft)
            .copied()
    }

    /// What paper 3 calls a user's base tickets: those of the user's own currency, which the
    /// funding policy keeps under the user's name (or `uid-N`); what is lent to jobs counted in.
    pub fn base_tickets(&self, uid: u32) -> Option<u64> {
        let base = self.find("base", uid).ok()?.id;
        let own = self.currencies().find(|one| {
            one.kind == CurrencyKind::Pure
                && one.owner == uid
                && (one.name == one.owner_name || one.name == format!("uid-{uid}"))
        })?;
        let from_base = self.held(own.id).iter().find(|ticket| {
            ticket.issuer == base && ticket.resource == "cpu" && ticket.kind == TicketKind::Soft
        })?;
        Some(from_base.amount + value(own, "cpu").map_or(0, |cpu| cpu.lent))
    }

    /// Every resource that some ticket is of, `cpu` always and first.
    pub fn resources(&self) -> Vec<String> {
        let others: BTreeSet<&str> = self
            .held
            .values()
            .flatten()
            .map(|ticket| ticket.resource.as_str())
            .filter(|resource| *resource != "cpu")
            .collect();
        std::iter::once("cpu").chain(others).map(str::to_owned).collect()
    }
}

/// What a member of a client is called for people.
pub fn member_label(member: &MemberView) -> String {
    match member {
        MemberView::Process(process) => format!("{} {}", clean(&process.command), process.pid),
        MemberView::Thread { tid, process } => {
            format!("{} thread {tid}", clean(&process.command))
        }
        MemberView::Cgroup { path: Some(path), .. } => clean(path),
        MemberView::Cgroup { id, path: None } => format!("cgroup {id}"),
        MemberView::Kernel => "the kernel's threads".to_owned(),
        MemberView::Rest => "everybody else".to_owned(),
    }
}

/// What a currency is worth in a resource, where it has anything to do with it.
pub fn value<'a>(currency: &'a CurrencyView, resource: &str) -> Option<&'a ResourceValue> {
    currency.resources.iter().find(|value| value.resource == resource)
}

/// What a currency is called for people: its name, a client's process too.
pub fn label(currency: &CurrencyView) -> String {
    match &currency.process {
        Some(process) => format!("{} {}", clean(&process.command), process.pid),
        None if currency.name.is_empty() => format!("#{}", currency.id),
        None if currency.kind == CurrencyKind::Job => format!("job #{}", currency.id),
        None => clean(&currency.name),
    }
}
