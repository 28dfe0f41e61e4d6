/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ticket transfers (Waldspurger & Weihl 1994, sections 3.1 and 5.3) for locks of the kernel: who
 * waits for a mutex, a semaphore or a PI futex lends its tickets to who holds it.
 *
 * 1. When a thread goes to sleep on a lock whose owner is known, its client (and whoever lends to
 *    the thread) becomes a payer of the owner, and of whom the owner waits for, and so on, over at
 *    most CHAIN_MAX locks.
 * 2. The waiter still counts as runnable: its tickets stay active, they just work for the owner.
 * 3. A thread with payers runs at the cost of that one, or of its own client, which comes first.
 * 4. When the waiter wakes, it ceases to pay along the same chain.
 *
 * Owners that cannot be known (readers of a semaphore, ordinary futexes) get nothing.
 */
#ifndef ALLOT_TRANSFER_H
#define ALLOT_TRANSFER_H

#define CHAIN_MAX 8

enum lock_kind {
	LOCK_NONE = 0,
	LOCK_MUTEX = 1,
	LOCK_SEMAPHORE = 2,
};

static __always_inline bool add_payer(struct thread *owner, u32 slot)
{
	int i;

#pragma unroll
	for (i = 0; i < PAYERS_MAX; i++)
		if (owner->payers[i] == slot + 1)
			return true;
#pragma unroll
	for (i = 0; i < PAYERS_MAX; i++)
		if (!__sync_val_compare_and_swap(&owner->payers[i], 0, slot + 1))
			return true;
	return false;
}

static __always_inline void remove_payer(struct thread *owner, u32 slot)
{
	int i;

#pragma unroll
	for (i = 0; i < PAYERS_MAX; i++)
		if (__sync_val_compare_and_swap(&owner->payers[i], slot + 1, 0) == slot + 1)
			return;
}

/* The thread that holds what this one waits for; 0 where it is not known. */
static __always_inline u32 lock_owner(struct task_struct *p, struct thread *thread)
{
	struct task_struct *owner = NULL;
	struct rt_mutex_waiter *waiter = p->pi_blocked_on;
	s64 word = 0;

	if (waiter) {
		owner = BPF_CORE_READ(waiter, lock, owner);
		owner = (void *)((u64)owner & ~1ULL);
	} else if (thread->lock_kind == LOCK_MUTEX) {
		struct mutex *mutex = (void *)thread->lock;

		word = BPF_CORE_READ(mutex, owner.counter);
		owner = (void *)(word & ~7LL);
	} else if (thread->lock_kind == LOCK_SEMAPHORE) {
		struct rw_semaphore *semaphore = (void *)thread->lock;

		/* The lowest bit says that readers hold it. */
		word = BPF_CORE_READ(semaphore, owner.counter);
		owner = word & 1 ? NULL : (void *)(word & ~7LL);
	}
	return owner ? BPF_CORE_READ(owner, pid) : 0;
}

/* Put a queued thread before all others of its domain at the next choice. */
static __always_inline void hurry(struct task_struct *p)
{
	struct domain_state *domain = domain_of(scx_bpf_task_cpu(p));
	u32 place = __sync_fetch_and_add(&domain->hurried_put, 1);

	domain->hurried[place & (HURRIED_MAX - 1)] = p->pid;
}

struct chain {
	u32 tid;
	u32 slots[PAYERS_MAX + 1];
};

/* One owner of a chain; answers whom that one waits for. */
static __always_inline u32 lend_to(struct chain *chain, bool lend)
{
	struct task_struct *owner = bpf_task_from_pid(chain->tid);
	struct thread *thread;
	u32 next = 0;
	int i;

	if (!owner)
		return 0;
	thread = thread_of(owner);
	if (thread) {
#pragma unroll
		for (i = 0; i < PAYERS_MAX + 1; i++) {
			if (!chain->slots[i])
				continue;
			if (lend)
				add_payer(thread, chain->slots[i] - 1);
			else
				remove_payer(thread, chain->slots[i] - 1);
		}
		next = thread->lent_to;
		if (lend && !next && thread->queued_at_ns)
			hurry(owner);
	}
	bpf_task_release(owner);
	return next;
}

static __noinline int follow_chain(struct chain *chain, bool lend)
{
	int link;

	if (!chain)
		return -EINVAL;
	bpf_for(link, 0, CHAIN_MAX) {
		if (!chain->tid)
			break;
		chain->tid = lend_to(chain, lend);
	}
	return 0;
}

static __always_inline void payers_of(struct thread *thread, struct chain *chain)
{
	int i;

	chain->slots[0] = thread->slot + 1;
#pragma unroll
	for (i = 0; i < PAYERS_MAX; i++)
		chain->slots[i + 1] = thread->payers[i];
}

/* A thread goes to sleep. Answers whether it lends: then it still counts as runnable. */
static __always_inline bool lend(struct task_struct *p, struct thread *thread)
{
	struct chain chain = {};

	if (!transfers || (!thread->lock_kind && !p->pi_blocked_on))
		return false;
	chain.tid = lock_owner(p, thread);
	if (!chain.tid || chain.tid == (u32)p->pid)
		return false;
	thread->lent_to = chain.tid;
	payers_of(thread, &chain);
	follow_chain(&chain, true);
	__sync_fetch_and_add(&totals.transfers, 1);
	return true;
}

/* It is awake again. */
static __always_inline void take_back(struct thread *thread)
{
	struct chain chain = {};

	chain.tid = thread->lent_to;
	thread->lent_to = 0;
	payers_of(thread, &chain);
	follow_chain(&chain, false);
}

/* Where a thread begins and ceases to wait for a lock. */
SEC("tp_btf/contention_begin")
int BPF_PROG(on_contention_begin, void *lock, unsigned int flags)
{
	struct thread *thread = thread_of(bpf_get_current_task_btf());

	if (!thread)
		return 0;
	if (flags & LCB_F_MUTEX)
		thread->lock_kind = LOCK_MUTEX;
	else if ((flags & (LCB_F_READ | LCB_F_WRITE)) && !(flags & LCB_F_SPIN))
		thread->lock_kind = LOCK_SEMAPHORE;
	else
		return 0;
	thread->lock = (u64)lock;
	return 0;
}

SEC("tp_btf/contention_end")
int BPF_PROG(on_contention_end, void *lock, int ret)
{
	struct thread *thread = thread_of(bpf_get_current_task_btf());

	if (thread && thread->lock == (u64)lock) {
		thread->lock_kind = LOCK_NONE;
		thread->lock = 0;
	}
	return 0;
}

#endif
