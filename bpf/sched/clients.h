/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Clients and their threads: who competes, who lingers, which key a thread gets and what its run
 * costs. main.bpf.c calls these from the kernel's callbacks.
 */
#ifndef ALLOT_CLIENTS_H
#define ALLOT_CLIENTS_H

/* The policies. */

static __always_inline void policy_join(struct client *client)
{
	if (control.policy == POLICY_MTR_LS)
		mtr_ls_join(client);
}

static __always_inline u64 policy_key(struct client *client, u64 due_ns, u64 ahead, u64 now)
{
	if (control.policy == POLICY_MTR_LS)
		return client->position;
	return stride_key(client, due_ns, ahead, now);
}

static __always_inline u64 policy_charge(struct client *client, u64 used_ns, u64 drawn)
{
	switch (control.policy) {
	case POLICY_MTR_LS:
		return mtr_ls_charge(client, used_ns);
	case POLICY_STRIDE:
		return stride_charge(client, used_ns);
	default:
		return lottery_charge(client, used_ns, drawn);
	}
}

static __always_inline bool policy_settled(struct client *client, u64 at_ns)
{
	if (control.policy == POLICY_MTR_LS)
		return mtr_ls_settled(client, at_ns);
	return stride_settled(client);
}

static __always_inline u64 slice_of(struct client *client, struct domain_state *domain)
{
	u64 slice = control.quantum_ns;
	u32 crowd = domain->queued / (nr_cpus ? nr_cpus : 1);

	if (crowd > CROWD) {
		slice = slice * CROWD / crowd;
		if (slice < SLICE_MIN_NS)
			slice = SLICE_MIN_NS;
	}
	if (control.policy == POLICY_MTR_LS)
		slice = mtr_ls_slice(client, slice);
	return slice;
}

/* Clients. */

static __always_inline bool competes(u32 slot)
{
	return !(node_at(control.bank, slot)->flags & (CLIENT_GUEST | CLIENT_FROZEN | CLIENT_LENT));
}

static __always_inline void member_runnable(u32 slot)
{
	struct client *client = client_at(slot);

	__sync_fetch_and_add(&client->wakes, 1);
	if (__sync_fetch_and_add(&client->runnable, 1))
		return;
	if (node_at(control.bank, slot)->active)
		return_from_sleep(client);
	else if (competes(slot))
		set_active(slot, true, 0);
	policy_join(client);
	traced(EVENT_JOIN, slot, 0, NULL);
}

/* A client that left has been paid for: its tickets leave too. */
static __always_inline void deactivate(u32 slot)
{
	set_active(slot, false, 0);
	/* A member may have become runnable in between. */
	if (client_at(slot)->runnable && competes(slot))
		set_active(slot, true, 0);
}

/* Whether a client that left has been paid for, and does not come back at once. */
static __always_inline bool settled(u32 slot, u64 at_ns)
{
	struct client *client = client_at(slot);

	if (at_ns - client->left_at_ns < LINGER_MIN_NS)
		return false;
	advance(slot, control.bank);
	return policy_settled(client, at_ns);
}

static __always_inline void member_left(u32 slot, u64 at_ns)
{
	struct client *client = client_at(slot);
	struct cpu_state *cpu;

	if (__sync_fetch_and_sub(&client->runnable, 1) != 1)
		return;
	client->left_at_ns = at_ns;
	client->due_limit_ns = due_at_most(client);
	traced(EVENT_LEAVE, slot, 0, NULL);
	if (client->lingers || !node_at(control.bank, slot)->active ||
	    __sync_val_compare_and_swap(&client->lingers, 0, 1))
		return;
	cpu = cpu_at(bpf_get_smp_processor_id());
	if (cpu->lingering_count >= LINGERING_MAX) {
		client->lingers = 0;
		totals.crowded++;
		return deactivate(slot);
	}
	cpu->lingering[cpu->lingering_count++ & (LINGERING_MAX - 1)] = slot;
}

