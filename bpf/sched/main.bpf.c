/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * allot's CPU scheduler: every thread of the machine runs by the tickets of its client.
 *
 * 1. Whose? Each thread is a member of one client (members.h), kernel threads too: they are
 *    funded like anyone and have no privilege.
 * 2. How much? A client's value comes from the currency graph (currency.h), anew whenever
 *    somebody becomes active or inactive.
 * 3. Who next? Threads wait in queues in order of a key that the policy gives (policy.h): one
 *    queue for each domain of CPUs that share a last-level cache, one for each CPU for threads
 *    that may not run everywhere. A CPU that chooses compares the thread that ran, the head of
 *    its domain's queue and the head of its own; the least key runs for a slice. There is no
 *    other lock than these queues'. Every ANCHOR choices a CPU also looks at another domain and
 *    takes the head there if it is more than DOMAIN_LAG behind.
 * 4. When is it paid? A thread whose client owes WAKERS_DEBT_QUANTA at most runs at once when it
 *    wakes, before all who wait, and is charged for it; those that wake take turns. If it sleeps
 *    before its share has paid for that, the client *lingers*: its tickets stay active until it has
 *    been due what it used. So who pays for the burst are the client's own siblings, whom their
 *    currency would otherwise give that share, and not everybody (theorem 2: isolation).
 * 5. Wake-ups preempt: where the woken thread's key is less than what a running thread has
 *    reached, that CPU chooses again at once, and who ran does not come first once more.
 * 6. Nobody starves: a client's key is never more than the *horizon* ahead of the keys that are
 *    served now. Who is served from there owes no more than what it had to wait for; the rest is
 *    forgiven. Threads of one client wait for each other, for at most CROWD_HORIZONS such times.
 *    So a funded thread waits at most until the service between has been given: horizon +
 *    n · slice / CPUs for n threads. Slices shrink when many wait.
 * 7. Guests (paper 4) wait in a queue of their own, which is served only when the others are
 *    empty; a host that wakes preempts a guest. So do clients that have lent their tickets.
 *    Who competes by a new plan leaves it at once.
 *    Frozen ones are not served at all. Only so that the kernel's watchdog does not take the
 *    machine from everybody, who waited there for guest_grace_ns gets a shortest slice.
 * 8. Who waits for a lock lends its tickets to the holder (transfer.h).
 *
 * Longer functions are global, not static: the verifier looks at each of them once and not at
 * every call, in a quarter of the time for what chooses.
 *
 * Nothing here is the truth: plans come whole from user space, with a generation, and when this
 * scheduler ends, by whatever cause, the kernel's own takes over.
 */
#include "kernel.h"
#include "../abi.h"

char _license[] SEC("license") = "GPL";

/* Set before loading. */
const volatile u32 nr_cpus = 1; /* online */
const volatile u32 nr_domains = 1;
const volatile u8 cpu_domain[CPUS_MAX];
const volatile u64 seed;
const volatile u64 horizon_ns = 2000000000ULL;
const volatile u64 guest_grace_ns = 10000000000ULL;
const volatile bool transfers = true;

#define ANCHOR 8
#define DOMAIN_LAG_QUANTA 2
#define HURRIED_MAX 8
#define LINGERING_MAX 64
/* A client that left lingers for at least this, so that who sleeps for a moment costs nothing; some
 * of those that do are looked at now and then. */
#define LINGER_MIN_NS 300000ULL
#define LOOK_NS 250000ULL
#define LINGERING_LOOKS 8
/* A woken thread must be this much ahead of a running one, in ns of that one, to preempt it. */
#define PREEMPT_MIN_NS 20000ULL
/* How many running threads a wake-up compares itself to. */
#define PREEMPT_LOOKS 16
/* So many of those that wait are looked at when a plan is taken. */
#define PLACED_ANEW_MAX 512
/* More than this many waiting on a CPU, and slices shrink. */
#define CROWD 8

#define DOMAIN_QUEUE(domain) (0x10000ULL + (domain))
#define CPU_QUEUE(cpu) (0x20000ULL + (cpu))
#define IDLE_QUEUE 0x30000ULL /* guests and lenders */
#define FROZEN_QUEUE 0x30001ULL

struct control control SEC(".data") = { .quantum_ns = 4000000, .round_ns = 100000000 };
struct totals totals SEC(".data");

