//! The lottery (Waldspurger & Weihl 1994, paper 1 section 5.3) as a race of clocks. The twin of
//! bpf/sched/lottery.h.
//!
//! 1. Each client has a clock that strikes at random: in virtual time, the times between strikes
//!    are exponential, on average what a quantum costs the client. Who strikes first is served.
//!    Exponential times have no memory, so at every choice the winner is client i with probability
//!    valueᵢ / total, whatever happened before: each choice is a lottery among the tickets of all
//!    that compete (1994, section 2.2).
//! 2. Compensation (1994, section 4.5): who used the part f of a quantum has its next time
//!    multiplied by f, which is the clock of a client with 1/f as many tickets until it next wins.
//! 3. So the lottery is [stride](super::stride) with a random stride: a charge is multiplied by a
//!    number drawn from the exponential distribution with mean 1, once for every win. A thread
//!    that runs elsewhere goes on taking part: a strike of its clock while it runs is a win that
//!    is kept for its next choice. Without that, several CPUs bend the shares: who runs cannot be
//!    drawn.
//! 4. Wins may come in a row, so a client may lag by [`stride::LAG_QUANTA`] before its rule 5 holds
//!    it.
//! 5. Chance: splitmix64 (Steele, Lea & Flood 2014) of a seed, the client and how many numbers it
//!    drew before: a client's numbers do not depend on what others do, nor on which CPU asks.
//!    −ln(u) from a table of 256 parts with interpolation; error below 2⁻¹⁵.
//! 6. A turn that lasts for several quanta (the machine's host took the CPU away, or nothing
//!    interrupted) is as many wins, and each pays its own number. One number for all of it would
//!    let chance weigh by the square of its length: a single turn of 25 quanta as much as 625.
//!
//! Property: CPU time is in proportion to value; over n choices among clients that use whole
//! quanta, a client's wins are binomial with p = value / total.

use super::{Client, Key, KeyedPolicy, Settings, stride};

/// A drawn number's unit is 2⁻¹⁶: this stands for 1.
pub const DRAWN_ONE: u64 = 1 << DRAWN_SHIFT;
const DRAWN_SHIFT: u32 = 16;

/// Rule 6: so many wins of a turn draw their own number; what it has more of pays the mean.
const WINS_DRAWN: u32 = 64;

/// The lottery on keys. See the [module](self).
pub struct Lottery {
    quantum_ns: u64,
    seed: u64,
}

impl Lottery {
    /// Without clients.
    pub fn new(settings: Settings) -> Self {
        Lottery { quantum_ns: settings.quantum_ns, seed: settings.seed }
    }
}

impl KeyedPolicy for Lottery {
    fn key(&mut self, client: &mut Client, ahead: u64, waiting: u64, now: u64) -> Key {
        stride::key(client, ahead, waiting, now, self.quantum_ns)
    }

