/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stride scheduling (Waldspurger & Weihl 1995) on the virtual time of start-time fair queueing
 * (Goyal, Vin & Cheng 1996), with what is due counted exactly (currency.h, rule 4).
 *
 * 1. Virtual time is the service that was given to all. A client is due its value's part of it
 *    while it is active, and charged what it uses; what it *owes* is the difference.
 * 2. Its *pass* is the virtual time at which it will have been due all that it was charged, if its
 *    rate stays: virtual time + owes · WHOLE / rate. (1995, figure 2: each quantum moves the pass
 *    by stride · used / quantum. There a change of tickets scales what is left; here it is counted
 *    from what was really due, so a value that changes a thousand times a second bends nothing.)
 *    Its *rate* is what it was due on average lately (currency.h, rule 6).
 * 3. The thread with the least key is served; a client's first thread has its pass as key, a
 *    second one comes one turn of the client later, and so on.
 * 4. What is owed stays owed over a sleep, and what was not used is lost (main.bpf.c, rule 4).
 * 5. A client that is due more than CPUs can give it falls behind for ever (Chandra et al. 2000
 *    cap its weight). What it lags by more than LAG_QUANTA and what is lawful it loses, and
 *    that is due to all instead, in proportion: virtual time moves on by it. So the others keep
 *    their ratios, and share what it cannot have. Lawful: each of those that wait may have run
 *    ahead by a quantum, so that who is served next lags by its part of all these quanta. And on a
 *    machine that is itself a guest a turn may last for as long as the host took the CPU away:
 *    who waits then lags by its part of that, and must have it back.
 *
 * Property: two clients that stay runnable differ by at most two quanta in what they got for
 * their values (policy::stride).
 */
#ifndef ALLOT_STRIDE_H
#define ALLOT_STRIDE_H

#define LAG_QUANTA 64
/* More of a client before a thread count as so many. */
#define AHEAD_MAX 32768

/* How much later a thread comes that has so many of its client before it. */
static __always_inline u64 stride_span(const struct client *client, u64 ahead)
{
	return (ahead > AHEAD_MAX ? AHEAD_MAX : ahead) * virtual_ns(turn_ns(), client->inverse);
}

static __always_inline u64 stride_key(struct client *client, u64 due_ns, u64 ahead, u64 now)
{
	s64 owed_ns = client->charged_ns - due_ns;
	u64 lawful_ns = control.quantum_ns * waiting() * (client->rate >> 32) >> 16;
	s64 least_ns = -(s64)(LAG_QUANTA * control.quantum_ns + lawful_ns);
	u64 key;

	if (owed_ns < least_ns) {
		u64 lost_ns = least_ns - owed_ns;

		give_back(client, lost_ns);
		owed_ns = least_ns;
	}
	if (owed_ns < 0)
		key = now - virtual_ns(-owed_ns, client->inverse);
	else
		key = now + virtual_ns(owed_ns, client->inverse);
	if (ahead)
		key += stride_span(client, ahead);
	return key;
}

static __always_inline u64 stride_charge(struct client *client, u64 used_ns)
{
	__sync_fetch_and_add(&client->charged_ns, used_ns);
	return used_ns;
}

static __always_inline bool stride_settled(struct client *client)
{
	return (s64)(client->charged_ns - client->due_ns) <= 0;
}

#endif
