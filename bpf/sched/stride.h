/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stride scheduling (Waldspurger & Weihl 1995) on keys, as start-time fair queueing (Goyal, Vin &
 * Cheng 1996) has it for work of unequal length.
 *
 * 1. A client's *pass* is the virtual time up to which it has been charged. What it uses moves it
 *    by used · WHOLE / value (1995, figure 2: stride · used / quantum).
 * 2. The thread with the least key is served; a client's first thread has its pass as key, a
 *    second one comes one quantum of the client later, and so on.
 * 3. Virtual time is the greatest key that was served.
 * 4. Who wakes starts at max(pass, virtual time): sleeping earns nothing, and what is owed stays
 *    owed. (1995, 2.3, keeps pass minus virtual time over a sleep. Here a client goes on counting
 *    as active until virtual time has reached its pass, so a debt is paid while it sleeps, at the
 *    expense of nobody: see main.bpf.c, rule 4.)
 * 5. A client may lag behind virtual time by STRIDE_LAG_QUANTA of its own quanta: one that is due
 *    more than a CPU can give it falls behind for ever, and must not save that up (Chandra et al.
 *    2000 cap its weight; here it is forgotten what it could not get).
 *
 * Property: two clients that stay runnable differ by at most two quanta in what they got for
 * their values (policy::stride).
 */
#ifndef ALLOT_STRIDE_H
#define ALLOT_STRIDE_H

#define STRIDE_LAG_QUANTA 4

static __always_inline void stride_join(struct client *client, u64 now)
{
	client->pass = later(client->pass, now);
}

static __always_inline u64 stride_key(struct client *client, u64 ahead, u64 now, u64 lag_quanta)
{
	u64 quantum = virtual_ns(control.quantum_ns, client->inverse);
	u64 least = now - lag_quanta * quantum;

	if (before(client->pass, least))
		client->pass = least;
	return client->pass + (ahead > 1024 ? 1024 : ahead) * quantum;
}

static __always_inline void stride_charge(struct client *client, u64 used_ns)
{
	__sync_fetch_and_add(&client->pass, virtual_ns(used_ns, client->inverse));
}

static __always_inline bool stride_settled(struct client *client, u64 now)
{
	return !before(now, client->pass);
}

#endif