    fn draw(&mut self, client: &mut Client) -> u64 {
        let number = client.draws;
        client.draws += 1;
        let stream = mixed(self.seed.wrapping_add(client.id));
        exponential(mixed(stream.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    }

    fn charge(&mut self, client: &mut Client, used_ns: u64, drawn: u64, _now: u64) -> u64 {
        let used_ns = used_ns.min(1 << 32);
        let mut further_ns = (used_ns / self.quantum_ns).saturating_sub(1) * self.quantum_ns;
        let mut cost_ns = ((used_ns - further_ns) * drawn) >> DRAWN_SHIFT;
        for _ in 0..WINS_DRAWN {
            if further_ns < self.quantum_ns {
                break;
            }
            cost_ns += (self.quantum_ns * self.draw(client)) >> DRAWN_SHIFT;
            further_ns -= self.quantum_ns;
        }
        cost_ns += further_ns;
        client.charged_ns = client.charged_ns.wrapping_add(cost_ns);
        cost_ns
    }
}

/// splitmix64's finaliser: every bit of the input changes about half of the output's.
pub fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// An exponential number with mean 1, in 2⁻¹⁶ ([`DRAWN_ONE`]), from 64 uniform bits: −ln u, where
/// the bits stand for u between 0 and 1. At most 64 · ln 2.
pub fn exponential(bits: u64) -> u64 {
    // u = mantissa · 2^−halvings, mantissa in [1, 2). The lowest bit stands for what is below.
    let bits = bits | 1;
    let halvings = 1 + u64::from(bits.leading_zeros());
    let bits = bits << bits.leading_zeros();
    let index = ((bits >> 55) & 0xff) as usize;
    let fraction = (bits >> 39) & 0xffff;
    let (from, to) = (u64::from(LOGARITHMS[index]), u64::from(LOGARITHMS[index + 1]));
    let logarithm = from + (((to - from) * fraction) >> 16);
    (halvings * u64::from(LOGARITHMS[256]) - logarithm) >> (24 - DRAWN_SHIFT)
}

/// ln(1 + i/256) in 2⁻²⁴.
#[rustfmt::skip]
const LOGARITHMS: [u32; 257] = [
    0, 65_408, 130_563, 195_465, 260_117, 324_521, 388_679, 452_592,
    516_263, 579_693, 642_884, 705_838, 768_556, 831_042, 893_295, 955_318,
    1_017_112, 1_078_680, 1_140_023, 1_201_142, 1_262_040, 1_322_717, 1_383_175, 1_443_417,
    1_503_443, 1_563_254, 1_622_854, 1_682_242, 1_741_421, 1_800_392, 1_859_157, 1_917_716,
    1_976_071, 2_034_225, 2_092_177, 2_149_930, 2_207_485, 2_264_843, 2_322_006, 2_378_974,
    2_435_750, 2_492_334, 2_548_728, 2_604_933, 2_660_951, 2_716_782, 2_772_428, 2_827_890,
    2_883_169, 2_938_267, 2_993_184, 3_047_922, 3_102_482, 3_156_865, 3_211_073, 3_265_106,
    3_318_965, 3_372_652, 3_426_168, 3_479_514, 3_532_691, 3_585_699, 3_638_541, 3_691_217,
    3_743_728, 3_796_075, 3_848_259, 3_900_281, 3_952_143, 4_003_845, 4_055_388, 4_106_773,
    4_158_001, 4_209_073, 4_259_990, 4_310_753, 4_361_364, 4_411_821, 4_462_128, 4_512_284,
    4_562_291, 4_612_149, 4_661_859, 4_711_422, 4_760_840, 4_810_112, 4_859_240, 4_908_225,
    4_957_067, 5_005_767, 5_054_326, 5_102_746, 5_151_025, 5_199_167, 5_247_170, 5_295_037,
    5_342_767, 5_390_362, 5_437_822, 5_485_149, 5_532_342, 5_579_403, 5_626_332, 5_673_131,
    5_719_799, 5_766_338, 5_812_748, 5_859_030, 5_905_184, 5_951_213, 5_997_115, 6_042_892,
    6_088_544, 6_134_072, 6_179_477, 6_224_760, 6_269_921, 6_314_960, 6_359_879, 6_404_678,
    6_449_358, 6_493_919, 6_538_362, 6_582_688, 6_626_896, 6_670_989, 6_714_966, 6_758_828,
    6_802_576, 6_846_210, 6_889_730, 6_933_138, 6_976_434, 7_019_619, 7_062_693, 7_105_656,
    7_148_510, 7_191_254, 7_233_890, 7_276_418, 7_318_838, 7_361_152, 7_403_359, 7_445_460,
    7_487_455, 7_529_346, 7_571_132, 7_612_815, 7_654_394, 7_695_870, 7_737_245, 7_778_517,
    7_819_688, 7_860_758, 7_901_728, 7_942_599, 7_983_370, 8_024_042, 8_064_615, 8_105_091,
    8_145_469, 8_185_751, 8_225_936, 8_266_025, 8_306_018, 8_345_917, 8_385_720, 8_425_430,
    8_465_045, 8_504_567, 8_543_997, 8_583_334, 8_622_579, 8_661_732, 8_700_794, 8_739_766,
    8_778_647, 8_817_438, 8_856_140, 8_894_753, 8_933_277, 8_971_713, 9_010_061, 9_048_321,
    9_086_495, 9_124_581, 9_162_582, 9_200_496, 9_238_326, 9_276_070, 9_313_729, 9_351_304,
    9_388_795, 9_426_202, 9_463_527, 9_500_768, 9_537_927, 9_575_003, 9_611_998, 9_648_912,
    9_685_745, 9_722_496, 9_759_168, 9_795_760, 9_832_271, 9_868_704, 9_905_058, 9_941_333,
    9_977_530, 10_013_648, 10_049_690, 10_085_654, 10_121_541, 10_157_351, 10_193_086, 10_228_744,
    10_264_327, 10_299_834, 10_335_266, 10_370_624, 10_405_907, 10_441_117, 10_476_252, 10_511_314,
    10_546_303, 10_581_219, 10_616_063, 10_650_835, 10_685_534, 10_720_162, 10_754_719, 10_789_204,
    10_823_619, 10_857_963, 10_892_237, 10_926_442, 10_960_577, 10_994_642, 11_028_638, 11_062_566,
    11_096_425, 11_130_216, 11_163_939, 11_197_595, 11_231_183, 11_264_704, 11_298_158, 11_331_545,
    11_364_866, 11_398_122, 11_431_311, 11_464_435, 11_497_493, 11_530_487, 11_563_416, 11_596_280,
    11_629_080,
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_of_logarithms() {
        for (i, &logarithm) in LOGARITHMS.iter().enumerate() {
            let exact = (i as f64 / 256.0).ln_1p() * f64::from(1 << 24);
            assert!((f64::from(logarithm) - exact).abs() <= 0.5001, "{i}: {logarithm} {exact}");
        }
    }

    proptest! {
        #[test]
        fn an_exponential_number_is_a_logarithm(bits: u64, shift in 0u32..64) {
            let bits = bits >> shift;
            let u = (bits | 1) as f64 / 2f64.powi(64);
            let off = exponential(bits) as f64 / DRAWN_ONE as f64 + u.ln();
            // Cut to 2⁻¹⁶; the table adds at most 2⁻¹⁹ and its rounding.
            prop_assert!(off.abs() < 2f64.powi(-15), "{bits:x}: {off}");
        }
    }

    /// Rule 6: 5000 turns of 25 quanta deviate as 125 000 wins do. By one number a turn the
    /// deviation would be five times as much. Seeds are fixed.
    #[test]
    fn a_long_turn_is_as_many_wins() {
        const TURNS: u32 = 5000;
        let settings = Settings::default();
        let mut policy = Lottery::new(settings);
        let mut client = Client::new(1, crate::keyed::WHOLE);
        let costs: Vec<f64> = (0..TURNS)
            .map(|_| {
                let drawn = policy.draw(&mut client);
                let cost_ns = policy.charge(&mut client, 25 * settings.quantum_ns, drawn, 0);
                cost_ns as f64 / settings.quantum_ns as f64
            })
            .collect();
        let n = f64::from(TURNS);
        let mean = costs.iter().sum::<f64>() / n;
        assert!((mean - 25.0).abs() < 4.0 * (25.0 / n).sqrt(), "{mean}");
        // The variance of a gamma distribution's variance: (3 + 6/25 − 1) · 25² / n.
        let variance = costs.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>() / n;
        assert!((variance - 25.0).abs() < 4.0 * 25.0 * (2.24 / n).sqrt(), "{variance}");
        // What is not whole quanta is paid with the first; beyond 64 more, by the mean.
        assert_eq!(policy.charge(&mut client, settings.quantum_ns / 2, 0, 0), 0);
        let draws = client.draws;
        policy.charge(&mut client, 1 << 40, DRAWN_ONE, 0);
        assert_eq!(client.draws, draws + u64::from(WINS_DRAWN));
    }

    #[test]
    fn the_extremes_are_finite() {
        assert_eq!(exponential(u64::MAX), 0);
        assert_eq!(exponential(0), exponential(1));
        assert!(exponential(0) < 45 * DRAWN_ONE);
    }
}
