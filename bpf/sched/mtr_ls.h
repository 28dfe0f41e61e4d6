/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MTR-LS, move to rear list scheduling (Bruno, Gabber, Özden & Silberschatz 1998; paper 2's CPU
 * scheduler).
 *
 * 1. All clients stand in a list, those that are blocked too; a new one stands at the rear.
 * 2. `left` of a client starts at its part of a round, α·T, where α is its part of one CPU: its
 *    rate times the number of CPUs.
 * 3. The first client in the list that is runnable runs, and when one nearer the front wakes it
 *    is preempted.
 * 4. What it uses is taken from `left`. When nothing is left, α·T is added and the client moves
 *    to the rear.
 * 5. Who blocks keeps place and quota.
 * 6. Values here depend on who is active (the paper's α is fixed). So that a client that sleeps
 *    briefly does not give its part of the round away, it counts as active for one round T after
 *    it went to sleep. And α is a client's rate, not its value of the moment: who is charged
 *    because somebody woke would always be charged by what it is worth beside that one.
 * 7. Places are virtual times (ours): a round has passed when T was given by every CPU. A new
 *    client's place is one round from now; who moves to the rear, one round from where it stood,
 *    but that counts as at most a round before or after now (who runs far before its place had
 *    nobody else there). When all are busy this is the order of the list, for everybody moves
 *    once in a round. On several CPUs it is not: those with small quotas would move while one with
 *    a great quota runs, and be served a second time before that one is.
 * 8. Ticks (ours). A quota shorter than a tick is overrun each time. What was used too much is
 *    paid by missing rounds, as many as it takes, at most MTR_LS_SKIPS_MAX. A round missed is
 *    as long as the client's last one: shorter than T where others do not use theirs.
 *
 * Keys are places. Property: what a client gets in any time for which it stays runnable is at
 * least α times that time, less a constant of about one round.
 */
#ifndef ALLOT_MTR_LS_H
#define ALLOT_MTR_LS_H

#define MTR_LS_QUOTA (1ULL << 24) /* a whole one, in its parts */
#define MTR_LS_SKIPS_MAX 16

/* Virtual time of a round. */
static __always_inline u64 mtr_ls_round(void)
{
	return control.round_ns * nr_cpus;
}

/* Nanoseconds, at least one. Rates are of 48 bits, a round is below 2^30 ns. */
static __always_inline u64 mtr_ls_quota_ns(struct client *client)
{
	return (control.round_ns * (client->rate >> 16) >> 32) * nr_cpus + 1;
}

static __always_inline void mtr_ls_join(struct client *client)
{
	if (client->position)
		return;
	client->position = service + mtr_ls_round();
	client->left = MTR_LS_QUOTA;
}

/* How long a round was when the client moved the last time. */
static __always_inline u64 mtr_ls_last_round(const struct client *client, u64 round)
{
	u64 last = (service - client->moved_at) / (1 + client->skips);

	return last < round ? last : round;
}

static __always_inline u64 mtr_ls_charge(struct client *client, u64 used_ns)
{
	u64 round = mtr_ls_round(), used, debt, skips;
	s64 left;

	if (used_ns > 1ULL << 32)
		used_ns = 1ULL << 32;
	/* Nothing is owed by this policy: one that follows it begins anew. */
	client->charged_ns = client->due_ns;
	if (!client->next_place) {
		u64 place = later(client->position, service - round);

		if (before(service + round, place))
			place = service + round;
		client->next_place = place + round;
	}
	/* Values change while a quota is used: each use counts by the quota that there was. */
	used = used_ns * MTR_LS_QUOTA / mtr_ls_quota_ns(client);
	left = __sync_fetch_and_add(&client->left, -used) - used;
	if (left > 0)
		return used_ns;
	debt = -left;
	skips = debt / MTR_LS_QUOTA;
	client->left = MTR_LS_QUOTA - debt % MTR_LS_QUOTA;
	if (skips > MTR_LS_SKIPS_MAX) {
		skips = MTR_LS_SKIPS_MAX;
		client->left = MTR_LS_QUOTA;
	}
	client->position = client->next_place + skips * mtr_ls_last_round(client, round);
	client->next_place = 0;
	client->moved_at = service;
	client->skips = skips;
	return used_ns;
}

static __always_inline u64 mtr_ls_slice(struct client *client, u64 slice)
{
	u64 left_ns = client->left * mtr_ls_quota_ns(client) / MTR_LS_QUOTA;

	if (left_ns < SLICE_MIN_NS)
		left_ns = SLICE_MIN_NS;
	return left_ns < slice ? left_ns : slice;
}

static __always_inline bool mtr_ls_settled(struct client *client, u64 now_ns)
{
	return now_ns - client->left_at_ns > control.round_ns;
}

#endif
