/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The currency graph: who competes, what their tickets are worth (paper 1, 2.1, 3.3, 5.3), and
 * what they were due.
 *
 * 1. A client is active while a member is runnable, and after that until it has been paid for
 *    (main.bpf.c, rule 4). A currency is active while a ticket that it issued is. Only what
 *    turns active or inactive is climbed: an activation changes each issuer's sums on the way up
 *    and stops at the first that was active already.
 * 2. Sums are counted with atomic additions, which commute, under no lock. Who takes a count from
 *    none to one carries it further up, who takes it from one to none takes it down again; in
 *    between, a reader may see a sum without its ticket, and must bear it.
 * 3. A value is computed when it is asked for, along the client's path from base, with the same
 *    divisions as valuation::Graph, each rounding down: where nothing changes meanwhile both get
 *    the same number. It is remembered until somebody's activity changes.
 * 4. What is *due*. All CPU time that was given, `service`, was due to base; what a currency was
 *    due, was due to its active tickets in proportion. So every currency has a clock for its soft
 *    tickets and one for its hard ones, which show what one ticket was due since the plan was
 *    taken; a holder gets its amount times what the clock went on since it looked last. Clocks
 *    are brought up to date before the sums that they divide by change, and when somebody asks.
 *    So what a client was due is exact, however often others sleep and wake meanwhile: the
 *    integral of its value over the service given.
 * 5. A clock is moved by whoever takes its lock; who finds it taken does not wait but reads the
 *    clock as it is. Nothing is lost: the next one moves it all the way.
 * 6. Keys are computed ahead, so not by the value of the moment, which may be another one when the
 *    thread has half waited: by the client's *rate*, what it was due on average while RATE_NS were
 *    given by every CPU or more, the time that it was inactive left out. Until that is known, by
 *    its value; then it waits at most for as long as it takes to know it.
 */
#ifndef ALLOT_CURRENCY_H
#define ALLOT_CURRENCY_H

struct node nodes[2][SLOTS_MAX] SEC(".bss.nodes");
struct edge edges[2][EDGES_MAX] SEC(".bss.edges");
u32 paths[2][STEPS_MAX] SEC(".bss.paths");
struct client clients[SLOTS_MAX] SEC(".bss.clients");

/* Grows when anybody's activity changes, or the plan. */
u64 activity SEC(".data") = 1;
/* Debts that were forgiven, as far as they have not been made up for. */
u64 forgiven SEC(".data");

#define HARD_SCALE 16
/* Of what a client was due and did not use, it keeps at most this over a sleep. */
#define SLEEPERS_CREDIT_QUANTA 4
/* A client's due is brought up to date when somebody's activity changed since, and when so much was
 * given: until then its value is the same, and it is due that part of what was given. */
#define ADVANCE_NS 500000000ULL
#define RATE_NS 200000000ULL
/* Who was away for so many such times has no rate. */
#define RATE_STALE 4

/* Where climbing keeps what does not fit on the stack. What runs under the scheduler's locks uses
 * the first, what user space calls the second. */
