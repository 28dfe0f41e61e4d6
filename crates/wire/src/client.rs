//! A client of allotd, for programs that wait for the answer.

use crate::{
    Doctor, ErrorBody, Event, LedgerView, MarketView, Operation, Operations, OperationsDone,
    PolicyView, Sample, SetPolicy, Status, TraceLine, TradersView, Trouble,
};
use reqwest::blocking::{Client as Http, RequestBuilder, Response};
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Lines as IoLines};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why an answer did not come, or what allotd refused.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "cannot reach allotd at {socket}: {cause}. Is it running? Start one with `allotd`, or a \
         private one with `allotd --user`; name another socket with --socket"
    )]
    Unreachable {
        /// Where.
        socket: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// It said no.
    #[error("{}", .0.message)]
    Refused(Trouble),
    /// Not what allotd speaks.
    #[error("allotd's answer cannot be understood: {0}")]
    Garbled(String),
}

/// The socket of the system's allotd.
pub fn default_socket() -> PathBuf {
    PathBuf::from("/run/allot/allotd.sock")
}

/// The socket of the caller's own allotd (`allotd --user`): in $XDG_RUNTIME_DIR, else in /tmp.
pub fn private_socket() -> PathBuf {
    let uid = rustix::process::getuid().as_raw();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => Path::new(&dir).join("allot/allotd.sock"),
        _ => PathBuf::from(format!("/tmp/allot-{uid}/allotd.sock")),
    }
}

/// A connection to allotd.
pub struct Client {
    http: Http,
    socket: PathBuf,
}

/// A stream of newline-delimited JSON values.
pub struct Lines<T> {
    lines: IoLines<BufReader<Response>>,
    what: PhantomData<T>,
}

impl Client {
    /// A client of the allotd that listens there. Connects when first used.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client::with(socket.into(), None)
    }

    fn with(socket: PathBuf, longest: Option<Duration>) -> Client {
        let http = Http::builder()
            .unix_socket(socket.clone())
            .timeout(longest)
            .connect_timeout(Duration::from_secs(10))
            .build()
            .expect("a client without TLS can be built");
        Client { http, socket }
    }

    /// A client for whoever cannot wait for ever: who is not answered in this time is told that allotd
    /// cannot be reached. Not for streams.
    pub fn answered_within(socket: impl Into<PathBuf>, longest: Duration) -> Client {
        Client::with(socket.into(), Some(longest))
    }

    /// Where it connects.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// How allotd is set up.
    pub fn status(&self) -> Result<Status, ClientError> {
        self.get("/v1/status")
    }

    /// The funding graph.
    pub fn ledger(&self) -> Result<LedgerView, ClientError> {
        self.get("/v1/ledger")
    }

    /// All that is offered, exchanged, and was paid.
    pub fn market(&self) -> Result<MarketView, ClientError> {
        self.get("/v1/market")
    }

    /// Those who are named, as [`CurrencyRef`](crate::CurrencyRef) has it: what they consume as, hold,
    /// offer and have exchanged. Those named by an id (`#12`) that are gone are left out.
    pub fn traders(&self, who: &[&str]) -> Result<TradersView, ClientError> {
        let address =
            reqwest::Url::parse_with_params(&url("/v1/traders"), [("who", who.join(","))]);
        let address = address.expect("the host and the path are fixed");
        self.parse(self.send(self.http.get(address))?)
    }

    /// What was measured last.
    pub fn sample(&self) -> Result<Sample, ClientError> {
        self.get("/v1/sample")
    }

    /// What this machine offers.
    pub fn doctor(&self) -> Result<Doctor, ClientError> {
        self.get("/v1/doctor")
    }

    /// Samples, one every `interval`, as they are taken.
    pub fn samples(&self, interval: Duration) -> Result<Lines<Sample>, ClientError> {
        self.stream(&format!("/v1/samples?interval_ms={}", interval.as_millis()))
    }

    /// Events, from `after` on (a journal number) where that is given and still kept, else from
    /// now on.
    pub fn events(&self, after: Option<u64>) -> Result<Lines<Event>, ClientError> {
        match after {
            Some(after) => self.stream(&format!("/v1/events?after={after}")),
            None => self.stream("/v1/events"),
        }
    }

    /// The events that are still kept, from `after` on where that is given; ends with the last.
    pub fn past_events(&self, after: Option<u64>) -> Result<Lines<Event>, ClientError> {
        self.stream(&format!("/v1/events?follow=false&after={}", after.unwrap_or(0)))
    }

    /// What the scheduler does from now on, of one client where its id is given.
    pub fn trace(&self, client: Option<u64>) -> Result<Lines<TraceLine>, ClientError> {
        match client {
            Some(id) => self.stream(&format!("/v1/trace?client={id}")),
            None => self.stream("/v1/trace"),
        }
    }

    /// Who draws.
    pub fn policy(&self) -> Result<PolicyView, ClientError> {
        self.get("/v1/policy")
    }

    /// Let another draw from now on.
    pub fn set_policy(&self, policy: &str) -> Result<PolicyView, ClientError> {
        let body = SetPolicy { policy: policy.to_owned() };
        self.parse(self.send(self.http.put(url("/v1/policy")).json(&body))?)
    }

    /// Do one thing.
    pub fn operate(&self, operation: Operation) -> Result<OperationsDone, ClientError> {
        self.operate_all(vec![operation])
    }

    /// Do several things in one step, or none of them.
    pub fn operate_all(&self, operations: Vec<Operation>) -> Result<OperationsDone, ClientError> {
        let request = self.http.post(url("/v1/operations")).json(&Operations { operations });
        self.parse(self.send(request)?)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.parse(self.send(self.http.get(url(path)))?)
    }

    fn stream<T: DeserializeOwned>(&self, path: &str) -> Result<Lines<T>, ClientError> {
        let response = self.send(self.http.get(url(path)))?;
        Ok(Lines { lines: BufReader::new(response).lines(), what: PhantomData })
    }

    fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.text().map_err(|error| self.unreachable(&error))?;
        match serde_json::from_str::<ErrorBody>(&body) {
            Ok(body) => Err(ClientError::Refused(body.error)),
            Err(_) => Err(ClientError::Garbled(format!("{status}: {body}"))),
        }
    }

    fn parse<T: DeserializeOwned>(&self, response: Response) -> Result<T, ClientError> {
        response.json().map_err(|error| ClientError::Garbled(cause(&error)))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ClientError {
        ClientError::Unreachable { socket: self.socket.clone(), cause: cause(error) }
    }
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            return match self.lines.next()? {
                Ok(line) if line.is_empty() => continue,
                Ok(line) => Some(
                    serde_json::from_str(&line)
                        .map_err(|error| ClientError::Garbled(error.to_string())),
                ),
                Err(error) => Some(Err(ClientError::Garbled(error.to_string()))),
            };
        }
    }
}

fn url(path: &str) -> String {
    format!("http://allotd{path}")
}

/// The innermost cause of an error: what the system said.
fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
