/* SPDX-License-Identifier: GPL-2.0-only */
/* What user space calls (BPF_PROG_TEST_RUN). */
#ifndef ALLOT_CALLS_H
#define ALLOT_CALLS_H

static u32 slots_in_use SEC(".data");

/* Make a client's tickets active or not, as it should be. */
static __noinline int set_right(u32 slot)
{
	struct client *client = client_at(slot);
	struct node *node = node_at(control.bank, slot);
	bool should = (client->runnable || client->lingers) && (node->flags & CLIENT_LIVE) &&
		      competes(slot);

	/* For who reads what clients were due, too. */
	if (node->active)
		advance(slot, control.bank);
	if (client->lingers && !client->runnable && policy_settled(client, bpf_ktime_get_ns()))
		should = false;
	set_active(slot, should, 1);
	return 0;
}

/* Healing: after a plan was taken, and now and then, what raced with it is put right. */
SEC("syscall")
int reconcile(void *context)
{
	u32 slot;

	bpf_for(slot, 1, SLOTS_MAX) {
		if (slot >= slots_in_use)
			break;
		set_right(slot);
	}
	if (has_exchanges(control.bank))
		place_charges(0, control.bank);
	return 0;
}

/* Follow the plan in the other bank: first activate there who is active, then use it. */
SEC("syscall")
int switch_plan(struct switch_args *args)
{
	u32 slot, cpu, bank = args->bank & 1, slots = args->slots;

	/* What is due until now is due by the old plan. */
	bpf_for(slot, 1, SLOTS_MAX) {
		if (slot >= slots_in_use)
			break;
		if (node_at(control.bank, slot)->active)
			advance(slot, control.bank);
	}
	nodes[bank][0].due_ns = service;
	bpf_for(slot, 1, SLOTS_MAX) {
		struct node *node;

		if (slot >= slots)
			break;
		node = node_at(bank, slot);
		if (!(node->flags & CLIENT_LIVE))
			lose_beyond(client_at(slot), 0);
		restart_rate(client_at(slot));
		if (!(node->flags & CLIENT_LIVE) ||
		    (node->flags & (CLIENT_GUEST | CLIENT_FROZEN | CLIENT_LENT)))
			continue;
		if (!client_at(slot)->runnable && !client_at(slot)->lingers)
			continue;
		node->active = 1;
		climb(slot, bank, true, 1);
	}
	slots_in_use = slots;
	control.kernel_slot = args->kernel_slot;
	control.rest_slot = args->rest_slot;
	control.has_cgroups = args->has_cgroups;
	control.bank = bank;
	control.generation = args->generation;
	__sync_fetch_and_add(&control.epoch, 1);
	__sync_fetch_and_add(&activity, 1);
	/* Who was frozen and is not: a CPU that has nothing else to do looks at nobody by itself.
	 */
	if (idlers) {
		bpf_for(cpu, 0, nr_cpus)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return 0;
}

/* A thread changed its client: at once, if it runs. */
SEC("syscall")
int retag(struct thread_args *args)
{
	struct task_struct *p = bpf_task_from_pid(args->tid);
	struct thread *thread;

	if (!p)
		return -ESRCH;
	thread = thread_of(p);
	if (thread) {
		args->start_ticks = p->start_boottime / NS_PER_START_TICK;
		args->slot = look_up(p, thread);
		thread->epoch = control.epoch - 1;
		if (scx_bpf_task_running(p))
			scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
		else if (thread->own_queue)
			cpu_at(thread->own_queue - 1)->own_epoch = control.epoch - 1;
		else
			domain_of(scx_bpf_task_cpu(p))->epoch = control.epoch - 1;
	}
	bpf_task_release(p);
	return 0;
}

/* For tests: the value of one client, after its activity was set. */
SEC("syscall")
int probe_value(struct value_args *args)
{
	if (args->active < 2)
		set_active(args->slot, args->active, 1);
	args->value = revalue(args->slot, control.bank);
	return 0;
}

/* For tests: one step of a policy. */
SEC("syscall")
int probe_policy(struct policy_args *args)
{
	struct client *client = client_at(args->slot);

	client->value = args->value;
	set_rate(client, args->value);
	client->due_ns = args->due_ns;
	switch (args->operation) {
	case 0:
		policy_join(client);
		args->answer = client->position;
		break;
	case 1:
		args->answer = policy_key(client, args->due_ns, args->argument, args->now);
		break;
	case 2: {
		u64 drawn = control.policy == POLICY_LOTTERY ? lottery_draw(client) : 0;

		policy_charge(client, args->argument, drawn);
		args->answer = control.policy == POLICY_MTR_LS ? client->left : client->charged_ns;
		break;
	}
	case 3:
		args->answer = control.policy == POLICY_MTR_LS ?
				       mtr_ls_slice(client, args->argument) :
				       args->argument;
		break;
	default:
		args->answer = policy_settled(client, args->argument);
	}
	args->due_ns = client->due_ns;
	return 0;
}

#endif
