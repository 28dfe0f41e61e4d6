/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MTR-LS, move to rear list scheduling (Bruno, Gabber, Özden & Silberschatz 1998; paper 2's CPU
 * scheduler).
 *
 * 1. All clients stand in a list, those that are blocked too; a new one stands at the rear.
 * 2. `left` of a client starts at its part of a round, α·T, where α is its part of one CPU: its
 *    value times the number of CPUs.
 * 3. The first client in the list that is runnable runs, and when one nearer the front wakes it
 *    is preempted.
 * 4. What it uses is taken from `left`. When nothing is left, α·T is added and the client moves
 *    to the rear.
 * 5. Who blocks keeps place and quota.
 * 6. Values here depend on who is active (the paper's α is fixed). So that a client that sleeps
 *    briefly does not give its part of the round away, it counts as active for one round T after
 *    it went to sleep.
 * 7. Several CPUs (ours). The rear is where it was when the client began its quota. On one CPU
 *    that is the same, for nobody moves while it runs. On several, those with small quotas move
 *    while one with a great quota runs, and would be served a second time before that one is
 *    served again: it would get less than its part.
 * 8. Ticks (ours). A quota shorter than a tick is overrun each time. What was used too much is
 *    paid by missing rounds, as many as it takes, at most SKIPS_MAX; a round is as many places as
 *    there were between this quota's place and the next.
 *
 * Keys are places in the list: numbers that grow by PLACE with each client that gets one.
 * Property: what a client gets in any time for which it stays runnable is at least α times that
 * time, less a constant of about one round.
 */
#ifndef ALLOT_MTR_LS_H
#define ALLOT_MTR_LS_H

#define PLACE (1ULL << 20)
#define SKIPS_MAX 16

/* The place at the rear of the list. */
u64 rear SEC(".data") = PLACE;

/* Nanoseconds of a round, at least one. Values are of 48 bits, a round is below 2^30 ns. */
static __always_inline u64 mtr_ls_quota(struct client *client)
{
	return (control.round_ns * (client->value >> 16) >> 32) * nr_cpus + 1;
}

static __always_inline void mtr_ls_join(struct client *client)
{
	if (client->position)
		return;
	client->position = __sync_fetch_and_add(&rear, PLACE);
	client->left_ns = mtr_ls_quota(client);
}

static __always_inline u64 mtr_ls_charge(struct client *client, u64 used_ns)
{
	u64 quota, skips, debt;
	s64 left;

	/* What is due is counted for all policies. */
	__sync_fetch_and_add(&client->charged_ns, used_ns);
	if (!client->next_place) {
		/* Who runs though its place is yet to come had nobody before it. */
		if (!before(client->position, rear))
			rear = client->position + PLACE;
		client->next_place = __sync_fetch_and_add(&rear, PLACE);
	}
	left = __sync_fetch_and_add(&client->left_ns, -used_ns) - used_ns;
	if (left > 0)
		return used_ns;
	quota = mtr_ls_quota(client);
	debt = -left;
	skips = debt / quota;
	client->left_ns = quota - debt % quota;
	if (skips > SKIPS_MAX) {
		skips = SKIPS_MAX;
		client->left_ns = quota;
	}
	client->position = client->next_place + skips * (client->next_place - client->position);
	client->next_place = 0;
	return used_ns;
}

static __always_inline u64 mtr_ls_slice(struct client *client, u64 slice)
{
	s64 left = client->left_ns;

	if (left < (s64)SLICE_MIN_NS)
		left = SLICE_MIN_NS;
	return (u64)left < slice ? (u64)left : slice;
}

static __always_inline bool mtr_ls_settled(struct client *client, u64 now_ns)
{
	return now_ns - client->left_at_ns > control.round_ns;
}

#endif
