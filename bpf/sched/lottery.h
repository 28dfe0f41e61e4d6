/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lottery (Waldspurger & Weihl 1994, paper 1 section 5.3) as a race of clocks.
 *
 * 1. Each client has a clock that strikes at random: in virtual time, the times between strikes
 *    are exponential, on average what a quantum costs the client. Who strikes first is served.
 *    Exponential times have no memory, so at every choice the winner is client i with probability
 *    value_i / total, whatever happened before: each choice is a lottery among the tickets of all
 *    that compete (1994, section 2.2).
 * 2. Compensation (1994, section 4.5): who used the part f of a quantum has its next time
 *    multiplied by f, which is the clock of a client with 1/f as many tickets until it next wins.
 *    f counts nanoseconds really used (paper 3, section 4.2, counted clock ticks).
 * 3. So the lottery is stride (stride.h) with a random stride: a charge is multiplied by a number
 *    drawn from the exponential distribution with mean 1, once for every win. A thread that runs
 *    elsewhere goes on taking part: a strike of its clock while it runs is a win that is kept for
 *    its next choice. Without that, several CPUs bend the shares: who runs cannot be drawn.
 * 4. Wins may come in a row, so a client may lag by LAG_QUANTA before rule 5 of stride.h holds it.
 * 5. Chance: splitmix64 (Steele, Lea & Flood 2014) of a seed, the client's currency and how many
 *    numbers it drew before: a client's numbers do not depend on what others do, nor on which CPU
 *    asks. -ln(u) from a table of 256 parts with interpolation; error below 2^-18.
 * 6. A turn that lasts for several quanta (the machine's host took the CPU away, or nothing
 *    interrupted) is as many wins, and each pays its own number. One number for all of it would
 *    let chance weigh by the square of its length: a single turn of 25 quanta as much as 625.
 *
 * Property: CPU time is in proportion to value; over n wins of its own and others, a client's
 * count differs from binomial by nothing that chance does not explain.
 */
#ifndef ALLOT_LOTTERY_H
#define ALLOT_LOTTERY_H

#define DRAWN_SHIFT 16 /* a drawn number's unit is 2^-16 */

/* ln(1 + i/256) in 2^-24. */
static const u32 logarithms[257] = {
	0,	  65408,    130563,   195465,	260117,	  324521,   388679,   452592,	516263,
	579693,	  642884,   705838,   768556,	831042,	  893295,   955318,   1017112,	1078680,
	1140023,  1201142,  1262040,  1322717,	1383175,  1443417,  1503443,  1563254,	1622854,
	1682242,  1741421,  1800392,  1859157,	1917716,  1976071,  2034225,  2092177,	2149930,
	2207485,  2264843,  2322006,  2378974,	2435750,  2492334,  2548728,  2604933,	2660951,
	2716782,  2772428,  2827890,  2883169,	2938267,  2993184,  3047922,  3102482,	3156865,
	3211073,  3265106,  3318965,  3372652,	3426168,  3479514,  3532691,  3585699,	3638541,
	3691217,  3743728,  3796075,  3848259,	3900281,  3952143,  4003845,  4055388,	4106773,
	4158001,  4209073,  4259990,  4310753,	4361364,  4411821,  4462128,  4512284,	4562291,
	4612149,  4661859,  4711422,  4760840,	4810112,  4859240,  4908225,  4957067,	5005767,
	5054326,  5102746,  5151025,  5199167,	5247170,  5295037,  5342767,  5390362,	5437822,
	5485149,  5532342,  5579403,  5626332,	5673131,  5719799,  5766338,  5812748,	5859030,
	5905184,  5951213,  5997115,  6042892,	6088544,  6134072,  6179477,  6224760,	6269921,
	6314960,  6359879,  6404678,  6449358,	6493919,  6538362,  6582688,  6626896,	6670989,
	6714966,  6758828,  6802576,  6846210,	6889730,  6933138,  6976434,  7019619,	7062693,
	7105656,  7148510,  7191254,  7233890,	7276418,  7318838,  7361152,  7403359,	7445460,
	7487455,  7529346,  7571132,  7612815,	7654394,  7695870,  7737245,  7778517,	7819688,
	7860758,  7901728,  7942599,  7983370,	8024042,  8064615,  8105091,  8145469,	8185751,
	8225936,  8266025,  8306018,  8345917,	8385720,  8425430,  8465045,  8504567,	8543997,
	8583334,  8622579,  8661732,  8700794,	8739766,  8778647,  8817438,  8856140,	8894753,
	8933277,  8971713,  9010061,  9048321,	9086495,  9124581,  9162582,  9200496,	9238326,
	9276070,  9313729,  9351304,  9388795,	9426202,  9463527,  9500768,  9537927,	9575003,
	9611998,  9648912,  9685745,  9722496,	9759168,  9795760,  9832271,  9868704,	9905058,
	9941333,  9977530,  10013648, 10049690, 10085654, 10121541, 10157351, 10193086, 10228744,
	10264327, 10299834, 10335266, 10370624, 10405907, 10441117, 10476252, 10511314, 10546303,
	10581219, 10616063, 10650835, 10685534, 10720162, 10754719, 10789204, 10823619, 10857963,
	10892237, 10926442, 10960577, 10994642, 11028638, 11062566, 11096425, 11130216, 11163939,
	11197595, 11231183, 11264704, 11298158, 11331545, 11364866, 11398122, 11431311, 11464435,
	11497493, 11530487, 11563416, 11596280, 11629080,
};
#define LN2 11629080ULL

