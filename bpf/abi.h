/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler in the kernel and the enforcer in user space agree on. Both are built from
 * this file: the enforcer reads these types from the object's BTF.
 *
 * The enforcer gives every currency of the graph a *slot*, the same in every plan for as long as
 * the currency lives. There are two *banks* of the graph: plans are written into the one that is
 * not in use, whole, and then taken by switch_plan.
 */
#ifndef ALLOT_ABI_H
#define ALLOT_ABI_H

enum abi_limits {
	SLOTS_MAX = 1 << 16, /* currencies, clients among them; slot 0 is base */
	EDGES_MAX = 1 << 17, /* edges of a bank: every node's backing */
	STEPS_MAX = 1 << 18, /* steps of a bank: every client's path */
	PATH_MAX = 64,      /* steps of one path */
	GIVERS_MAX = 1 << 12, /* givers of a bank */
	CPUS_MAX = 1024,
	DOMAINS_MAX = 64, /* last-level caches */
	PAYERS_MAX = 4, /* clients that lend to one thread at a time */
};

/* Base's own value (valuation::WHOLE), and the hard tickets of a currency (ledger::HARD_TOTAL). */
#define WHOLE (1ULL << 48)
#define HARD_TOTAL 1000ULL

/* Keys are in virtual nanoseconds: CPU time · WHOLE / value. A value below this counts as this, so
 * that no product overflows. */
#define VALUE_MIN (1ULL << 24)
#define INVERSE_SHIFT 15 /* inverse = 2^63 / value; WHOLE's is 1 << 15 */

enum policy_name {
	POLICY_LOTTERY = 0,
	POLICY_STRIDE = 1,
	POLICY_MTR_LS = 2,
};

enum ticket_kind {
	TICKET_SOFT = 0,
	TICKET_HARD = 1,
	TICKET_TRANSFER = 2, /* all of its issuer's value */
};

enum client_flags {
	CLIENT_LIVE = 1 << 0, /* the slot is a client of this plan */
	CLIENT_GUEST = 1 << 1, /* runs only when no host wants the CPU (paper 4) */
	CLIENT_FROZEN = 1 << 2, /* has no tickets: waits */
	CLIENT_LENT = 1 << 3, /* has lent its tickets: runs only when nothing else waits */
};

/* A ticket of a positive amount, in its holder's backing. */
struct edge {
	__u64 amount;
	__u32 issuer; /* slot */
	__u32 kind;   /* enum ticket_kind */
	__u64 seen; /* the kernel's: the issuer's clock up to which the holder has got its due */
};

/* A currency that gives base's tickets of a kind in exchanges. */
struct giver {
	__u64 amount;
	__u32 kind; /* enum ticket_kind */
	/* Its way, among the steps: its own slot, then the issuer's of its main ticket, and so on,
	 * without base. With STEP_SOFT where the ticket that leads there is soft. */
	__u32 first_step;
	__u32 steps;
	__u32 place; /* the kernel's: the step where it is charged; `steps` where nobody is */
};
#define STEP_SOFT (1U << 31)

/* A currency in one bank. From `active` on the kernel's: 0 in a new plan. */
struct node {
	__u64 issued_hard;
	__u64 received_soft; /* base's tickets, in exchanges */
	__u64 received_hard;
	__u32 exchanged; /* it has received some, or may be charged for a giver */
	/* The givers whose way leads over it, by their numbers among the steps; base's are all of
	 * the bank, and not listed. */
	__u32 givers;
	__u32 first_giver;
	__u32 pad;
	__u32 first_edge; /* its backing */
	__u32 edges;
	/* A client's path: the slots of all currencies above it but base, issuers before holders,
	 * and the client itself last. At most PATH_MAX. */
	__u32 first_step;
	__u32 steps;
	__u32 flags; /* enum client_flags */
	__u32 scale; /* the soft clock's unit is 2^-scale ns a ticket: 16 to 31, see below */
	__u32 active; /* a client: its tickets are counted in its issuers */
	__u32 lock;
	__u64 active_soft; /* of what it has issued */
	__u64 active_hard;
	__u64 active_tickets;
	__u64 stamp; /* the activity for which `value` is right */
	__u64 value;
	__u64 due_ns; /* CPU time that it was due in this plan */
	__u64 soft_clock; /* CPU time that each soft ticket was due */
	__u64 hard_clock; /* each hard ticket, in 2^-16 ns */
	__u64 soft_rest;
	__u64 hard_rest;
	/* Base's tickets that it is charged, and those that its soft tickets alone are. */
	__u64 charged_soft;
	__u64 charged_hard;
	__u64 charged_soft_soft;
	__u64 charged_soft_hard;
	__u64 seen_soft; /* base's clocks up to which its exchanged tickets have got their due */
	__u64 seen_hard;
	__u64 soft_charge_ns; /* of what its soft tickets were due last, what is charged to them */
};
/* scale = 16 + what the bits of all soft tickets that the currency has issued are above 24, at
 * most 31: then neither does a clock lose small amounts nor does a product leave 64 bits. */

/* A client, whatever plan is followed. The enforcer writes id, birth and charged_ns before the
 * slot is used (what a new client owes: debts of who was there before it); the rest is the
 * kernel's. */