/* What a CPU runs. Read by others without a lock: a guess. */
struct cpu_state {
	u64 key;
	u64 inverse;
	u64 since_ns;
	u64 front; /* in this CPU's own queue: the tag of who is served */
	u32 own; /* how many wait there; never fewer */
	u32 own_epoch; /* who waits there has its place by this epoch's plan */
	u32 tid; /* who runs */
	u32 overtaken; /* who was asked to stop, and has not chosen again since */
	u32 busy;
	u32 guest;
	u32 choices;
	u32 events;
	u32 lingering_count;
	u32 lingering_look;
	u64 looked_at_ns; /* when those were looked at last */
	u32 lingering[LINGERING_MAX]; /* slots of clients that linger, in no order */
} __attribute__((aligned(64)));

struct domain_state {
	u64 front; /* the key of who was served last */
	u64 reached; /* about the greatest key that was served lately of those that waited */
	u64 turn_ns; /* how long turns were lately, on average */
	u32 queued; /* about how many wait in this domain */
	u32 epoch; /* who waits there has its place by this epoch's plan */
	u32 hurried_put;
	u32 hurried_look;
	u32 hurried[HURRIED_MAX]; /* threads that were lent to while they waited */
} __attribute__((aligned(64)));

struct cpu_state cpus[CPUS_MAX] SEC(".bss.cpus");
struct domain_state domains[DOMAINS_MAX] SEC(".bss.domains");
/* How many wait in the idle and the frozen queue. */
u32 idlers SEC(".data");
/* The epoch of the plan by which all of them were looked at: none of them competed then. */
u32 idlers_epoch SEC(".data");

/* Why the scheduler ended. */
u32 exit_kind SEC(".data");
s64 exit_code SEC(".data");
char exit_reason[128] SEC(".data");
char exit_message[1024] SEC(".data");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

/* CPU time that was given to all that compete: virtual time. */
u64 service SEC(".data");

#include "policy.h"
#include "currency.h"
#include "lottery.h"
#include "stride.h"
#include "mtr_ls.h"
#include "members.h"

static __always_inline struct cpu_state *cpu_at(s32 cpu)
{
	return &cpus[cpu & (CPUS_MAX - 1)];
}

static __always_inline struct domain_state *domain_of(s32 cpu)
{
	return &domains[cpu_domain[cpu & (CPUS_MAX - 1)] & (DOMAINS_MAX - 1)];
}

static __always_inline u64 domain_queue(s32 cpu)
{
	return DOMAIN_QUEUE(cpu_domain[cpu & (CPUS_MAX - 1)]);
}

#include "transfer.h"

__noinline int report(u32 type, u32 slot, u64 key, struct thread *thread)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct client *client = client_at(slot);
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&totals.dropped, 1);
		return 0;
	}
	event->at_ns = now_ns();
	event->key = key;
	event->value = client->value;
	event->rate = client->rate;
	event->used_ns = client->used_ns;
	event->due_ns = thread ? thread->due_ns : client->due_ns;
	event->charged_ns = client->charged_ns;
	event->drawn = thread ? thread->drawn : 0;
	event->now = service;
	event->slot = slot;
	event->tid = 0;
	event->cpu = cpu;
	event->type = type;
	event->seq = cpu_at(cpu)->events++;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

static __always_inline void traced(u32 type, u32 slot, u64 key, struct thread *thread)
{
	if (unlikely(control.traced))
		report(type, slot, key, thread);
}

#include "clients.h"
#include "queues.h"

s32 BPF_STRUCT_OPS(allot_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &idle);

	/* Nobody waits for an idle CPU: no queue is needed. */
	if (idle)
		insert(p, SCX_DSQ_LOCAL, control.quantum_ns, 0);
	return cpu;
}

/* By how much a thread with this key is ahead of what a CPU runs; all for one that runs a guest. */
static __always_inline u64 ahead_of(const struct cpu_state *cpu, u64 key, u64 at_ns)
{
	u64 ran_ns, reached;

	if (!cpu->busy)
		return 0;
	if (cpu->guest)
		return ~0ULL;
	if (control.policy == POLICY_MTR_LS)
		return before(key, cpu->key) ? cpu->key - key : 0;
	ran_ns = at_ns - cpu->since_ns;
	if (ran_ns > 1ULL << 24)
		ran_ns = 1ULL << 24;
	if (ran_ns <= PREEMPT_MIN_NS)
		return 0;
	reached = cpu->key + ((ran_ns - PREEMPT_MIN_NS) * cpu->inverse >> INVERSE_SHIFT);
	return before(key, reached) ? reached - key : 0;
}

