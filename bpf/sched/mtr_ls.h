/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MTR-LS, move to rear list scheduling (Bruno, Gabber, Özden & Silberschatz 1998; paper 2's CPU
 * scheduler).
 *
 * 1. All clients stand in a list, those that are blocked too; a new one stands at the rear.
 * 2. `left` of a client starts at its part of a round, α·T, where α is its part of one CPU: its
 *    value times the number of CPUs, at most one.
 * 3. The first client in the list that is runnable runs, and when one nearer the front wakes it
 *    is preempted.
 * 4. What it uses is taken from `left`. When nothing is left, α·T is added and the client moves
 *    to the rear. (What it used too much is taken from the next, so that late ticks cost nobody
 *    else anything.)
 * 5. Who blocks keeps place and quota.
 * 6. Values here depend on who is active (the paper's α is fixed). So that a client that sleeps
 *    briefly does not give its part of the round away, it counts as active for one round T after
 *    it went to sleep.
 *
 * Keys are places in the list: numbers that grow by PLACE with each move to the rear.
 * Property: what a client gets in any time for which it stays runnable is at least α times that
 * time, less a constant of about one round.
 */
#ifndef ALLOT_MTR_LS_H
#define ALLOT_MTR_LS_H

#define PLACE (1ULL << 20)

/* The place at the rear of the list. */
u64 rear SEC(".data") = PLACE;

static __always_inline u64 mtr_ls_quota(struct client *client)
{
	u64 part = client->value * nr_cpus;

	return (control.round_ns >> 8) * ((part > WHOLE ? WHOLE : part) >> 32) >> 8;
}

static __always_inline void mtr_ls_to_rear(struct client *client)
{
	client->position = __sync_fetch_and_add(&rear, PLACE);
	client->left_ns += mtr_ls_quota(client);
}

static __always_inline void mtr_ls_join(struct client *client)
{
	if (!client->position)
		mtr_ls_to_rear(client);
}

static __always_inline void mtr_ls_charge(struct client *client, u64 used_ns)
{
	client->left_ns -= used_ns;
	if ((s64)client->left_ns <= 0)
		mtr_ls_to_rear(client);
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
