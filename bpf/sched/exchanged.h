/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What exchanges add to and take from values (paper 1, 4.3), as valuation::Graph has it in its
 * rules 8 to 10.
 *
 * 1. A *giver* is a currency that gives base's tickets of one kind. Its way is itself and whoever
 *    issued its main ticket, and so on up to base. It is charged at the first of these that is
 *    active; base's active tickets count what is received by who is active, less what is charged.
 * 2. Where everybody is charged follows from who is active. It is reckoned anew for every giver
 *    below a currency that turns active or inactive, by one CPU at a time: nothing is added up, so
 *    that it cannot go astray. Who does not get its turn soon leaves a note for the next, who looks
 *    at all.
 * 3. A charge counts from when it was placed: its place's due is up to date then, since whoever
 *    makes somebody active or inactive advances the whole path first (currency.h, rule 4).
 */
#ifndef ALLOT_EXCHANGED_H
#define ALLOT_EXCHANGED_H

struct giver givers[2][GIVERS_MAX] SEC(".bss.givers");
/* One CPU at a time places charges (rule 2). */
static u32 placing SEC(".data");
static u32 unplaced SEC(".data");

#define PLACING_TRIES 64

static __always_inline struct giver *giver_at(u32 bank, u32 index)
{
	return &givers[bank & 1][within(index, GIVERS_MAX)];
}

/* Whether the plan has any exchanges. */
static __always_inline bool has_exchanges(u32 bank)
{
	return unlikely(nodes[bank & 1][0].givers);
}

static __always_inline bool is_active(const struct node *node)
{
	return node->active || node->active_tickets;
}

/* A step of a giver's way. */
static __always_inline u32 step_of(const struct giver *giver, u32 index, u32 bank)
{
	return path_at(bank, giver->first_step + index);
}

/* Count a charge at a place, or where it is no longer as `amount` negative. */
static __always_inline void charge_at(const struct giver *giver, u32 place, u64 amount, u32 bank)
{
	u32 hard = giver->kind == TICKET_HARD;
	struct node *node;
	u32 step;

	if (place >= giver->steps) {
		/* Not charged to anybody: base's tickets are not fewer by it. */
		node = node_at(bank, 0);
		if (hard)
			__sync_fetch_and_add(&node->active_hard, amount);
		else
			__sync_fetch_and_add(&node->active_soft, amount);
		return;
	}
	step = step_of(giver, place, bank);
	node = node_at(bank, step & ~STEP_SOFT);
	if (step & STEP_SOFT) {
		if (hard)
			__sync_fetch_and_add(&node->charged_soft_hard, amount);
		else
			__sync_fetch_and_add(&node->charged_soft_soft, amount);
	} else if (hard) {
		__sync_fetch_and_add(&node->charged_hard, amount);
	} else {
		__sync_fetch_and_add(&node->charged_soft, amount);
	}
}

__noinline int place_charge(u32 index, u32 bank)
{
	struct giver *giver = giver_at(bank, index);
	u32 step, place = giver->steps, before = giver->place;

	bpf_for(step, 0, giver->steps) {
		if (is_active(node_at(bank, step_of(giver, step, bank) & ~STEP_SOFT))) {
			place = step;
			break;
		}
	}
	if (place == before)
		return 0;
	charge_at(giver, before, -giver->amount, bank);
	charge_at(giver, place, giver->amount, bank);
	giver->place = place;
	return 0;
}

/* Of every giver below a currency; of all where that is base, or somebody did not get its turn. */
__noinline int place_charges(u32 slot, u32 bank)
{
	struct node *node = node_at(bank, slot);
	u32 index;

	bpf_for(index, 0, PLACING_TRIES) {
		if (!__sync_val_compare_and_swap(&placing, 0, 1))
			goto mine;
	}
	unplaced = 1;
	return 0;
mine:
	if (__sync_lock_test_and_set(&unplaced, 0) || !slot) {
		bpf_for(index, 0, node_at(bank, 0)->givers)
			place_charge(index, bank);
	} else {
		bpf_for(index, 0, node->givers)
			place_charge(path_at(bank, node->first_giver + index), bank);
	}
	__sync_lock_test_and_set(&placing, 0);
	return 0;
}

/* A currency's exchanged tickets become active or not. Its own tickets are counted meanwhile: they
 * cover what it gives, so base's sums are never negative. */