/* Let a CPU that runs a guest, or somebody who is further on, choose again. */
static __always_inline void preempt(struct client *client, u64 key, s32 target, bool anywhere,
				    u64 at_ns)
{
	u64 most = ahead_of(cpu_at(target), key, at_ns);
	s32 victim = target;
	u32 look;

	if (nr_cpus > 1 && anywhere) {
		u32 domain = cpu_domain[target & (CPUS_MAX - 1)];

		for (look = 1; look < PREEMPT_LOOKS; look++) {
			s32 number = target + look;
			u64 ahead;

			if (look >= nr_cpus)
				break;
			if ((u32)number >= nr_cpus)
				number -= nr_cpus;
			if (cpu_domain[number & (CPUS_MAX - 1)] != domain)
				continue;
			ahead = ahead_of(cpu_at(number), key, at_ns);
			if (ahead > most) {
				most = ahead;
				victim = number;
			}
		}
	}
	if (!most)
		return;
	client->preemptions++;
	cpu_at(victim)->overtaken = cpu_at(victim)->tid;
	scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
}

/* The CPU in whose own queue a thread waits that may not run everywhere: the emptiest. */
static __always_inline s32 allowed_cpu(struct task_struct *p)
{
	s32 best = scx_bpf_task_cpu(p), least, look;

	if (p->nr_cpus_allowed == 1)
		return best;
	least = bpf_cpumask_test_cpu(best, p->cpus_ptr) ? scx_bpf_dsq_nr_queued(CPU_QUEUE(best)) :
							  1 << 30;
	bpf_for(look, 0, PREEMPT_LOOKS) {
		s32 cpu = best + look, queued;

		if (!least)
			break;
		if ((u32)cpu >= nr_cpus)
			cpu -= nr_cpus;
		if (cpu < 0 || (u32)cpu >= nr_cpus || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		queued = scx_bpf_dsq_nr_queued(CPU_QUEUE(cpu));
		if (queued >= 0 && queued < least) {
			least = queued;
			best = cpu;
		}
	}
	return best;
}

void BPF_STRUCT_OPS(allot_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 target = scx_bpf_task_cpu(p), idle;
	struct domain_state *domain = domain_of(target);
	struct thread *thread = thread_of(p);
	struct client *client;
	bool everywhere;

	if (unlikely(!thread)) {
		insert(p, SCX_DSQ_LOCAL, control.quantum_ns, enq_flags);
		return;
	}
	/* The key of who ran was computed when it lost. */
	if (!thread->ready) {
		bool woken = !thread->counted;

		if (!woken)
			charge(p, thread);
		count_in(p, thread);
		thread->key = next_key(thread, domain, woken);
	}
	thread->ready = 0;
	client = client_at(thread->slot);
	thread->queued_at_ns = now_ns();
	if (unlikely(thread->idle)) {
		u32 flags = node_at(control.bank, thread->slot)->flags;

		__sync_fetch_and_add(&idlers, 1);
		insert_ordered(p, flags & CLIENT_FROZEN ? FROZEN_QUEUE : IDLE_QUEUE, SLICE_MIN_NS,
			       thread->queued_at_ns, enq_flags);
		return;
	}
	everywhere = p->nr_cpus_allowed >= nr_cpus;
	__sync_fetch_and_add(&domain->queued, 1);
	traced(EVENT_QUEUE, thread->slot, thread->key, thread);
	if (everywhere) {
		insert_ordered(p, domain_queue(target), slice_of(client, domain), thread->key,
			       enq_flags);
		/* A wake-up has looked for an idle CPU; what was preempted has not. */
		if (!(enq_flags & SCX_ENQ_WAKEUP)) {
			idle = nr_cpus > 1 ? scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) : -1;
			if (idle >= 0)
				scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return;
		}
	} else {
		struct cpu_state *cpu;

		target = allowed_cpu(p);
		cpu = cpu_at(target);
		if (before(thread->tag, cpu->front))
			thread->tag = cpu->front;
		__sync_fetch_and_add(&cpu->own, 1);
		thread->own_queue = target + 1;
		insert_ordered(p, CPU_QUEUE(target), slice_of(client, domain), thread->tag,
			       enq_flags);
		if (scx_bpf_test_and_clear_cpu_idle(target)) {
			scx_bpf_kick_cpu(target, SCX_KICK_IDLE);
			return;
		}
		if (!(enq_flags & SCX_ENQ_WAKEUP) && !cpu_at(target)->guest)
			return;
	}
	preempt(client, thread->key, target, everywhere, thread->queued_at_ns);
}

