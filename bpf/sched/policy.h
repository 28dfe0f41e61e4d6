/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a policy is. Threads wait in order of a *key* and the least is served; the policies differ
 * in how a client's keys move. Each is a file of its own, with the same five functions, and has a
 * twin in the policy crate that gives the same numbers for the same calls.
 *
 *   join    a client's first member became runnable
 *   key     where a thread is queued that has `ahead` other members of its client before it
 *   charge  the client used so many nanoseconds; answers what that costs
 *   slice   how long its thread may run
 *   settled whether a client that left owes nothing for what it used
 *
 * Keys are numbers that may wrap around; `before` compares them.
 */
#ifndef ALLOT_POLICY_H
#define ALLOT_POLICY_H

/* A slice is at least this, however many wait. */
#define SLICE_MIN_NS 500000ULL

/* About how many threads wait. */
static __always_inline u64 waiting(void)
{
	u32 domain = cpu_domain[bpf_get_smp_processor_id() & (CPUS_MAX - 1)];

	return (u64)domains[domain & (DOMAINS_MAX - 1)].queued * nr_domains;
}

/* How long a turn takes here: a quantum, or longer where a tick or the machine's own host decides.
 */
static __always_inline u64 turn_ns(void)
{
	u32 domain = cpu_domain[bpf_get_smp_processor_id() & (CPUS_MAX - 1)];
	u64 lately_ns = domains[domain & (DOMAINS_MAX - 1)].turn_ns;

	return lately_ns > control.quantum_ns ? lately_ns : control.quantum_ns;
}

/* Virtual nanoseconds of so much CPU time at a value with this inverse (at most 2^39). */
static __always_inline u64 virtual_ns(u64 ns, u64 inverse)
{
	if (ns > 1ULL << 24) {
		if (ns > 1ULL << 32)
			ns = 1ULL << 32;
		return (ns >> 8) * inverse >> (INVERSE_SHIFT - 8);
	}
	return ns * inverse >> INVERSE_SHIFT;
}

/* What a client was due and cannot have, or did not use, is due to all; to nobody where there is
 * nobody else, for then it would be due to itself, again and again. */
static __always_inline void give_back(struct client *client, u64 ns)
{
	__sync_fetch_and_sub(&client->due_ns, ns);
	__sync_fetch_and_add(&client->given_back_ns, ns);
	__sync_fetch_and_sub(&client->rate_due_ns, ns);
	if (client->value < WHOLE - (WHOLE >> 10))
		__sync_fetch_and_add(&service, ns);
}

#endif