__noinline int exchange_climb(u32 slot, u32 bank, u32 active)
{
	struct node *node = node_at(bank, slot), *base = node_at(bank, 0);
	u64 sign = active ? 1 : -1;

	if (active) {
		node->seen_soft = base->soft_clock;
		node->seen_hard = base->hard_clock;
	}
	if (node->received_soft)
		__sync_fetch_and_add(&base->active_soft, node->received_soft * sign);
	if (node->received_hard)
		__sync_fetch_and_add(&base->active_hard, node->received_hard * sign);
	if (node->givers)
		place_charges(slot, bank);
	return 0;
}

/* value · part / whole, rounding down or up; value ≤ 2^56, part ≤ 2^50, whole ≤ 2^50. A part may be
 * more than the whole: of base's tickets, what its holders have is more than what is left active by
 * what they give. */
__noinline u64 share_of_base(u64 value, u64 part, u64 whole, u32 up)
{
	u64 rest = 0, quotient = 0, times;

	if (!whole)
		return 0;
	times = part / whole;
	part %= whole;
#define STEP(shift)                                                                                \
	do {                                                                                       \
		rest = (rest << 8) + (value >> (shift) & 0xff) * part;                             \
		quotient = (quotient << 8) + rest / whole;                                         \
		rest %= whole;                                                                     \
	} while (0)
	STEP(48);
	STEP(40);
	STEP(32);
	STEP(24);
	STEP(16);
	STEP(8);
	STEP(0);
#undef STEP
	return value * times + quotient + (up && rest);
}

/* What base's tickets are worth now. */
__noinline u64 units(u64 soft, u64 hard, u32 bank, u32 up)
{
	const struct node *base = node_at(bank, 0);
	u64 all = competing(base), pool = WHOLE, value = 0;

	if (hard)
		value += share_of_base(WHOLE, hard, all, up);
	if (soft) {
		if (all)
			pool = share_of_base(WHOLE, HARD_TOTAL - base->issued_hard, all, up);
		value += share_of_base(pool, soft, base->active_soft, up);
	}
	return value;
}

/* Whether a currency's soft tickets compete as one with its hard ones. */
static __always_inline bool soft_is_apart(const struct node *node)
{
	return node->issued_hard && node->active_soft;
}

static __always_inline u64 less(u64 value, u64 charge)
{
	return value > charge ? value - charge : 0;
}

/* A currency's value with what was received and what is charged. */
__noinline u64 net_value(u32 slot, u32 bank, u64 value)
{
	const struct node *node = node_at(bank, slot);
	u64 soft = node->charged_soft, hard = node->charged_hard;

	if (!soft_is_apart(node)) {
		soft += node->charged_soft_soft;
		hard += node->charged_soft_hard;
	}
	return less(value + units(node->received_soft, node->received_hard, bank, false),
		    units(soft, hard, bank, true));
}

/* What is left of the value of a currency's soft tickets when it is charged what sank there. */
__noinline u64 net_soft(u32 slot, u32 bank, u64 value)
{
	const struct node *node = node_at(bank, slot);

	if (!soft_is_apart(node))
		return value;
	return less(value, units(node->charged_soft_soft, node->charged_soft_hard, bank, true));
}

/* What base's tickets were due since a currency looked last. */
struct moved {
	u64 soft, hard;
	u32 scale;
};

static __always_inline u64 due_of(const struct moved *moved, u64 soft, u64 hard)
{
	return (soft * moved->soft >> (moved->scale & 31)) + (hard * moved->hard >> HARD_SCALE);
}

/* What its exchanged tickets were due to a currency since it looked last, and what it was charged;
 * of that, what is taken from its soft tickets alone stands in `soft_charge_ns`. */
__noinline u64 net_due(u32 slot, u32 bank, u64 due_ns)
{
	struct node *node = node_at(bank, slot);
	const struct node *base = node_at(bank, 0);
	struct moved moved = {
		.soft = base->soft_clock - node->seen_soft,
		.hard = base->hard_clock - node->seen_hard,
		.scale = base->scale,
	};
	u64 charge = due_of(&moved, node->charged_soft, node->charged_hard);
	u64 sunk = due_of(&moved, node->charged_soft_soft, node->charged_soft_hard);

	node->seen_soft += moved.soft;
	node->seen_hard += moved.hard;
	due_ns += due_of(&moved, node->received_soft, node->received_hard);
	node->soft_charge_ns = soft_is_apart(node) ? sunk : 0;
	if (!node->soft_charge_ns)
		charge += sunk;
	return less(due_ns, charge);
}

#endif