/* Look at some clients that linger here. Only this CPU changes its list. */
static __noinline int look_at_lingering(u64 at_ns)
{
	struct cpu_state *cpu = cpu_at(bpf_get_smp_processor_id());
	u32 looks;

	cpu->looked_at_ns = at_ns;
	bpf_for(looks, 0, LINGERING_LOOKS) {
		u32 *place, slot, count = cpu->lingering_count;
		struct client *client;

		if (looks >= count)
			break;
		if (++cpu->lingering_look >= count)
			cpu->lingering_look = 0;
		place = &cpu->lingering[cpu->lingering_look & (LINGERING_MAX - 1)];
		slot = *place;
		client = client_at(slot);
		if (!client->runnable && !settled(slot, at_ns))
			continue;
		*place = cpu->lingering[(count - 1) & (LINGERING_MAX - 1)];
		cpu->lingering_count = count - 1;
		client->lingers = 0;
		if (!client->runnable)
			deactivate(slot);
	}
	return 0;
}

/* Threads. */

/* Rule 4: so much may a client owe, and be ahead by a WAKERS_HORIZONS-th of the horizon. */
#define WAKERS_DEBT_QUANTA 8
#define WAKERS_HORIZONS 32
/* Rule 6: a thread is at most so many horizons ahead, however many of its client come before it. */
#define CROWD_HORIZONS 5
#define TURNS_AVERAGED 64
/* A client's worth is known when so much was given. */
#define TAG_SERVICE_NS 100000LL

/* By how much what a thread was charged may differ from what the kernel has counted. */
#define COUNTED_SLACK_NS 1000000LL

/* By how much a thread is ahead in the order of a CPU's own queue, in time used: a turn at most. */
static __noinline u64 ahead_ns(const struct thread *thread, u64 front)
{
	u64 ahead = thread->tag - front, turn_ns = control.quantum_ns;
	u64 turn = virtual_ns(turn_ns, client_at(thread->slot)->inverse);

	if ((s64)ahead <= 0 || !turn)
		return 0;
	return ahead < turn ? turn_ns * (ahead >> 8) / ((turn >> 8) + 1) : turn_ns;
}

/* The thread's tag is moved on from here. */
static __always_inline void mark_tag(struct thread *thread, u64 due_ns)
{
	thread->tagged_worth_ns = due_ns + client_at(thread->slot)->given_back_ns;
	thread->tagged_service = service;
}

/* By how much the tag of a thread that used so much moves on: by what its client was worth on
 * average since that happened last. The rate follows a new value late, and tags never make up for
 * it; the value of the moment is another one for those that wake and are charged often. */
__noinline u64 tag_span(struct thread *thread __arg_nonnull, u64 used_ns)
{
	struct client *client = client_at(thread->paying);
	u64 worth_ns = thread->tagged_worth_ns, since = thread->tagged_service;
	u64 inverse = client->inverse, value;
	s64 given_ns;

	mark_tag(thread, due_exactly(thread->slot));
	given_ns = thread->tagged_service - since;
	if (thread->paying == thread->slot && given_ns >= TAG_SERVICE_NS && given_ns < 1LL << 50) {
		value = share(WHOLE, thread->tagged_worth_ns - worth_ns, given_ns);
		inverse = (1ULL << 63) / (value < VALUE_MIN ? VALUE_MIN : value);
	}
	/* Its threads share what the client is worth. */
	return virtual_ns(used_ns, inverse) * (client->runnable ?: 1);
}

/* Count a thread as runnable for the client that it belongs to now. */
static __always_inline void count_in(struct task_struct *p, struct thread *thread)
{
	u32 slot = current_slot(p, thread);
	u64 front, had_ns;

	if (unlikely(thread->lent_to))
		take_back(thread);
	if (thread->counted) {
		if (slot == thread->slot)
			return;
		member_left(thread->slot, now_ns());
	} else if (p->se.sum_exec_runtime - thread->counted_ns + COUNTED_SLACK_NS >
		   2 * COUNTED_SLACK_NS) {
		/* What it used in another class is nobody's. */
		thread->counted_ns = p->se.sum_exec_runtime;
	}
	if (likely(slot == thread->slot)) {
		thread->counted = 1;
		member_runnable(slot);
		if (p->nr_cpus_allowed < nr_cpus)
			mark_tag(thread, due_exactly(slot));
		return;
	}
	front = cpu_at(scx_bpf_task_cpu(p))->front;
	had_ns = ahead_ns(thread, front);
	thread->slot = slot;
	thread->counted = 1;
	member_runnable(slot);
	/* What it has had counts on, at what the time is worth there. */
	mark_tag(thread, due_exactly(slot));
	thread->tag = front + virtual_ns(had_ns, client_at(slot)->inverse);
}