struct client {
	__u64 id; /* its currency; also picks its random numbers */
	__u64 due_ns; /* CPU time that its tickets were due while it was active, of all that was
		       * given: what it is promised */
	__u64 charged_ns; /* CPU time that it was charged; what it owes is charged - due */
	__u64 draws; /* random numbers drawn */
	__u64 left; /* mtr-ls: of its quota, in parts of 2^-24; signed */
	__u64 position; /* mtr-ls: its place in the list, a virtual time; 0 before its first */
	__u64 next_place; /* mtr-ls: where it goes when its quota is used up; 0 for not known */
	__u64 moved_at; /* mtr-ls: the service at which it moved to the rear */
	__u64 skips; /* mtr-ls: rounds that it missed then */
	__u64 advanced; /* the service at which due_ns was brought up to date */
	__u64 value; /* in parts of WHOLE, when it was last looked at */
	__u64 rate; /* what it was due on average lately, in parts of WHOLE */
	__u64 inverse; /* of that: 2^63 / rate */
	__u64 rate_since; /* the service from which on that is counted next */
	__u64 rate_due_ns; /* due_ns then */
	__u64 left_service; /* the service at which it became inactive */
	__u64 given_back_ns; /* what it was due and others were given instead; due_ns is without */

	__u64 used_ns; /* CPU time of its members */
	__u64 transferred_ns; /* of that used by others at its cost, by transfers */
	__u64 wins; /* times that a member was chosen */
	__u64 wakes; /* times that a member became runnable */
	__u64 preemptions; /* times that a wake-up of a member preempted somebody */
	__u64 left_at_ns; /* when its last runnable member went to sleep */
	__u64 due_limit_ns; /* due_ns is at most this until a member is runnable again */
	__u64 wait_max_ns; /* the longest wait of a runnable member, in real time */

	__u32 runnable; /* members that are runnable, or have lent */
	__u32 birth; /* tells a slot's clients apart */
	__u32 lingers; /* has left, and is active until it has been paid for */
	__u32 rated; /* its rate is known, and not only its value */
};

/* A member by number: a process (tgid) or a thread (tid). */
struct member {
	__u64 start_ticks; /* its start time in ticks of 10 ms since boot, as in /proc/PID/stat */
	__u32 slot;
	__u32 pad;
};

/* Globals that the enforcer reads or writes while the scheduler runs. */
struct control {
	__u32 bank; /* in use */
	__u32 policy; /* enum policy_name */
	__u32 kernel_slot; /* whose members are the kernel's threads */
	__u32 rest_slot; /* whose members are all that nobody else's are */
	__u32 epoch; /* grows when members change */
	__u32 has_cgroups; /* some members are cgroups */
	__u32 traced; /* events go to the ring buffer */
	__u32 pad;
	__u64 generation; /* of the plan in use */
	__u64 quantum_ns;
	__u64 round_ns; /* mtr-ls: T */
};

/* Counters of the whole scheduler. */
struct totals {
	__u64 draws; /* choices of who runs next */
	__u64 kept; /* of those: who ran goes on */
	__u64 rescued; /* guests and frozen clients run to calm the watchdog */
	__u64 transfers; /* loans by waiting for a lock */
	__u64 revalued; /* values computed */
	__u64 crowded; /* clients that could not linger */
	__u64 dropped; /* events that found the ring buffer full */
	__u64 steals; /* threads taken from another domain */
	__u64 forgiven_ns; /* debts that were forgiven */
};

enum event_type {
	EVENT_JOIN = 0, /* a client's first member became runnable */
	EVENT_QUEUE = 1, /* a thread was queued with a key */
	EVENT_WIN = 2, /* a thread was chosen */
	EVENT_CHARGE = 3, /* a client was charged */
	EVENT_LEAVE = 4, /* a client's last member went to sleep */
};

/* One line of the trace (paper 3, table 4). */
struct event {
	__u64 at_ns;
	__u64 key;
	__u64 value; /* of the client, in parts of WHOLE */
	__u64 rate; /* by which its key was computed */
	__u64 used_ns; /* the client's, all in all */
	__u64 due_ns;
	__u64 charged_ns;
	__u64 drawn; /* lottery: the random number, in 2^-16 (65536: as much as its tickets say) */
	__u64 now; /* service given in all: virtual time */
	__u32 slot;
	__u32 tid;
	__u16 cpu;
	__u16 type;
	__u32 seq; /* low half of a count of all events of this CPU */
};

/* Arguments of the programs that user space calls. */
struct switch_args {
	__u64 generation;
	__u32 bank;
	__u32 kernel_slot;
	__u32 rest_slot;
	__u32 has_cgroups;
	__u32 slots; /* slots in use: all are below */
	__u32 pad;
};
struct thread_args {
	__s32 tid;
	__u32 slot; /* answer: whose member it is now */
	__u64 start_ticks; /* answer */
};
struct value_args {
	__u32 slot;
	__u32 active; /* 0, 1: make it so first; 2: leave it */
	__u64 value; /* answer */
};
struct policy_args {
	__u32 operation; /* 0 join, 1 key, 2 charge, 3 slice, 4 settled */
	__u32 slot;
	__u64 argument; /* key: members before it; charge, slice: ns; settled: now, in ns */
	__u64 value; /* of the client */
	__u64 due_ns; /* of the client */
	__u64 now; /* virtual time */
	__u64 answer;
};

#endif
