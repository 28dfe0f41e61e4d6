//! Settings of the negotiation for a client, and a policy for whole groups of clients.

use crate::progress::Source;
use jiff::SignedDuration;
use market::negotiator::Options;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::{CurrencyKind, CurrencyView};

/// The shortest and the longest window.
pub const WINDOW: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
/// The usual lease of an exchange.
pub const LEASE: Duration = Duration::from_secs(300);
const LEASE_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Settings of the negotiation for a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Options of the negotiator itself.
    pub options: Options,
    /// Source of the client's progress.
    pub progress: Option<Source>,
    /// Resources that it may trade; `None` for all.
    pub goods: Option<Vec<String>>,
    /// Greatest part of a good of its own that it ever gives.
    pub most_part: f64,
    /// Time for which exchanges outlive their negotiator.
    pub lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let options = Options::default();
        Settings { options, progress: None, goods: None, most_part: 1.0, lease: LEASE }
    }
}

impl Settings {
    /// The length of a window.
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.options.window_ns)
    }

    fn check(&self) -> Result<(), String> {
        let options = &self.options;
        let of = |name: &str, is_good: bool, what: &str| match is_good {
            true => Ok(()),
            false => Err(format!("{name} must be {what}")),
        };
        let (shortest, longest) = WINDOW;
        of("window", (shortest..=longest).contains(&self.window()), "100ms to 5m")?;
        let least = 4 * self.window() + Duration::from_secs(2);
        let lease = (least..=LEASE_MAX).contains(&self.lease);
        of("lease", lease, "four windows and two seconds at least, a week at most")?;
        of("windows", (2..=100).contains(&options.windows), "2 to 100")?;
        of("settle_windows", options.settle_windows <= 100, "at most 100")?;
        of("offers_max", (1..=16).contains(&options.offers_max), "1 to 16")?;
        of("least_effect", (0.0..=10.0).contains(&options.least_effect), "0 to 10")?;
        of("gap", (0.0..=1.0).contains(&options.gap), "0 to 1")?;
        of("most_part", self.most_part > 0.0 && self.most_part <= 1.0, "above 0, to 1")?;
        of("cost_part", options.cost_part > 0.0 && options.cost_part <= 0.01, "above 0, to 0.01")
    }
}

/// Parses a length of time, as in `5s`.
pub fn span(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is no length of time; write 200ms, 5s or 5m");
    let span: SignedDuration = text.parse().map_err(|_| bad())?;
    Duration::try_from(span).map_err(|_| bad())
}

/// The kind of currency in a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Clients, each on its own.
    #[default]
    Clients,
    /// Currencies made by people, each with all its clients.
    Currencies,
}

/// The condition for a group. All parts must hold; of each list one entry, in which `*` stands for
/// anything.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    pub of: Of,
    /// Owners' names or uids.
    pub users: Option<Vec<String>>,
    /// Owners' groups' names or gids.
    pub groups: Option<Vec<String>>,
    /// Clients' commands, or currencies' names.
    pub names: Option<Vec<String>>,
    /// Names of its issuers.
    pub funded_by: Option<Vec<String>>,
}

/// Settings as arguments or a group give them; `None` stands for the usual.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSettings {
    /// Condition for the group.
    #[serde(rename = "match")]
    pub who: Option<Match>,
    /// Source of the client's progress.
    #[serde(deserialize_with = "parsed")]
    pub progress: Option<Source>,
    /// The least length of a window.
    #[serde(deserialize_with = "spans")]
    pub window: Option<Duration>,
    /// Time for which exchanges outlive their negotiator.
    #[serde(deserialize_with = "spans")]
    pub lease: Option<Duration>,
    /// Resources that it may trade.
    pub goods: Option<Vec<String>>,
    /// Greatest part of a good that it ever gives.
    pub most_part: Option<f64>,
    /// See [`Options`].
    pub windows: Option<usize>,
    /// See [`Options`].
    pub settle_windows: Option<usize>,
    /// See [`Options`].
    pub patience_windows: Option<u32>,
    /// See [`Options`].
    pub least_effect: Option<f64>,
    /// See [`Options`].
    pub gap: Option<f64>,
    /// See [`Options`].
    pub offers_max: Option<usize>,
    /// CPU time of a fault, for clients that count nothing.
    #[serde(deserialize_with = "spans")]
    pub fault: Option<Duration>,
    /// The part of its client's CPU time that it may use itself, at most 0.01.
    pub cost_part: Option<f64>,
}