struct scratch {
	u32 places[PATH_MAX];
	u32 left; /* here and not in a register: the verifier need not follow its values */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct client *client_at(u32 slot)
{
	return &clients[within(slot, SLOTS_MAX)];
}

static __always_inline struct node *node_at(u32 bank, u32 slot)
{
	return &nodes[bank & 1][within(slot, SLOTS_MAX)];
}

static __always_inline struct edge *edge_at(u32 bank, u32 index)
{
	return &edges[bank & 1][within(index, EDGES_MAX)];
}

static __always_inline u32 path_at(u32 bank, u32 index)
{
	return paths[bank & 1][within(index, STEPS_MAX)];
}

/* value · part / whole, rounding down; value ≤ 2^48, part ≤ whole ≤ 2^50. Long division, 16 or 8
 * bits of the value at a time, so that no step leaves 64 bits. */
static __always_inline u64 share(u64 value, u64 part, u64 whole)
{
	u64 rest, quotient;

	/* A sum may be seen without its ticket (rule 2). */
	if (part >= whole)
		return value;
#define STEP(digit, bits)                                                                          \
	do {                                                                                       \
		rest = (rest << (bits)) + (digit) * part;                                          \
		quotient = (quotient << (bits)) + rest / whole;                                    \
		rest %= whole;                                                                     \
	} while (0)
	rest = 0;
	quotient = 0;
	if (whole <= 1ULL << 32) {
		STEP(value >> 32, 16);
		STEP(value >> 16 & 0xffff, 16);
		STEP(value & 0xffff, 16);
		return quotient;
	}
	STEP(value >> 40, 8);
	STEP(value >> 32 & 0xff, 8);
	STEP(value >> 24 & 0xff, 8);
	STEP(value >> 16 & 0xff, 8);
	STEP(value >> 8 & 0xff, 8);
	STEP(value & 0xff, 8);
#undef STEP
	return quotient;
}

/* Hard tickets that share a currency's value now, its soft tickets' part among them. */
static __always_inline u64 competing(const struct node *node)
{
	return node->active_hard + (node->active_soft ? HARD_TOTAL - node->issued_hard : 0);
}

#include "exchanged.h"

/* What one ticket carries of its issuer's value. */
static __always_inline u64 carried(const struct edge *edge, const struct node *issuer, u64 whole,
				   u32 bank)
{
	u64 hard;

	if (edge->kind == TICKET_TRANSFER)
		return whole;
	hard = competing(issuer);
	if (edge->kind == TICKET_HARD)
		return share(whole, edge->amount, hard);
	if (hard)
		whole = share(whole, HARD_TOTAL - issuer->issued_hard, hard);
	if (unlikely(issuer->exchanged))
		whole = net_soft(edge->issuer, bank, whole);
	return share(whole, edge->amount, issuer->active_soft);
}

static __always_inline u64 value_edge(u32 index, u32 bank)
{
	struct edge *edge = edge_at(bank, index);
	struct node *issuer = node_at(bank, edge->issuer);

	if (edge->issuer)
		return carried(edge, issuer, issuer->value, bank);
	if (!has_exchanges(bank))
		return carried(edge, issuer, WHOLE, bank);
	if (edge->kind == TICKET_HARD)
		return units(0, edge->amount, bank, false);
	return units(edge->amount, 0, bank, false);
}

/* A currency's value; those of its issuers are right (rule 3). */
__noinline u64 value_node(u32 slot, u32 bank, u64 stamp)
{
	struct node *node = node_at(bank, slot);
	u64 value = 0;
	u32 index;

	if (node->stamp == stamp)
		return node->value;
	if (node->edges == 1) {
		value = value_edge(node->first_edge, bank);
	} else {
		bpf_for(index, 0, node->edges)
			value += value_edge(node->first_edge + index, bank);
	}
	if (unlikely(node->exchanged))
		value = net_value(slot, bank, value);
	node->value = value;
	node->stamp = stamp;
	return value;
}

/* What a holder was due by one ticket since it looked last. */
static __always_inline u64 due_of_edge(u32 index, u32 bank)
{
	struct edge *edge = edge_at(bank, index);
	struct node *issuer = node_at(bank, edge->issuer);
	u64 clock, scale, moved;

	if (edge->kind == TICKET_SOFT) {
		clock = issuer->soft_clock;
		scale = issuer->scale & 31;
	} else if (edge->kind == TICKET_HARD) {
		clock = issuer->hard_clock;
		scale = HARD_SCALE;
	} else {
		clock = issuer->due_ns;
		scale = 0;
	}
	moved = clock - edge->seen;
	edge->seen = clock;
	return edge->amount * moved >> scale;
}

/* Bring a currency's due and its clocks up to date; its issuers' are (rules 4 and 5). Answers
 * what it was due since the last time, in ns. */
__noinline u64 advance_node(u32 slot, u32 bank)
{
	struct node *node = node_at(bank, slot);
	u64 due_ns = 0, hard, whole, soft;
	u32 index;

	if (__sync_val_compare_and_swap(&node->lock, 0, 1))
		return 0;
	if (!slot) {
		due_ns = service - node->due_ns;
	} else {
		if (node->edges == 1) {
			due_ns = due_of_edge(node->first_edge, bank);
		} else {
			bpf_for(index, 0, node->edges)
				due_ns += due_of_edge(node->first_edge + index, bank);
		}
		if (unlikely(node->exchanged))
			due_ns = net_due(slot, bank, due_ns);
	}
	if (!due_ns)
		goto unlock;
	node->due_ns += due_ns;
	/* No plan is asleep for longer than a product has bits. */
	whole = due_ns < 1ULL << 32 ? due_ns : 1ULL << 32;
	soft = whole;
	hard = node->active_hard ? competing(node) : 0;
	if (hard) {
		u64 moved = (whole << HARD_SCALE) + node->hard_rest;

		node->hard_clock += moved / hard;
		node->hard_rest = moved % hard;
		if (node->active_soft)
			soft = whole * (HARD_TOTAL - node->issued_hard) / hard;
	}
	if (node->active_soft) {
		u64 moved =
			(less(soft, node->soft_charge_ns) << (node->scale & 31)) + node->soft_rest;

		node->soft_clock += moved / node->active_soft;
		node->soft_rest = moved % node->active_soft;
	}
unlock:
	__sync_lock_test_and_set(&node->lock, 0);
	return due_ns;
}

/* Bring what a client was due up to date, along its path. */
__noinline int advance(u32 slot, u32 bank)
{
	struct client *client = client_at(slot);
	struct node *node = node_at(bank, slot);
	u32 index, steps = node->steps;
	u64 due_ns = 0;

	client->advanced = service;
	advance_node(0, bank);
	if (steps > PATH_MAX)
		steps = PATH_MAX;
	if (steps == 2) {
		advance_node(path_at(bank, node->first_step), bank);
		due_ns = advance_node(slot, bank);
	} else {
		bpf_for(index, 0, steps)
			due_ns = advance_node(path_at(bank, node->first_step + index), bank);
	}
	if (node->active)
		__sync_fetch_and_add(&client->due_ns, due_ns);
	return 0;
}

/* The value of a client, and its inverse, brought up to date. */
__noinline u64 revalue(u32 slot, u32 bank)
{
	struct client *client = client_at(slot);
	struct node *node = node_at(bank, slot);
	u32 index, steps = node->steps;
	u64 stamp = activity, value = 0;

	if (node->stamp == stamp)
		return client->value;
	if (steps > PATH_MAX)
		steps = PATH_MAX;
	bpf_for(index, 0, steps)
		value = value_node(path_at(bank, node->first_step + index), bank, stamp);
	client->value = value;
	totals.revalued++;
	return value;
}

/* A client's tickets have become active or inactive (rules 1 and 2). */
__noinline int climb(u32 slot, u32 bank, bool active, u32 scratch_index)
{
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &scratch_index);
	u64 sign = active ? 1 : -1;
	u32 round, index, place;