/*
 * Rule 3. A CPU's own queue has an order of its own, that of start-time fair queueing: threads
 * that may run on one CPU only can be due more than that CPU, and then all their keys fall behind
 * for ever; among themselves they must keep their ratios nevertheless. Against the domain's queue
 * the head competes with its key.
 */
void BPF_STRUCT_OPS(allot_dispatch, s32 number, struct task_struct *prev)
{
	struct domain_state *domain = domain_of(number);
	struct cpu_state *cpu = cpu_at(number);
	struct thread *thread = NULL;
	u64 shared = 0, own = 0, own_tag = 0, key = 0;
	bool has_shared = false, has_own, runs = false, mine = false, overtaken;

	totals.draws++;
	cpu->choices++;
	overtaken = prev && cpu->overtaken == (u32)prev->pid;
	cpu->overtaken = 0;
	if (unlikely(idlers)) {
		if (idlers_epoch != control.epoch && call_back(number))
			return;
		if (calm_watchdog(now_ns()))
			return;
	}
	if (unlikely(domain->hurried_look != domain->hurried_put) && serve_hurried(number))
		return;

	if (unlikely(domain->epoch != control.epoch)) {
		domain->epoch = control.epoch;
		place_anew(domain_queue(number), number);
	}
	if (unlikely(cpu->own && cpu->own_epoch != control.epoch)) {
		cpu->own_epoch = control.epoch;
		place_anew(CPU_QUEUE(number), number);
	}
	has_own = cpu->own && head_of(CPU_QUEUE(number), &own_tag, &own);
	if (prev && (prev->scx.flags & SCX_TASK_QUEUED)) {
		thread = thread_of(prev);
		if (thread) {
			measure_turn(domain, charge(prev, thread));
			count_in(prev, thread);
			key = next_key(thread, domain, false);
			/* Rule 5. */
			if (overtaken)
				key = later(key, cpu->key);
			thread->key = key;
			thread->ready = 1;
			runs = !thread->idle;
			/* Against others that may run only here its tag counts. */
			mine = prev->nr_cpus_allowed < nr_cpus;
		}
	}
	/* Nothing to compare with: the head of the domain's queue, if there is one. */
	if (!runs && !has_own && nr_domains == 1) {
		if (move_to_local(domain_queue(number)))
			return;
	} else {
		has_shared = head_of(domain_queue(number), &shared, NULL);
	}
	if (runs && (!has_shared || before(key, shared)) &&
	    (!has_own || (mine ? before(thread->tag, own_tag) : before(key, own)))) {
		if (nr_domains > 1 && !(cpu->choices % ANCHOR) && steal(number, true, key))
			return;
		goto keep;
	}
	if (nr_domains > 1 && has_shared && !(cpu->choices % ANCHOR) && steal(number, true, shared))
		return;
	if (has_own && (!has_shared || before(own, shared))) {
		if (move_to_local(CPU_QUEUE(number)))
			return;
	}
	if (has_shared && move_to_local(domain_queue(number)))
		return;
	if (has_own && move_to_local(CPU_QUEUE(number)))
		return;
	if (runs)
		goto keep;
	if (nr_domains > 1 && steal(number, false, 0))
		return;
	if (help_others(number))
		return;
	if (idlers && move_to_local(IDLE_QUEUE))
		return;
	cpu->busy = 0;
	if (!thread || (node_at(control.bank, thread->slot)->flags & CLIENT_FROZEN))
		return;
keep:
	/* Who ran goes on. */
	thread->ready = 0;
	set_slice(prev, runs ? slice_of(client_at(thread->slot), domain) : SLICE_MIN_NS);
	totals.kept++;
	chosen(prev, thread, cpu, domain, now_ns());
}

