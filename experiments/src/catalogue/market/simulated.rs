//! Many clients with mixed needs: what trade through the dealer comes to, beside other ways to
//! divide.

use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::report::plot::{Line, Panel, plain_panel};
use crate::simulation::plan::{Plan, Words};
use sim::machine::chance::Chance;
use sim::trading::bazaar::{Traded, trade};
use sim::trading::needs::{Bundle, GOODS, Needs};
use sim::trading::rivals::{Karma, dominant_shares};

/// Tickets of each good that every client has.
const OWN: u64 = 1000;
/// The most rounds of trade.
const ROUNDS: usize = 30;
/// Quanta: in each, all needs are drawn anew.
const QUANTA: usize = 4;
/// Karma's slices: the fair number, and the guaranteed number.
const SLICES: (i64, i64) = (20, 10);
/// Numbers of clients, each with the seconds from which on it is simulated: many take some time.
const SIZES: [(usize, f64); 3] = [(1_000, 0.0), (10_000, 10.0), (100_000, 100.0)];
/// Number of clients whose envy is examined, and of others for each of them.
const ENVY: (usize, usize) = (500, 200);

/// The score of a way to divide.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    /// Geometric mean of progress, by that with equal shares of everything.
    gain: f64,
    /// Jain's index of the same.
    jain: f64,
    /// Part of the clients that have less than with equal shares.
    worse: f64,
    /// Part of the clients that would rather have what another has.
    envious: f64,
}

const WAYS: [&str; 3] = ["the dealer", "equal dominant shares", "Karma"];

fn score(needs: &[Needs], bundles: &[Bundle], chance: &mut Chance) -> Score {
    let equal = [OWN as f64; GOODS];
    let times: Vec<f64> = needs
        .iter()
        .zip(bundles)
        .map(|(needs, bundle)| needs.utility(bundle) / needs.utility(&equal))
        .collect();
    let count = times.len() as f64;
    let (sum, squares) = (times.iter().sum::<f64>(), times.iter().map(|it| it * it).sum::<f64>());
    let mut envious = 0;
    for _ in 0..ENVY.0 {
        let client = chance.below(needs.len() as u64) as usize;
        let own = needs[client].utility(&bundles[client]);
        let mut rather = |_: usize| {
            let other = chance.below(needs.len() as u64) as usize;
            needs[client].utility(&bundles[other]) > own * 1.001
        };
        envious += usize::from((0..ENVY.1).any(&mut rather));
    }
    Score {
        gain: (times.iter().map(|it| it.max(1e-9).ln()).sum::<f64>() / count).exp(),
        jain: sum * sum / (count * squares),
        worse: times.iter().filter(|it| **it < 0.999).count() as f64 / count,
        envious: envious as f64 / ENVY.0 as f64,
    }
}

/// Returns Karma's bundles: each good by itself, of which a client demands its weight's part of all
/// that it has.
fn by_karma(karma: &mut [Karma], needs: &[Needs]) -> Vec<Bundle> {
    let slice = OWN as f64 / SLICES.0 as f64;
    let mut bundles = vec![[0.0; GOODS]; needs.len()];
    for (good, karma) in karma.iter_mut().enumerate() {
        let demand = |needs: &Needs| {
            (needs.weights[good] * GOODS as f64 * SLICES.0 as f64).round().max(1.0) as i64
        };
        let demands: Vec<i64> = needs.iter().map(demand).collect();
        let got = karma.allocate(&demands);
        // Karma gives nobody more than it demands. A machine lets nothing idle: all get what is
        // left.
        let left = SLICES.0 as f64 - got.iter().sum::<i64>() as f64 / needs.len() as f64;
        for (bundle, got) in bundles.iter_mut().zip(got) {
            bundle[good] = (got as f64 + left) * slice;
        }
    }
    bundles
}

struct Market {
    clients: usize,
    scores: [Score; 3],
    traded: Traded,
}

fn market(seed: u64, clients: usize) -> Market {
    let mut chance = Chance::new(seed, clients as u64);
    let mut karma = vec![Karma::new(clients, SLICES.0, SLICES.1); GOODS];
    let mut sums = [Score::default(); 3];
    let mut last = Traded::default();
    for _ in 0..QUANTA {
        let needs: Vec<Needs> = (0..clients).map(|_| Needs::draw(&mut chance)).collect();
        last = trade(&needs, OWN, ROUNDS);
        let ways = [
            last.bundles.clone(),
            dominant_shares(&needs, OWN as f64),
            by_karma(&mut karma, &needs),
        ];
        for (sum, bundles) in sums.iter_mut().zip(&ways) {
            let score = score(&needs, bundles, &mut chance);
            sum.gain += score.gain / QUANTA as f64;
            sum.jain += score.jain / QUANTA as f64;
            sum.worse += score.worse / QUANTA as f64;
            sum.envious += score.envious / QUANTA as f64;
        }
    }
    Market { clients, scores: sums, traded: last }
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let sizes = SIZES.into_iter().filter(|(_, from_seconds)| plan.seconds >= *from_seconds);
    let markets: Vec<Market> = sizes.map(|(clients, _)| market(plan.seed, clients)).collect();
    let mut findings = Findings::default();
    for market in &markets {
        judge(market, &mut findings);
    }
    let words = Words {
        policy: format!("{OWN} tickets each of {GOODS} goods; mean of {QUANTA} draws of needs"),
        default: "no trade: equal shares of everything",
        units: "gain: times of the progress with equal shares, geometric mean; parts of the clients",
    };
    plan.finish(words, findings, vec![("market", vec![panel(&markets)])])
}

fn judge(market: &Market, findings: &mut Findings) {
    for (way, score) in WAYS.iter().zip(&market.scores) {
        let what = format!("{} clients: {way}", market.clients);
        let number = |quantity: &str, value: f64, equal: f64| {
            Comparison::new(&what, quantity, "").measured(Some(value), Some(equal))
        };
        findings.compare(number("gain", score.gain, 1.0));
        findings.compare(number("Jain's index", score.jain, 1.0));
        findings.compare(number("worse off", score.worse, 0.0));
        findings.compare(number("envious", score.envious, 0.0));
    }
    let Traded { rounds, offers, exchanges, rings, .. } = market.traded;
    findings.note(format!(
        "{} clients: {offers} offers and {exchanges} exchanges ({rings} of them rings of three) in {rounds} clearings; how \
         long a clearing takes stands in docs/exchanges-dealer.md",
        market.clients
    ));
    let [dealer, dominant, karma] = market.scores;
    let clients = market.clients;
    findings.check(
        format!("{clients} clients: by the dealer nobody is worse off ({:.3})", dealer.worse),
        dealer.worse == 0.0,
    );
    findings.check(
        format!(
            "{clients} clients: the dealer gains more than nothing ({:.2}; equal dominant shares {:.2}, Karma {:.2})",
            dealer.gain, dominant.gain, karma.gain
        ),
        dealer.gain > 1.05,
    );
}

fn panel(markets: &[Market]) -> Panel {
    let line = |(way, name): (usize, &&str)| Line {
        name: (*name).to_owned(),
        points: markets
            .iter()
            .enumerate()
            .map(|(at, it)| (at as f64, it.scores[way].gain))
            .collect(),
        dashed: false,
    };
    let lines = WAYS.iter().enumerate().map(line).collect();
    let panel = plain_panel("Progress", "clients", "times of that with equal shares", lines);
    Panel { x_names: markets.iter().map(|it| it.clients.to_string()).collect(), ..panel }
}
