/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least that a scheduler can do: one queue, first come first served. What allot's scheduler
 * costs is measured beside it.
 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

#define QUEUE 0
#define SLICE_NS 3000000ULL

s32 BPF_STRUCT_OPS(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		insert(p, SCX_DSQ_LOCAL, SLICE_NS, 0);
	return cpu;
}

void BPF_STRUCT_OPS(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	insert(p, QUEUE, SLICE_NS, enq_flags);
}

void BPF_STRUCT_OPS(fifo_dispatch, s32 cpu, struct task_struct *prev)
{
	move_to_local(QUEUE);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(fifo_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops fifo_ops = {
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.init = (void *)fifo_init,
	.timeout_ms = 30000,
	.name = "allot_fifo",
};
