/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose member a thread is. The most particular that is known decides:
 *
 * 1. the thread itself (paper 2's chcpures), 2. its process, 3. the nearest cgroup above it,
 * 4. the client of the thread that made it, until a plan that knows it says otherwise: so a fork
 * storm stays within the client that makes it; 5. the kernel's threads and the rest have clients
 * of their own.
 *
 * The answer is kept with the thread until the epoch changes.
 */
#ifndef ALLOT_MEMBERS_H
#define ALLOT_MEMBERS_H

#define NS_PER_START_TICK 10000000ULL

struct thread {
	u64 key;	 /* where it is queued, or was when it was chosen */
	u64 latest;  /* where its client was held to the horizon: that key; else 0 */
	u64 tag;	 /* its place in the order of a CPU's own queue */
	u64 tagged_worth_ns; /* what its client was worth when its tag was moved on last */
	u64 tagged_service;  /* virtual time then */
	u64 due_ns;   /* of its client, when its key was computed */
	u64 drawn;   /* lottery: the random number of this win */
	u64 counted_ns; /* its CPU time that has been charged */
	u64 queued_at_ns; /* 0 while it does not wait */
	u64 cgroup;   /* where it was when its client was looked up */
	u64 lock;	  /* what it waits for, while it does */
	u32 lock_kind;
	u32 lent_to;  /* tid of who got its tickets, 0 for nobody */
	u32 payers[PAYERS_MAX]; /* slot + 1 of clients that lend to it, 0 for none */
	u32 paying;  /* slot that its present quantum is charged to */
	u32 own_queue; /* CPU + 1 in whose own queue it waits, 0 for none */
	u32 ready;   /* its key for the next quantum is known */
	u32 lent;	  /* its last key was at another's cost */
	u32 idle;	  /* runs when nobody else wants to: a guest, a lender, or frozen */
	u32 counted; /* in its client's count of runnable members */
	u32 slot;
	u32 epoch;
	u32 inherited;
	u32 inherited_birth;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} thread_storage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, u32);
	__type(value, struct member);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, u32);
	__type(value, struct member);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, u64);
	__type(value, u32);
} cgroups SEC(".maps");

static __always_inline struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&thread_storage, p, 0, 0);
}

static __always_inline bool is_live(u32 slot)
{
	return node_at(control.bank, slot)->flags & CLIENT_LIVE;
}

/* The client of a numbered member, if the number is still that member's. */
static __always_inline s32 numbered(void *map, u32 number, u64 start_boottime_ns)
{
	struct member *member = bpf_map_lookup_elem(map, &number);

	if (!member || member->start_ticks != start_boottime_ns / NS_PER_START_TICK)
		return -1;
	return member->slot;
}

static __always_inline s32 of_cgroup(struct cgroup *cgroup)
{
	s32 level = cgroup->level;
	u32 *slot;
	u64 id;
	int up;

	bpf_for(up, 0, 32) {
		struct cgroup *above;

		if (level - up < 0)
			break;
		bpf_core_read(&above, sizeof(above), &cgroup->ancestors[level - up]);
		id = BPF_CORE_READ(above, kn, id);
		slot = bpf_map_lookup_elem(&cgroups, &id);
		if (slot)
			return *slot;
	}
	return -1;
}

static __noinline int look_up(struct task_struct *p, struct thread *thread)
{
	u32 rest = p->flags & PF_KTHREAD ? control.kernel_slot : control.rest_slot;
	s32 slot;

	if (!thread)
		return rest;
	slot = numbered(&threads, p->pid, p->start_boottime);
	if (slot < 0)
		slot = numbered(&processes, p->tgid, p->group_leader->start_boottime);
	if (slot < 0 && control.has_cgroups)
		slot = of_cgroup(p->cgroups->dfl_cgrp);
	if (slot < 0 && thread->inherited &&
	    client_at(thread->inherited)->birth == thread->inherited_birth)
		slot = thread->inherited;
	if (slot < 0 || !is_live(slot))
		slot = rest;
	return slot;
}

/* The slot of the thread's client now. */
static __always_inline u32 current_slot(struct task_struct *p, struct thread *thread)
{
	u32 epoch = control.epoch;

	if (control.has_cgroups) {
		u64 cgroup = p->cgroups->dfl_cgrp->kn->id;

		if (cgroup != thread->cgroup) {
			thread->cgroup = cgroup;
			thread->epoch = epoch - 1;
		}
	}
	if (thread->epoch != epoch) {
		thread->epoch = epoch;
		return look_up(p, thread);
	}
	return thread->slot;
}

#endif