	if (!scratch)
		return -EINVAL;
	scratch->places[0] = slot;
	scratch->left = 1;
	/* Every currency above a client is put there at most once. */
	bpf_for(round, 0, PATH_MAX + 1) {
		struct node *node;

		if (!scratch->left)
			break;
		scratch->left--;
		place = scratch->places[scratch->left & (PATH_MAX - 1)];
		node = node_at(bank, place);
		if (unlikely(node->exchanged) && !active)
			exchange_climb(place, bank, false);
		bpf_for(index, 0, node->edges) {
			struct edge *edge = edge_at(bank, node->first_edge + index);
			struct node *issuer = node_at(bank, edge->issuer);
			u64 amount = edge->amount * sign;

			/* For the time of its absence it is due nothing. */
			if (edge->kind == TICKET_SOFT) {
				if (active)
					edge->seen = issuer->soft_clock;
				__sync_fetch_and_add(&issuer->active_soft, amount);
			} else if (edge->kind == TICKET_HARD) {
				if (active)
					edge->seen = issuer->hard_clock;
				__sync_fetch_and_add(&issuer->active_hard, amount);
			} else if (active) {
				edge->seen = issuer->due_ns;
			}
			if (__sync_fetch_and_add(&issuer->active_tickets, sign) == !active) {
				scratch->places[scratch->left & (PATH_MAX - 1)] = edge->issuer;
				scratch->left++;
			}
		}
		if (unlikely(node->exchanged) && active)
			exchange_climb(place, bank, true);
	}
	__sync_fetch_and_add(&activity, 1);
	return 0;
}

/* So much was given: virtual time moves on, except for what makes up for a debt that was forgiven.
 * Else all would have been due what the debtor was not charged in the end. */
static __always_inline void give(u64 ns)
{
	u64 debt = forgiven;
	/* Not all at once: virtual time never stands still. */
	u64 back = debt < ns / 2 ? debt : ns / 2;

	if (unlikely(debt) && __sync_val_compare_and_swap(&forgiven, debt, debt - back) == debt)
		ns -= back;
	__sync_fetch_and_add(&service, ns);
}

/* A client owes at most this from now on. */
static __always_inline void forgive(struct client *client, u64 most_ns)
{
	s64 more_ns = client->charged_ns - client->due_ns - most_ns;

	if (more_ns <= 0)
		return;
	__sync_fetch_and_sub(&client->charged_ns, more_ns);
	__sync_fetch_and_add(&forgiven, more_ns);
	__sync_fetch_and_add(&totals.forgiven_ns, more_ns);
}