/* At whose cost the thread runs next (transfer.h, rule 3): answers the least key. */
__noinline u64 choose_payer(struct thread *thread, u64 key, u64 now)
{
	int i;

	if (!thread)
		return key;
#pragma unroll
	for (i = 0; i < PAYERS_MAX; i++) {
		u32 payer = thread->payers[i];
		struct client *client;
		u64 other;

		if (!payer)
			continue;
		client = client_at(payer - 1);
		other = policy_key(client, due_exactly(payer - 1), 0, now);
		if (before(other, key)) {
			key = other;
			thread->paying = payer - 1;
		}
	}
	return key;
}

/* By how much a thread that wakes may be ahead and yet run at once. */
static __always_inline u64 tolerated(const struct client *client)
{
	u64 ahead = virtual_ns(WAKERS_DEBT_QUANTA * control.quantum_ns, client->inverse);
	u64 most = horizon_ns * nr_cpus / WAKERS_HORIZONS;

	return ahead < most ? ahead : most;
}

/* The thread's key for its next quantum, and at whose cost it runs then. */
static __always_inline u64 next_key(struct thread *thread, struct domain_state *domain, bool woken)
{
	u32 slot = thread->slot;
	struct client *client = client_at(slot);
	u32 members = client->runnable, ahead = members > 1 ? members - 1 : 0;
	u64 due_ns = due_exactly(slot), now = service, key, latest, span;

	key = policy_key(client, due_ns, ahead, now);
	thread->due_ns = due_ns;
	thread->latest = 0;
	thread->paying = slot;
	if (unlikely(thread->payers[0] | thread->payers[1] | thread->payers[2] | thread->payers[3]))
		key = choose_payer(thread, key, now);
	/* Who pays from now on has not yet had what was in the thread's own tag. */
	if (unlikely(thread->paying != slot)) {
		u64 front = cpu_at(bpf_get_smp_processor_id())->front;

		if (!thread->lent && before(front, thread->tag))
			thread->tag = front;
		thread->lent = 1;
	} else {
		thread->lent = 0;
	}
	thread->idle = !competes(slot) && thread->paying == slot;
	if (control.policy == POLICY_MTR_LS)
		return key;
	if (control.policy == POLICY_LOTTERY)
		thread->drawn = lottery_draw(client_at(thread->paying));
	/* Rule 4: who owes little need not wait. Those that wake come in that order, whatever they
	 * were due. */
	if (woken && !before(now + tolerated(client), key))
		return before(domain->front, now) ? domain->front : now;
	/* Rule 6. */
	latest = later(now, domain->reached) + (client->rated ? horizon_ns : RATE_NS) * nr_cpus;
	if (unlikely(before(latest, key))) {
		span = ahead && thread->paying == slot ? stride_span(client, ahead) : 0;
		if (before(latest, key - span)) {
			key = latest + span;
			if (client->rated)
				thread->latest = latest;
		}
		latest += (CROWD_HORIZONS - 1) * horizon_ns * nr_cpus;
		if (before(latest, key))
			key = latest;
	}
	return key;
}

/* Rule 6: the client was served before its debt let it. From now on it owes what it had to wait
 * for, and this turn. */
__noinline int pardon(struct client *client __arg_nonnull, struct thread *thread __arg_nonnull,
		      u64 used_ns)
{
	s64 ahead_ns = thread->latest - service;
	u64 most_ns = used_ns;

	thread->latest = 0;
	if (ahead_ns > 0)
		most_ns += (u64)ahead_ns * (client->rate >> 32) >> 16;
	advance(thread->paying, control.bank);
	forgive(client, most_ns);
	return 0;
}

