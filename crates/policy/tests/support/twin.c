/*
 * The kernel's policies (bpf/sched) outside the kernel: reads steps, answers what each gives and
 * leaves behind. What kernel.h and main.bpf.c have around them stands here again.
 */
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>

#include "abi.h"

typedef __u64 u64;
typedef __s64 s64;
typedef __u32 u32;
#define SEC(name)
#undef __always_inline
#define __always_inline inline
#define __noinline
#define __arg_nonnull
#define unlikely(condition) (condition)
#define bpf_for(i, start, end) for ((i) = (start); (i) < (end); (i)++)

static struct control control;
static u32 nr_cpus;
static u64 seed, service;
static const u32 nr_domains = 1;
static const unsigned char cpu_domain[CPUS_MAX];
static struct {
	u64 turn_ns;
	u32 queued;
} domains[DOMAINS_MAX];

static u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

static bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static u64 later(u64 a, u64 b)
{
	return before(a, b) ? b : a;
}

#include "sched/policy.h"
#include "sched/lottery.h"
#include "sched/stride.h"
#include "sched/mtr_ls.h"

static u64 step(u32 operation, struct client *client, u64 argument, u64 now)
{
	switch (operation) {
	case 0:
		if (control.policy == POLICY_MTR_LS)
			mtr_ls_join(client);
		return client->position;
	case 1:
		return control.policy == POLICY_MTR_LS ?
			       client->position :
			       stride_key(client, client->due_ns, argument, now);
	case 2:
		switch (control.policy) {
		case POLICY_MTR_LS:
			return mtr_ls_charge(client, argument);
		case POLICY_STRIDE:
			return stride_charge(client, argument);
		default:
			return lottery_charge(client, argument, lottery_draw(client));
		}
	case 3:
		return control.policy == POLICY_MTR_LS ? mtr_ls_slice(client, argument) : argument;
	default:
		return control.policy == POLICY_MTR_LS ? mtr_ls_settled(client, argument) :
							 stride_settled(client);
	}
}

int main(void)
{
	static struct client clients[16];
	unsigned long long number[8];
	unsigned int i;

	for (i = 0; i < 6; i++)
		if (scanf("%llu", &number[i]) != 1)
			return 1;
	control.policy = number[0];
	nr_cpus = number[1];
	control.quantum_ns = number[2];
	control.round_ns = number[3];
	seed = number[4];
	service = number[5];
	for (i = 0; i < 16; i++)
		clients[i].id = i;
	while (scanf("%llu %llu %llu %llu %llu %llu %llu", &number[0], &number[1], &number[2],
		     &number[3], &number[4], &number[5], &number[6]) == 7) {
		struct client *client = &clients[number[1] & 15];
		u64 value = number[3], answer;

		client->value = value;
		client->rate = value < VALUE_MIN ? VALUE_MIN : value;
		client->inverse = (1ULL << 63) / client->rate;
		client->due_ns = number[4];
		client->left_at_ns = number[5];
		domains[0].queued = number[6];
		answer = step(number[0], client, number[2], service);
		if (number[0] == 2)
			service += answer;
		printf("%llu %llu %llu %llu %llu %llu %llu %llu\n", (unsigned long long)answer,
		       (unsigned long long)client->due_ns, (unsigned long long)client->charged_ns,
		       (unsigned long long)client->draws, (unsigned long long)client->left,
		       (unsigned long long)client->position, (unsigned long long)client->next_place,
		       (unsigned long long)service);
	}
	return 0;
}