/* What a client was due and did not use, beyond this, is due to all. */
static __always_inline void lose_beyond(struct client *client, u64 kept_ns)
{
	s64 lost_ns = client->due_ns - client->charged_ns - kept_ns;

	if (control.policy == POLICY_MTR_LS || lost_ns <= 0)
		return;
	give_back(client, lost_ns);
}

/* What a client has been due by now, if its value has not changed since that was computed. */
static __always_inline u64 due_by_now(const struct client *client)
{
	u64 given_ns = service - client->advanced;

	if (given_ns > 1ULL << 32)
		given_ns = 1ULL << 32;
	return client->due_ns + (given_ns * (client->value >> 17) >> 31);
}

static __always_inline void set_rate(struct client *client, u64 rate)
{
	client->rate = rate < VALUE_MIN ? VALUE_MIN : rate;
	client->inverse = (1ULL << 63) / client->rate;
}

/* Rule 6. */
static __noinline int follow_rate(struct client *client, u64 due_ns)
{
	u64 since = client->rate_since, now = service, given_ns = now - since;
	s64 gained_ns;

	if (__sync_val_compare_and_swap(&client->rate_since, since, now) != since)
		return 0;
	gained_ns = due_ns - client->rate_due_ns;
	client->rate_due_ns = due_ns;
	client->rated = given_ns < 1ULL << 50 && gained_ns >= 0;
	set_rate(client, client->rated ? share(WHOLE, gained_ns, given_ns) : client->value);
	return 0;
}

/* What is due from now on has nothing to do with what was due before. */
static __always_inline void restart_rate(struct client *client)
{
	client->rated = 0;
	client->rate_since = service;
	client->rate_due_ns = client->due_ns;
}

/* The same, with its value and its rate brought up to date. */
static __always_inline u64 due_exactly(u32 slot)
{
	struct client *client = client_at(slot);
	u32 bank = control.bank;
	u64 due_ns;

	if (node_at(bank, slot)->stamp != activity || service - client->advanced > ADVANCE_NS) {
		advance(slot, bank);
		revalue(slot, bank);
	}
	due_ns = due_by_now(client);
	if (unlikely(!client->rated))
		set_rate(client, client->value);
	if (service - client->rate_since > RATE_NS * nr_cpus)
		follow_rate(client, due_ns);
	return due_ns;
}

/* Its last runnable member leaves: a client that stays active without one is due no more than what
 * pays for what it was charged. */
static __always_inline u64 due_at_most(const struct client *client)
{
	return later(due_by_now(client), client->charged_ns);
}

/* What it was due beyond that while it slept is due to all. */
static __always_inline void return_due(struct client *client, u64 due_ns)
{
	s64 more_ns = due_ns - client->due_limit_ns;

	if (control.policy == POLICY_MTR_LS || more_ns <= 0)
		return;
	give_back(client, more_ns);
}

/* A client's first member became runnable before its tickets became inactive. */
static __always_inline void return_from_sleep(struct client *client)
{
	return_due(client, due_by_now(client));
}

/* Make a client's tickets active or not; once, however many try. */
static __always_inline void set_active(u32 slot, bool active, u32 scratch_index)
{
	u32 bank = control.bank;
	struct node *node = node_at(bank, slot);

	if (node->active == active)
		return;
	advance(slot, bank);
	if (__sync_val_compare_and_swap(&node->active, !active, active) != !active)
		return;
	climb(slot, bank, active, scratch_index);
	if (active) {
		u64 away_ns = service - client_at(slot)->left_service;

		if (away_ns > RATE_STALE * RATE_NS * nr_cpus)
			restart_rate(client_at(slot));
		else
			__sync_fetch_and_add(&client_at(slot)->rate_since, away_ns);
		return;
	}
	client_at(slot)->left_service = service;
	if (!client_at(slot)->runnable)
		return_due(client_at(slot), client_at(slot)->due_ns);
	/* Nobody sleeps on what others did not have in time. */
	if (control.policy == POLICY_STRIDE)
		lose_beyond(client_at(slot), SLEEPERS_CREDIT_QUANTA * control.quantum_ns);
	/* Who leaves owing something (main.bpf.c, rule 4, lets few) would leave the others with
	 * more due than there is. */
	forgive(client_at(slot), 0);
}

#endif
