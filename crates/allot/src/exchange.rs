//! `allot exchange` and `allot lend`: base tickets change hands (paper 1, 4.1 to 4.3).

mod show;
mod terms;

use crate::events;
use clap::{Args, Subcommand};
use command_line::users::{own_uid, uid};
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
use std::process::ExitCode;
use terms::{Gift, gift, point, rate, span, until};
use wire::{CurrencyRef, LegRef, OfferPoint, Operation};

/// Exchange base tickets of one resource for those of another
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot exchange offer --for build --give disk:sda=100 --want memory=200\n  \
        allot exchange list"
)]
pub struct ExchangeArgs {
    #[command(subcommand)]
    pub command: ExchangeCommand,
}

/// What can be done with exchanges.
#[derive(Subcommand)]
pub enum ExchangeCommand {
    Offer(OfferArgs),
    Make(MakeArgs),
    /// List what is offered and what is exchanged
    #[command(after_help = "Example:\n  allot exchange list --json")]
    List,
    /// Withdraw an offer; exchanges that came of it stay
    #[command(after_help = "Example:\n  allot exchange cancel 4")]
    Cancel {
        /// Its number, as in `allot exchange list`
        offer: u64,
    },
    /// End an exchange or a loan: all its tickets at once
    #[command(after_help = "Example:\n  allot exchange end 3")]
    End {
        /// Its number, as in `allot exchange list`
        exchange: u64,
    },
    /// Show offers and exchanges as they come and go
    #[command(after_help = "Example:\n  allot exchange watch --json")]
    Watch,
    /// Show what the last clearings paid
    #[command(after_help = "Example:\n  allot exchange prices")]
    Prices,
}

/// Offer base tickets for others; who offers the opposite is found by the dealer
///
/// The dealer splits what two offers leave between them so that both gain in the same proportion.
/// Offers that would meet this one but for the rate are shown.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot exchange offer --for build --give disk:sda=100 --want memory=200M\n  \
        allot exchange offer --for web --give cpu=600 --want memory=300 --point 100:100 --until 18:00"
)]
pub struct OfferArgs {
    /// Whose tickets: NAME, USER:NAME, `#ID` or `pid:PID`; the client of allot's parent process
    /// where it is left out
    #[arg(long = "for", value_name = "NAME")]
    pub party: Option<String>,
    /// What it gives at most, RESOURCE=N; memory=2M is an amount (hard tickets), cpu=200:hard a
    /// fixed share
    #[arg(long, value_name = "RESOURCE=N", value_parser = gift)]
    pub give: Gift,
    /// What it wants for that
    #[arg(long, value_name = "RESOURCE=N", value_parser = gift)]
    pub want: Gift,
    /// Less is welcome too, in parts
    #[arg(long)]
    pub partial: bool,
    /// The fewest tickets that it takes for one that it gives, where that is less than --want says
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub min_rate: Option<f64>,
    /// What it wants for less than all; may be given several times
    #[arg(long, value_name = "GIVE:WANT", value_parser = point)]
    pub point: Vec<OfferPoint>,
    /// The fewest tickets that it takes in one exchange
    #[arg(long, value_name = "N", value_parser = argument_parsing::amount, default_value = "0")]
    pub least: u64,
    /// The most that it has use for; twice what it wants where that is left out
    #[arg(long, value_name = "N", value_parser = argument_parsing::amount)]
    pub most: Option<u64>,
    /// When it ends, and what came of it: 2h, 18:00 or 2026-03-01T12:00
    #[arg(long, value_name = "TIME", value_parser = until)]
    pub until: Option<u64>,
}

/// Exchange between two currencies or clients of your own, without the dealer
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot exchange make --between dhrystone iohog --give disk:sda=400 \
        --want cpu=400"
)]
pub struct MakeArgs {
    /// The first gives what --give says, the second what --want says
    #[arg(long, num_args = 2, value_names = ["NAME", "NAME"], required = true)]
    pub between: Vec<String>,
    /// What the first gives to the second, RESOURCE=N
    #[arg(long, value_name = "RESOURCE=N", value_parser = gift)]
    pub give: Gift,
    /// What it gets for that
    #[arg(long, value_name = "RESOURCE=N", value_parser = gift)]
    pub want: Gift,
    /// When it ends: 2h, 18:00 or 2026-03-01T12:00
    #[arg(long, value_name = "TIME", value_parser = until)]
    pub until: Option<u64>,
}

/// Lend base tickets to somebody for a time
///
/// They are yours again when the time is over, when you or who has them ends it (allot exchange
/// end), or when you no longer have what you lent.
#[derive(Args)]
#[command(after_help = "Example:\n  allot lend --to paul --give cpu=100 --for 2h\n  \
        allot lend --from build --to pid:4711 --give memory=2G --until 18:00")]