void BPF_STRUCT_OPS(allot_running, struct task_struct *p)
{
	u32 number = bpf_get_smp_processor_id();
	struct domain_state *domain = domain_of(number);
	struct cpu_state *cpu = cpu_at(number);
	struct thread *thread = thread_of(p);
	u64 at_ns = now_ns(), waited_ns;
	struct client *client;

	if (!thread)
		return;
	thread->ready = 0;
	/* Who goes to an idle CPU is not enqueued. */
	if (!thread->counted) {
		count_in(p, thread);
		thread->key = next_key(thread, domain, true);
	}
	if (thread->queued_at_ns) {
		client = client_at(thread->slot);
		waited_ns = at_ns - thread->queued_at_ns;
		if (waited_ns > client->wait_max_ns)
			client->wait_max_ns = waited_ns;
		if (!thread->own_queue && !thread->idle)
			reach(domain, thread->key);
		left_queue(thread, domain);
	} else if (unlikely(cpu->overtaken == (u32)p->pid)) {
		/* A thread of another class, real-time say, ran when it was asked to stop; now that
		 * it goes on it is asked again. */
		cpu->overtaken = 0;
		scx_bpf_kick_cpu(number, SCX_KICK_PREEMPT);
	}
	chosen(p, thread, cpu, domain, at_ns);
}

void BPF_STRUCT_OPS(allot_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct thread *thread = thread_of(p);
	s32 number = scx_bpf_task_cpu(p);
	u64 at_ns = now_ns();

	if (!thread || !thread->counted)
		return;
	if (thread->queued_at_ns)
		left_queue(thread, domain_of(number));
	else
		charge_last(p, thread, cpu_at(number), at_ns);
	if ((deq_flags & SCX_DEQ_SLEEP) && unlikely(thread->lock_kind || p->pi_blocked_on) &&
	    lend(p, thread))
		return;
	thread->counted = 0;
	member_left(thread->slot, at_ns);
}

s32 BPF_STRUCT_OPS(allot_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct thread *thread, *parent;

	thread = bpf_task_storage_get(&thread_storage, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return -ENOMEM;
	thread->epoch = control.epoch - 1;
	thread->slot = control.rest_slot;
	thread->paying = thread->slot;
	if (!args->fork)
		return 0;
	parent = thread_of(bpf_get_current_task_btf());
	if (parent) {
		thread->inherited = parent->slot;
		thread->inherited_birth = client_at(parent->slot)->birth;
	}
	return 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(allot_init)
{
	u32 number;
	s32 error;

	error = scx_bpf_create_dsq(IDLE_QUEUE, -1);
	if (!error)
		error = scx_bpf_create_dsq(FROZEN_QUEUE, -1);
	if (error)
		return error;
	bpf_for(number, 0, nr_domains) {
		error = scx_bpf_create_dsq(DOMAIN_QUEUE(number), -1);
		if (error)
			return error;
	}
	bpf_for(number, 0, CPUS_MAX) {
		if (number >= nr_cpus)
			break;
		error = scx_bpf_create_dsq(CPU_QUEUE(number), -1);
		if (error)
			return error;
	}
	return 0;
}

/* The number of CPUs is part of what was loaded: load anew. */
static __always_inline void restart(void)
{
	static char text[] = "a CPU came or went";
	unsigned long long none[1] = {};

	scx_bpf_exit_bstr(SCX_ECODE_RSN_HOTPLUG | SCX_ECODE_ACT_RESTART, text, none, sizeof(none));
}

void BPF_STRUCT_OPS(allot_cpu_online, s32 cpu)
{
	restart();
}

void BPF_STRUCT_OPS(allot_cpu_offline, s32 cpu)
{
	restart();
}

void BPF_STRUCT_OPS(allot_exit, struct scx_exit_info *info)
{
	const char *reason = BPF_CORE_READ(info, reason);
	const char *message = BPF_CORE_READ(info, msg);

	bpf_probe_read_kernel_str(exit_reason, sizeof(exit_reason), reason);
	bpf_probe_read_kernel_str(exit_message, sizeof(exit_message), message);
	exit_code = BPF_CORE_READ(info, exit_code);
	exit_kind = BPF_CORE_READ(info, kind);
}

SEC(".struct_ops.link")
struct sched_ext_ops allot_ops = {
	.select_cpu = (void *)allot_select_cpu,
	.enqueue = (void *)allot_enqueue,
	.dispatch = (void *)allot_dispatch,
	.running = (void *)allot_running,
	.quiescent = (void *)allot_quiescent,
	.cpu_online = (void *)allot_cpu_online,
	.cpu_offline = (void *)allot_cpu_offline,
	.init_task = (void *)allot_init_task,
	.init = (void *)allot_init,
	.exit = (void *)allot_exit,
	.timeout_ms = 30000,
	.name = "allot",
};

#include "calls.h"
