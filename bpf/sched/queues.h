/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Queues: their heads, and who leaves them out of turn: who was lent to, who competes again or is
 * another client's by a new plan, guests whom the watchdog would miss, and who waits for another
 * CPU. main.bpf.c calls these when a CPU chooses.
 */
#ifndef ALLOT_QUEUES_H
#define ALLOT_QUEUES_H

/* The number by which the head of a queue is ordered, and its key. */
static __always_inline bool head_of(u64 queue, u64 *order, u64 *key)
{
	struct thread *thread;
	struct task_struct *p;

	if (bpf_ksym_exists(scx_bpf_dsq_peek)) {
		p = scx_bpf_dsq_peek(queue);
		if (!p)
			return false;
		*order = p->scx.dsq_vtime;
		if (key) {
			thread = thread_of(p);
			*key = thread ? thread->key : *order;
		}
		return true;
	} else {
		struct bpf_iter_scx_dsq it;
		bool found = false;

		if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
			p = bpf_iter_scx_dsq_next(&it);
			if (p) {
				*order = p->scx.dsq_vtime;
				if (key) {
					thread = thread_of(p);
					*key = thread ? thread->key : *order;
				}
				found = true;
			}
		}
		bpf_iter_scx_dsq_destroy(&it);
		return found;
	}
}

/* A thread that was lent to while it waited runs now. */
__noinline bool serve_hurried(s32 cpu)
{
	struct domain_state *domain = domain_of(cpu);
	u32 place = domain->hurried_look;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool moved = false;
	u64 queue = domain_queue(cpu);
	u32 tid;
	int round;

	if (place == domain->hurried_put ||
	    __sync_val_compare_and_swap(&domain->hurried_look, place, place + 1) != place)
		return false;
	tid = domain->hurried[place & (HURRIED_MAX - 1)];
	for (round = 0; round < 2 && !moved; round++) {
		u32 looks;

		if (round)
			queue = CPU_QUEUE(cpu);
		if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
			bpf_for(looks, 0, 1 << 16) {
				p = bpf_iter_scx_dsq_next(&it);
				if (!p)
					break;
				if (p->pid == (s32)tid) {
					moved = move_from(&it, p, SCX_DSQ_LOCAL);
					break;
				}
			}
		}
		bpf_iter_scx_dsq_destroy(&it);
	}
	return moved;
}

/* By a new plan, who waits with the guests or the frozen may compete: it runs at once, for a
 * shortest slice, and then waits with all others. One at a time, until none is left. */
__noinline bool call_back(s32 cpu)
{
	u64 queue = IDLE_QUEUE;
	struct bpf_iter_scx_dsq it;
	u32 epoch = control.epoch;
	bool moved = false, left = false;
	int round;

	for (round = 0; round < 2 && !moved; round++) {
		u32 looks;

		if (round)
			queue = FROZEN_QUEUE;
		if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
			bpf_for(looks, 0, 1 << 16) {
				struct task_struct *p = bpf_iter_scx_dsq_next(&it);
				struct thread *thread;

				if (!p)
					break;
				thread = thread_of(p);
				if (!thread || !competes(look_up(p, thread)))
					continue;
				if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr)) {
					left = true;
					continue;
				}
				moved = move_from(&it, p, SCX_DSQ_LOCAL);
				if (moved)
					break;
			}
		}
		bpf_iter_scx_dsq_destroy(&it);
	}
	if (!moved && !left)
		idlers_epoch = epoch;
	return moved;
}

/* Whether a thread that waits is another client's by now: it is counted there, and has a new key.
 */
static __noinline bool has_moved(struct task_struct *p, struct thread *thread, s32 number)
{
	u32 slot = look_up(p, thread);

	if (!thread || slot == thread->slot || thread->idle || !competes(slot))
		return false;
	count_in(p, thread);
	thread->key = next_key(thread, domain_of(number), false);
	return true;
}

/* By a new plan, who waits may be another client's, and the place for which it waits means nothing
 * any more: it takes a new one. So do the first that wait; those behind have time for another plan.
 */
__noinline int place_anew(u64 queue, s32 number)
{
	bool own = queue >= CPU_QUEUE(0);
	struct bpf_iter_scx_dsq it;
	u32 looks;

	if (!bpf_iter_scx_dsq_new(&it, queue, 0)) {
		bpf_for(looks, 0, PLACED_ANEW_MAX) {
			struct task_struct *p = bpf_iter_scx_dsq_next(&it);
			struct thread *thread;

			if (!p)
				break;
			thread = thread_of(p);
			if (thread && has_moved(p, thread, number))
				move_within(&it, p, queue, own ? thread->tag : thread->key);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

/* Guests and frozen threads that waited too long for the watchdog run for a moment. */
__noinline bool calm_watchdog(u64 at_ns)
{
	u64 queue = IDLE_QUEUE, since_ns;
	int round;

	for (round = 0; round < 2; round++) {
		if (round)
			queue = FROZEN_QUEUE;
		if (!head_of(queue, &since_ns, NULL))
			continue;
		if (at_ns - since_ns > guest_grace_ns && before(since_ns, at_ns) &&
		    move_to_local(queue)) {
			__sync_fetch_and_add(&totals.rescued, 1);
			return true;
		}
	}
	return false;
}

/* Take the head of another domain's queue; where `key` is given, only if it is far behind it. */
__noinline bool steal(s32 cpu, bool compare, u64 key)
{
	u32 own = cpu_domain[cpu & (CPUS_MAX - 1)];
	u32 look, turn = cpu_at(cpu)->choices;
	u64 lag = control.quantum_ns * nr_cpus * DOMAIN_LAG_QUANTA;

	bpf_for(look, 0, nr_domains) {
		u32 other = (own + 1 + (compare ? turn % nr_domains : look)) % nr_domains;
		u64 head;

		if (other == own)
			continue;
		if (compare &&
		    (!head_of(DOMAIN_QUEUE(other), &head, NULL) || !before(head + lag, key)))
			return false;
		if (move_to_local(DOMAIN_QUEUE(other))) {
			__sync_fetch_and_add(&totals.steals, 1);
			return true;
		}
		if (compare)
			return false;
	}
	return false;
}

/* Nothing waits here: take what may run here from the queues of other CPUs. */
__noinline bool help_others(s32 cpu)
{
	u32 look;

	bpf_for(look, 1, PREEMPT_LOOKS) {
		s32 other = cpu + look;

		if (look >= nr_cpus)
			break;
		if ((u32)other >= nr_cpus)
			other -= nr_cpus;
		if (scx_bpf_dsq_nr_queued(CPU_QUEUE(other)) > 0 && move_to_local(CPU_QUEUE(other)))
			return true;
	}
	return false;
}

#endif