static __always_inline void charge_for(struct task_struct *p, struct thread *thread, u64 used_ns)
{
	struct client *client = client_at(thread->slot);

	thread->counted_ns += used_ns;
	__sync_fetch_and_add(&client->used_ns, used_ns);
	if (unlikely(thread->paying != thread->slot)) {
		client = client_at(thread->paying);
		__sync_fetch_and_add(&client->transferred_ns, used_ns);
	}
	if (p->nr_cpus_allowed < nr_cpus) {
		struct cpu_state *cpu = cpu_at(scx_bpf_task_cpu(p));

		cpu->front = later(cpu->front, thread->tag);
		thread->tag += tag_span(thread, used_ns);
	}
	/* Guests and others that do not compete are due nothing and owe nothing. */
	if (thread->idle || (unlikely(thread->paying != thread->slot) && !competes(thread->paying)))
		return;
	used_ns = policy_charge(client, used_ns, thread->drawn);
	give(used_ns);
	if (unlikely(thread->latest))
		pardon(client, thread, used_ns);
	traced(EVENT_CHARGE, thread->paying, used_ns, thread);
}

/* What a thread that goes on running, or might, has used: charges it and answers it. */
static __always_inline u64 charge(struct task_struct *p, struct thread *thread)
{
	s64 used_ns = p->se.sum_exec_runtime - thread->counted_ns;

	if (used_ns <= 0)
		return 0;
	charge_for(p, thread, used_ns);
	return used_ns;
}

/* A turn has ended that was not given up. */
static __always_inline void measure_turn(struct domain_state *domain, u64 used_ns)
{
	if (used_ns > 1ULL << 28)
		used_ns = 1ULL << 28;
	domain->turn_ns += (s64)(used_ns - domain->turn_ns) / TURNS_AVERAGED;
}

/* The last of a thread that goes to sleep. The kernel has not yet counted it (it does so before a
 * callback `stopping`, which costs more than the rest of going to sleep), so it is what the clock
 * says; the next charge makes up for the difference. */
static __always_inline void charge_last(struct task_struct *p, struct thread *thread,
					struct cpu_state *cpu, u64 at_ns)
{
	s64 used_ns = at_ns - cpu->since_ns;

	/* Not all that is counted runs: while a scheduler begins or ends threads move on their own.
	 */
	if (cpu->tid != (u32)p->pid)
		charge(p, thread);
	else if (used_ns > 0)
		charge_for(p, thread, used_ns);
}

/* A thread waits no longer. */
static __always_inline void left_queue(struct thread *thread, struct domain_state *domain)
{
	u32 own = thread->own_queue;

	thread->queued_at_ns = 0;
	thread->own_queue = 0;
	if (own)
		__sync_fetch_and_sub(&cpu_at(own - 1)->own, 1);
	if (thread->idle)
		__sync_fetch_and_sub(&idlers, 1);
	else if (domain->queued)
		__sync_fetch_and_sub(&domain->queued, 1);
}

/* A thread that waited with this key is served (rule 6). Who wakes may have a key from long ago:
 * one such does not take the domain back. */
static __always_inline void reach(struct domain_state *domain, u64 key)
{
	u64 reached = domain->reached;

	domain->reached = later(key, reached - control.quantum_ns);
}

/* The thread runs with this key from now on. */
static __always_inline void chosen(struct task_struct *p, struct thread *thread,
				   struct cpu_state *cpu, struct domain_state *domain, u64 at_ns)
{
	struct client *client = client_at(thread->slot);
	u64 key = thread->key;

	client->wins++;
	if (unlikely(thread->paying != thread->slot))
		client = client_at(thread->paying);
	cpu->guest = thread->idle;
	if (!thread->idle)
		domain->front = key;
	cpu->key = key;
	cpu->inverse = client->inverse;
	cpu->since_ns = at_ns;
	cpu->tid = p->pid;
	cpu->busy = 1;
	if (p->nr_cpus_allowed < nr_cpus)
		cpu->front = later(cpu->front, thread->tag);
	traced(EVENT_WIN, thread->slot, key, thread);
	if (cpu->lingering_count && at_ns - cpu->looked_at_ns > LOOK_NS)
		look_at_lingering(at_ns);
}

#endif
