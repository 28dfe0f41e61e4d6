/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of Linux that the scheduler touches, instead of a whole vmlinux.h: field offsets are
 * relocated at load time, so only names and types matter. Kernels from 6.12 on run the same
 * object: what some of them lack is declared weak and asked for before it is called. libbpf drops
 * the last `___suffix` of a name when it looks for the kernel's.
 */
#ifndef ALLOT_KERNEL_H
#define ALLOT_KERNEL_H

#include <linux/types.h>
#include <stdbool.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define NULL ((void *)0)
#define EINVAL 22
#define ENOMEM 12
#define ESRCH 3

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct scx_dispatch_q {
	u64 id;
};

struct sched_ext_entity {
	struct scx_dispatch_q *dsq;
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct;

struct rt_mutex_base {
	struct task_struct *owner;
};

struct rt_mutex_waiter {
	struct rt_mutex_base *lock;
};

struct task_struct {
	unsigned int flags;
	s32 pid;
	s32 tgid;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct task_struct *group_leader;
	u64 start_boottime;
	struct css_set *cgroups;
	struct rt_mutex_waiter *pi_blocked_on;
};

struct mutex {
	struct {
		s64 counter;
	} owner;
};

struct rw_semaphore {
	struct {
		s64 counter;
	} owner;
};

struct scx_init_task_args {
	bool fork;
};

struct scx_exit_task_args {
	bool cancelled;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

struct scx_dump_ctx;

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

#pragma clang attribute pop

/* The callbacks that this scheduler has; libbpf matches them by name. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u32 dispatch_max_batch;
	u64 flags;
	u32 timeout_ms;
	u32 exit_dump_len;
	char name[128];
};

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_ANY 0

enum kernel_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

/* include/linux/sched/ext.h and kernel/sched/ext*.h: stable since 6.12. */
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_DSQ_LOCAL_ON ((1ULL << 63) | (1ULL << 62))
#define SCX_TASK_QUEUED (1 << 0)
#define SCX_ENQ_WAKEUP 1ULL
#define SCX_DEQ_SLEEP 1ULL
#define SCX_KICK_IDLE (1ULL << 0)
#define SCX_KICK_PREEMPT (1ULL << 1)
#define SCX_OPS_ENQ_EXITING (1ULL << 2)
#define SCX_OPS_ENQ_MIGRATION_DISABLED (1ULL << 4)
#define SCX_OPS_ALLOW_QUEUED_WAKEUP (1ULL << 5)
#define SCX_ECODE_RSN_HOTPLUG (1LL << 32)
#define SCX_ECODE_ACT_RESTART (1LL << 48)

/* include/trace/events/lock.h */
#define LCB_F_SPIN (1U << 0)
#define LCB_F_READ (1U << 1)
#define LCB_F_WRITE (1U << 2)
#define LCB_F_MUTEX (1U << 5)

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			   bool *is_idle) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
bool scx_bpf_task_running(const struct task_struct *p) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym __weak;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym __weak;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym __weak;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;
void scx_bpf_exit_bstr(s64 exit_code, char *fmt, unsigned long long *data,
		       u32 data__sz) __ksym __weak;
u64 scx_bpf_now(void) __ksym __weak;

/* 6.12: dispatch; 6.13: dsq_insert; 6.19: arguments in a struct. */
void scx_bpf_dispatch___old(struct task_struct *p, u64 dsq_id, u64 slice,
			    u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_insert___v1(struct task_struct *p, u64 dsq_id, u64 slice,
			     u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_insert___v2___compat(struct task_struct *p, u64 dsq_id, u64 slice,
				      u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				  u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_insert_vtime___v1(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				   u64 enq_flags) __ksym __weak;
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p,
				struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
bool scx_bpf_consume___old(u64 dsq_id) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v1(u64 dsq_id) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2___compat(u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dispatch_from_dsq___old(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				     u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move___new(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch_from_dsq_set_vtime___old(struct bpf_iter_scx_dsq *it__iter,
					       u64 vtime) __ksym __weak;
void scx_bpf_dsq_move_set_vtime___new(struct bpf_iter_scx_dsq *it__iter, u64 vtime) __ksym __weak;
bool scx_bpf_dispatch_vtime_from_dsq___old(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
					   u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_vtime___new(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				  u64 dsq_id, u64 enq_flags) __ksym __weak;
/* 6.19: fields of a task may no longer be written. */
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
/* 6.19: looks without a lock. */
struct task_struct *scx_bpf_dsq_peek(u64 dsq_id) __ksym __weak;

static __always_inline void insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v2___compat))
		scx_bpf_dsq_insert___v2___compat(p, dsq_id, slice, flags);
	else if (bpf_ksym_exists(scx_bpf_dsq_insert___v1))
		scx_bpf_dsq_insert___v1(p, dsq_id, slice, flags);
	else
		scx_bpf_dispatch___old(p, dsq_id, slice, flags);
}

static __always_inline void insert_ordered(struct task_struct *p, u64 dsq_id, u64 slice, u64 key,
					   u64 flags)
{
	if (bpf_core_type_exists(struct scx_bpf_dsq_insert_vtime_args)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq_id,
			.slice = slice,
			.vtime = key,
			.enq_flags = flags,
		};

		__scx_bpf_dsq_insert_vtime(p, &args);
	} else if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___v1)) {
		scx_bpf_dsq_insert_vtime___v1(p, dsq_id, slice, key, flags);
	} else {
		scx_bpf_dispatch_vtime___old(p, dsq_id, slice, key, flags);
	}
}

static __always_inline bool move_to_local(u64 dsq_id)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2___compat))
		return scx_bpf_dsq_move_to_local___v2___compat(dsq_id, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v1))
		return scx_bpf_dsq_move_to_local___v1(dsq_id);
	return scx_bpf_consume___old(dsq_id);
}

static __always_inline bool move_from(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move___new))
		return scx_bpf_dsq_move___new(it, p, dsq, 0);
	return scx_bpf_dispatch_from_dsq___old(it, p, dsq, 0);
}

/* Give a thread that waits another place in its queue. */
static __always_inline bool move_within(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq,
					u64 key)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_vtime___new)) {
		scx_bpf_dsq_move_set_vtime___new(it, key);
		return scx_bpf_dsq_move_vtime___new(it, p, dsq, 0);
	}
	scx_bpf_dispatch_from_dsq_set_vtime___old(it, key);
	return scx_bpf_dispatch_vtime_from_dsq___old(it, p, dsq, 0);
}

static __always_inline void set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

static __always_inline u64 now_ns(void)
{
	return bpf_ksym_exists(scx_bpf_now) ? scx_bpf_now() : bpf_ktime_get_ns();
}

#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)

/* An index below `count`, a power of two. Where a loop's limit implies it, clang drops the mask,
 * and verifiers before 6.19 do not follow why it may; so it is not to know the index. */
static __always_inline u32 within(u32 index, u32 count)
{
	barrier_var(index);
	return index & (count - 1);
}

/* Ordering of numbers that may wrap around. */
static __always_inline bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static __always_inline u64 later(u64 a, u64 b)
{
	return before(a, b) ? b : a;
}

#endif