static __always_inline u64 mixed(u64 bits)
{
	bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
	bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
	return bits ^ (bits >> 31);
}

/* An exponential number with mean 1, in 2^-16, from 64 uniform bits. */
static __always_inline u64 exponential(u64 bits)
{
	u64 halvings = 1, index, fraction, logarithm;

	/* u = mantissa · 2^-halvings, mantissa in [1, 2). The lowest bit stands for what is below.
	 */
	bits |= 1;
	if (!(bits >> 32)) {
		bits <<= 32;
		halvings += 32;
	}
	if (!(bits >> 48)) {
		bits <<= 16;
		halvings += 16;
	}
	if (!(bits >> 56)) {
		bits <<= 8;
		halvings += 8;
	}
	if (!(bits >> 60)) {
		bits <<= 4;
		halvings += 4;
	}
	if (!(bits >> 62)) {
		bits <<= 2;
		halvings += 2;
	}
	if (!(bits >> 63)) {
		bits <<= 1;
		halvings += 1;
	}
	index = bits >> 55 & 0xff;
	fraction = bits >> 39 & 0xffff;
	logarithm = logarithms[index];
	logarithm += (logarithms[index + 1] - logarithm) * fraction >> 16;
	return (halvings * LN2 - logarithm) >> (24 - DRAWN_SHIFT);
}

static __always_inline u64 lottery_draw(struct client *client)
{
	u64 number = __sync_fetch_and_add(&client->draws, 1);

	return exponential(mixed(mixed(seed + client->id) + number * 0x9e3779b97f4a7c15ULL));
}

/* Rule 6: so many wins of a turn draw their own number; what it has more of pays the mean. */
#define WINS_DRAWN 64

/* What the quanta of a turn cost after its first, which is left with what is no whole quantum. */
__noinline u64 further_wins_ns(struct client *client __arg_nonnull, u64 further_ns)
{
	u64 quantum_ns = control.quantum_ns, cost_ns = 0;
	u32 win;

	bpf_for(win, 0, WINS_DRAWN) {
		if (further_ns < quantum_ns)
			break;
		cost_ns += quantum_ns * lottery_draw(client) >> DRAWN_SHIFT;
		further_ns -= quantum_ns;
	}
	return cost_ns + further_ns;
}

static __always_inline u64 lottery_charge(struct client *client, u64 used_ns, u64 drawn)
{
	u64 further_ns = 0, cost_ns;

	if (used_ns > 1ULL << 32)
		used_ns = 1ULL << 32;
	if (unlikely(used_ns >= 2 * control.quantum_ns))
		further_ns = (used_ns / control.quantum_ns - 1) * control.quantum_ns;
	cost_ns = (used_ns - further_ns) * drawn >> DRAWN_SHIFT;
	if (unlikely(further_ns))
		cost_ns += further_wins_ns(client, further_ns);
	__sync_fetch_and_add(&client->charged_ns, cost_ns);
	return cost_ns;
}

#endif
