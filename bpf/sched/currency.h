/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The currency graph: who competes, and what their tickets are worth (paper 1, 2.1, 3.3, 5.3).
 *
 * 1. A client is active while a member is runnable, and after that until it has been paid for
 *    (main.bpf.c, rule 4). A currency is active while a ticket that it issued is. Only what
 *    turns active or inactive is climbed: an activation changes each issuer's sums on the way up
 *    and stops at the first that was active already.
 * 2. No lock: the sums are counted with atomic additions, which commute. Who takes a count from
 *    none to one carries it further up, who takes it from one to none takes it down again; in
 *    between, a reader may see a sum without its ticket, and must bear it.
 * 3. A client's value is computed when it is asked for, from its recipe (abi.h), with the same
 *    divisions as valuation::Graph, each rounding down: where nothing changes meanwhile both get
 *    the same number. It is remembered until somebody's activity changes.
 */
#ifndef ALLOT_CURRENCY_H
#define ALLOT_CURRENCY_H

struct node nodes[2][SLOTS_MAX] SEC(".bss.nodes");
struct edge edges[2][EDGES_MAX] SEC(".bss.edges");
struct client clients[SLOTS_MAX] SEC(".bss.clients");

/* Grows when anybody's activity changes, or the plan. Never 0, which a new client's stamp is. */
u64 activity SEC(".data") = 1;

/* Where a program keeps what does not fit on its stack. What runs under the scheduler's locks
 * uses the first, what user space calls the second. */
struct scratch {
	u64 values[LOCALS_MAX];
	u32 places[LOCALS_MAX];
	u32 left; /* here and not in a register: the verifier need not follow its values */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch_of(u32 which)
{
	return bpf_map_lookup_elem(&scratches, &which);
}

static __always_inline struct client *client_at(u32 slot)
{
	return &clients[slot & (SLOTS_MAX - 1)];
}

static __always_inline struct node *node_at(u32 bank, u32 slot)
{
	return &nodes[bank & 1][slot & (SLOTS_MAX - 1)];
}

static __always_inline struct edge *edge_at(u32 bank, u32 index)
{
	return &edges[bank & 1][index & (EDGES_MAX - 1)];
}

/* value · part / whole, rounding down; value ≤ 2^48, part ≤ whole ≤ 2^50. Long division, 16 or 8
 * bits of the value at a time, so that no step leaves 64 bits. */
static __always_inline u64 share(u64 value, u64 part, u64 whole)
{
	u64 rest, quotient;

	/* A sum may be seen without its ticket (rule 2). */
	if (part >= whole)
		return value;
#define STEP(digit, bits)                                  \
	do {                                               \
		rest = (rest << (bits)) + (digit) * part;  \
		quotient = (quotient << (bits)) + rest / whole; \
		rest %= whole;                             \
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

/* What one edge carries of its issuer's value. */
static __always_inline u64 carried(u64 whole, const struct edge *edge, const struct node *issuer)
{
	u64 soft = issuer->active_soft;
	u64 subcurrency, competing;

	if (edge->kind == TICKET_TRANSFER)
		return whole;
	subcurrency = HARD_TOTAL - issuer->issued_hard;
	competing = issuer->active_hard + (soft ? subcurrency : 0);
	if (edge->kind == TICKET_HARD)
		return share(whole, edge->amount, competing);
	if (competing)
		whole = share(whole, subcurrency, competing);
	return share(whole, edge->amount, soft);
}

struct valuing {
	u64 *values;
	u32 bank;
	u32 first;
};

static long value_step(u32 index, struct valuing *valuing)
{
	struct edge *edge = edge_at(valuing->bank, valuing->first + index);
	struct node *issuer = node_at(valuing->bank, edge->issuer);
	u64 *values = valuing->values;
	u64 value = carried(values[edge->from & (LOCALS_MAX - 1)], edge, issuer);
	u64 *to = &values[edge->to & (LOCALS_MAX - 1)];

	*to = edge->first ? value : *to + value;
	return 0;
}

/* What an active client's tickets are worth (rule 3). */
static __noinline u64 compute_value(u32 slot, u32 bank, u32 scratch_index)
{
	struct scratch *scratch = scratch_of(scratch_index);
	struct node *node = node_at(bank, slot);
	u32 index, steps = node->steps;
	struct valuing valuing;

	if (!scratch || !steps)
		return 0;
	if (steps > STEPS_MAX)
		steps = STEPS_MAX;
	scratch->values[0] = WHOLE;
	valuing.values = scratch->values;
	valuing.bank = bank;
	valuing.first = node->first_step;
	bpf_for(index, 0, steps)
		value_step(index, &valuing);
	return scratch->values[LOCALS_MAX - 1];
}

/* The value of a client, and what it is charged for a nanosecond, brought up to date. */
static __always_inline void revalue(struct client *client, u32 slot)
{
	u64 stamp = activity;
	u64 value;

	if (client->stamp == stamp)
		return;
	value = compute_value(slot, control.bank, 0);
	client->value = value;
	client->inverse = (1ULL << 63) / (value < VALUE_MIN ? VALUE_MIN : value);
	client->stamp = stamp;
	totals.revalued++;
}

/* A client's tickets have become active or inactive (rules 1 and 2). */
static __noinline int climb(u32 slot, u32 bank, bool active, u32 scratch_index)
{
	struct scratch *scratch = scratch_of(scratch_index);
	u64 sign = active ? 1 : -1;
	u32 round, index;

	if (!scratch)
		return -EINVAL;
	scratch->places[0] = slot;
	scratch->left = 1;
	/* Every currency above a client is put there at most once: LOCALS_MAX of them. */
	bpf_for(round, 0, LOCALS_MAX) {
		struct node *node;
		u32 edges_left;

		if (!scratch->left)
			break;
		scratch->left--;
		node = node_at(bank, scratch->places[scratch->left & (LOCALS_MAX - 1)]);
		edges_left = node->edges;
		bpf_for(index, 0, edges_left) {
			struct edge *edge = edge_at(bank, node->first_edge + index);
			struct node *issuer = node_at(bank, edge->issuer);
			u64 amount = edge->amount * sign;

			if (edge->kind == TICKET_SOFT)
				__sync_fetch_and_add(&issuer->active_soft, amount);
			else if (edge->kind == TICKET_HARD)
				__sync_fetch_and_add(&issuer->active_hard, amount);
			if (__sync_fetch_and_add(&issuer->active_tickets, sign) == !active) {
				scratch->places[scratch->left & (LOCALS_MAX - 1)] = edge->issuer;
				scratch->left++;
			}
		}
	}
	__sync_fetch_and_add(&activity, 1);
	return 0;
}

/* Make a client's tickets active or not; once, however many try. */
static __always_inline void set_active(u32 slot, bool active, u32 scratch_index)
{
	u32 bank = control.bank;
	struct node *node = node_at(bank, slot);

	if (node->active == active)
		return;
	if (__sync_val_compare_and_swap(&node->active, !active, active) == !active)
		climb(slot, bank, active, scratch_index);
}

#endif