impl RawSettings {
    /// Fills in the usual values, and checks all.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn settings(&self) -> Result<Settings, String> {
        let usual = Options::default();
        let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let options = Options {
            window_ns: self.window.map_or(usual.window_ns, ns),
            windows: self.windows.unwrap_or(usual.windows),
            settle_windows: self.settle_windows.unwrap_or(usual.settle_windows),
            patience_windows: self.patience_windows.unwrap_or(usual.patience_windows),
            least_effect: self.least_effect.unwrap_or(usual.least_effect),
            gap: self.gap.unwrap_or(usual.gap),
            offers_max: self.offers_max.unwrap_or(usual.offers_max),
            fault_ns: self.fault.map_or(usual.fault_ns, ns),
            cost_part: self.cost_part.unwrap_or(usual.cost_part),
        };
        let settings = Settings {
            options,
            progress: self.progress.clone(),
            goods: self.goods.clone(),
            most_part: self.most_part.unwrap_or(1.0),
            lease: self.lease.unwrap_or(LEASE),
        };
        settings.check()?;
        Ok(settings)
    }
}

fn parsed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Source>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn spans<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    span(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Groups of clients with their settings; the first that matches decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    groups: Vec<(Match, Settings)>,
}

/// The reason why there is no policy.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read {path}: {cause}", path = path.display())]
    Unreadable { path: PathBuf, cause: std::io::Error },
    /// The file cannot be understood.
    #[error("{path}: {cause}", path = path.display())]
    Malformed { path: PathBuf, cause: String },
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn read(path: &Path) -> Result<Policy, PolicyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| PolicyError::Unreadable { path: path.to_owned(), cause })?;
        Policy::parse(&text)
            .map_err(|cause| PolicyError::Malformed { path: path.to_owned(), cause })
    }

    /// Parses a policy; a refusal says what is wrong and where.
    pub fn parse(text: &str) -> Result<Policy, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            group: Vec<toml::Spanned<RawSettings>>,
        }
        let File { group } = toml::from_str(text).map_err(|error| error.to_string())?;
        if group.is_empty() {
            return Err("it has no [[group]]: there is nobody to negotiate for".to_owned());
        }
        let mut groups = Vec::new();
        for group in group {
            let line = text[..group.span().start].lines().count() + 1;
            let group = group.into_inner();
            let at = |why: String| format!("[[group]] at line {line}: {why}");
            let who =
                group.who.clone().ok_or("it does not say whom it is about; add match = { … }");
            let who = who.map_err(|why| at(why.to_owned()))?;
            let settings = group.settings().map_err(at)?;
            if settings.progress == Some(Source::Lines) {
                return Err(at("`lines` are of a command, and a policy runs none".to_owned()));
            }
            groups.push((who, settings));
        }
        Ok(Policy { groups })
    }

    /// The settings for a currency, if a group matches; `funders` are its issuers' names, `group` is its
    /// owner's group's name.
    pub fn settings(
        &self,
        currency: &CurrencyView,
        group: &str,
        funders: &[&str],
    ) -> Option<&Settings> {
        let matches = |rule: &&(Match, Settings)| {
            let one = |patterns: &Option<Vec<String>>, names: &[&str]| match patterns {
                None => true,
                Some(patterns) => patterns
                    .iter()
                    .any(|pattern| names.iter().any(|name| wire::matches(pattern, name))),
            };
            let of = match rule.0.of {
                Of::Clients => currency.kind == CurrencyKind::Client,
                Of::Currencies => matches!(currency.kind, CurrencyKind::Pure | CurrencyKind::Job),
            };
            of && one(&rule.0.users, &[&currency.owner_name, &currency.owner.to_string()])
                && one(&rule.0.groups, &[group, &currency.group.to_string()])
                && one(&rule.0.names, &[&currency.name])
                && one(&rule.0.funded_by, funders)
        };
        self.groups.iter().find(matches).map(|(_, settings)| settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[[group]]
match = { users = ["ci-*"], names = ["make", "cc*"] }
progress = "file:/run/ci/{pid}"
window = "2s"
most_part = 0.3
goods = ["cpu", "disk:sda"]

[[group]]
match = { of = "currencies", groups = ["staff"], funded_by = ["base"] }
lease = "1h"
"#;

    fn currency(kind: CurrencyKind, owner_name: &str, name: &str) -> CurrencyView {
        CurrencyView {
            id: 5,
            name: name.to_owned(),
            kind,
            owner: 1000,
            owner_name: owner_name.to_owned(),
            group: 50,
            mode: String::new(),
            grants: Vec::new(),
            process: None,
            founder: None,
            joined: None,
            members: Vec::new(),
            class: wire::Class::Host,
            limits: Vec::new(),
            placed: false,
            frozen: false,
            resources: Vec::new(),
        }
    }

    #[test]
    fn the_first_group_that_matches_decides() {
        let policy = Policy::parse(GOOD).expect("a good policy");
        let of = |kind, user: &str, name: &str, group: &str, funder: &str| {
            policy.settings(&currency(kind, user, name), group, &[funder]).cloned()
        };
        let make = of(CurrencyKind::Client, "ci-7", "make", "x", "x").expect("the first group's");
        assert_eq!((make.window(), make.most_part), (Duration::from_secs(2), 0.3));
        assert_eq!(make.lease, LEASE);
        assert_eq!(make.progress, Some(Source::File("/run/ci/{pid}".to_owned())));
        assert!(of(CurrencyKind::Client, "ci-7", "cc1plus", "x", "x").is_some());
        assert_eq!(of(CurrencyKind::Client, "ci-7", "sh", "staff", "base"), None);
        assert_eq!(of(CurrencyKind::Pure, "ci-7", "make", "x", "base"), None);
        let staff =
            of(CurrencyKind::Pure, "jo", "build", "staff", "base").expect("the second group's");
        assert_eq!(staff.lease, Duration::from_secs(3600));
        assert_eq!(of(CurrencyKind::Pure, "jo", "build", "staff", "other"), None);
        assert_eq!(of(CurrencyKind::Base, "root", "base", "staff", "base"), None);
    }

    #[test]
    fn a_bad_policy_says_what_is_wrong_and_where() {
        for (text, what) in [
            ("", "no [[group]]"),
            ("[[group]]\nwindow = \"5s\"\n", "line 1: it does not say whom"),
            ("[[group]]\nmatch = {}\nwindows = 6\nwindov = \"5s\"\n", "line 4"),
            ("[[group]]\nmatch = { user = [\"a\"] }\n", "line 2"),
            ("[[group]]\nmatch = {}\nwindow = \"5 parsecs\"\n", "line 3"),
            ("[[group]]\nmatch = {}\nprogress = \"lines\"\n", "line 1: `lines`"),
            ("[[group]]\nmatch = {}\nprogress = \"https://x\"\n", "line 3"),
            ("\n[[group]]\nmatch = {}\nwindow = \"1ms\"\n", "line 2: window must be"),
            ("[[group]]\nmatch = {}\ncost_part = 0.5\n", "cost_part must be"),
            ("[[group]]\nmatch = {}\nlease = \"20s\"\n", "lease must be"),
            ("[[group]]\nmatch = {}\nwindows = 1\n", "windows must be"),
            ("[[group]]\nmatch = {}\nmost_part = 1.5\n", "most_part must be"),
            ("[group]\n", "line 1"),
        ] {
            let error = Policy::parse(text).expect_err(text);
            assert!(error.contains(what), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn the_shipped_example_is_good() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/negotiate.toml");
        Policy::read(&path).expect("a good policy");
        assert!(matches!(Policy::read(Path::new("/no/such")), Err(PolicyError::Unreadable { .. })));
    }

    #[test]
    fn lengths_of_time() {
        assert_eq!(span("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(span("5m"), Ok(Duration::from_secs(300)));
        assert!(span("-5s").is_err() && span("").is_err() && span("5").is_err());
    }
}