pub struct LendArgs {
    /// To whom: a user (the currency that the funding policy keeps for them), or NAME, USER:NAME,
    /// `#ID`, `pid:PID`
    #[arg(long, value_name = "USER|NAME")]
    pub to: String,
    /// What, RESOURCE=N; may be given several times, at most 4
    #[arg(long, value_name = "RESOURCE=N", value_parser = gift, required = true)]
    pub give: Vec<Gift>,
    /// Whose: a currency or client of yours; the currency that the funding policy keeps for you
    /// where it is left out
    #[arg(long, value_name = "NAME")]
    pub from: Option<String>,
    /// For how long, as in 2h or 30m
    #[arg(long = "for", value_name = "TIME", value_parser = span, conflicts_with = "until")]
    pub duration: Option<u64>,
    /// Until when: 18:00 or 2026-03-01T12:00
    #[arg(long, value_name = "TIME", value_parser = until)]
    pub until: Option<u64>,
}

/// Does what was asked.
pub fn exchange(global: &GlobalOptions, args: &ExchangeArgs) -> Result<ExitCode, CliError> {
    match &args.command {
        ExchangeCommand::Offer(args) => return offer(global, args),
        ExchangeCommand::Make(args) => return make(global, args),
        ExchangeCommand::List => show::list(global)?,
        ExchangeCommand::Prices => show::prices(global)?,
        ExchangeCommand::Watch => watch(global)?,
        ExchangeCommand::Cancel { offer } => {
            let operation = Operation::CancelOffer { offer: *offer };
            output::done(global, &connection::connect(global)?.operate(operation)?, None)?;
        }
        ExchangeCommand::End { exchange } => {
            let operation = Operation::EndExchange { exchange: *exchange };
            output::done(global, &connection::connect(global)?.operate(operation)?, None)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn offer(global: &GlobalOptions, args: &OfferArgs) -> Result<ExitCode, CliError> {
    let mut points = args.point.clone();
    let last = match args.min_rate {
        // Both are far below 2⁵³.
        Some(rate) => (args.give.amount as f64 * rate).ceil() as u64,
        None => args.want.amount,
    };
    points.push(OfferPoint { give: args.give.amount, want: last.max(1) });
    points.sort_by_key(|point| point.give);
    let most = args.most.or(args.min_rate.map(|_| args.want.amount.max(last)));
    // Whoever starts allot means itself, not allot.
    let own = || CurrencyRef(format!("pid:{}", std::os::unix::process::parent_id()));
    let operation = Operation::Offer {
        party: Some(args.party.as_deref().map_or_else(own, CurrencyRef::from)),
        gives: args.give.good.clone(),
        wants: args.want.good.clone(),
        points,
        partial: args.partial,
        least: args.least,
        most,
        until_s: args.until,
        lease: None,
    };
    let done = connection::connect(global)?.operate(operation)?;
    output::done(global, &done, Some(&show::offered(&done)))?;
    Ok(ExitCode::SUCCESS)
}

fn make(global: &GlobalOptions, args: &MakeArgs) -> Result<ExitCode, CliError> {
    let [one, other] = &args.between[..] else {
        return Err(CliError::Usage("--between takes two names".to_owned()));
    };
    let legs = vec![leg(one, other, &args.give), leg(other, one, &args.want)];
    exchanged(global, Operation::Exchange { legs, until_s: args.until })
}

/// `allot lend`.
pub fn lend(global: &GlobalOptions, args: &LendArgs) -> Result<ExitCode, CliError> {
    let from = args.from.clone().unwrap_or_else(|| format!("{}:", own_uid()));
    // A user before a currency of that name.
    let plain = !args.to.contains(':') && !args.to.starts_with('#');
    let to = match uid(&args.to) {
        Ok(uid) if plain => format!("{uid}:"),
        _ => args.to.clone(),
    };
    let legs = args.give.iter().map(|gift| leg(&from, &to, gift)).collect();
    let until_s = args.duration.or(args.until);
    exchanged(global, Operation::Exchange { legs, until_s })
}

fn exchanged(global: &GlobalOptions, operation: Operation) -> Result<ExitCode, CliError> {
    let done = connection::connect(global)?.operate(operation)?;
    let made = done.results.first().and_then(|result| result.exchange);
    let news = made.map(|id| format!("exchange {id}"));
    output::done(global, &done, news.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn leg(from: &str, to: &str, gift: &Gift) -> LegRef {
    LegRef { from: from.into(), to: to.into(), good: gift.good.clone(), amount: gift.amount }
}

fn watch(global: &GlobalOptions) -> Result<(), CliError> {
    let client = connection::connect(global)?;
    events::show(global, client.events(None)?, |event| {
        !event.offers.is_empty() || !event.exchanges.is_empty()
    })
}
