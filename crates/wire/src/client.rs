//! A client of allotd, for programs that wait for the answer.

use crate::unix_transport::{NoResolver, UnixConnector};
use crate::{
    ApiError, Doctor, ErrorBody, Event, LedgerView, MarketView, Operation, Operations,
    OperationsDone, PolicyView, Sample, SetPolicy, Status, TraceLine, TradersView,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Lines as IoLines, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::http::Response;
use ureq::typestate::WithBody;
use ureq::{Agent, Body, BodyReader, RequestBuilder};

/// The longest that connecting may take: allotd answers one caller after the other.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The size of a buffer for what is sent, and of one for what is received.
const BUFFER_BYTES: usize = 16 << 10;

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
    Refused(ApiError),
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
    http: Agent,
    socket: PathBuf,
}

/// A stream of newline-delimited JSON values.
pub struct Lines<T> {
    lines: IoLines<BufReader<BodyReader<'static>>>,
    what: PhantomData<T>,
}

impl Client {
    /// A client of the allotd that listens there. Connects when first used.
    pub fn new(socket: impl Into<PathBuf>) -> Client {
        Client::with(socket.into(), None)
    }

    fn with(socket: PathBuf, longest: Option<Duration>) -> Client {
        let config = Agent::config_builder()
            .timeout_global(longest)
            .timeout_connect(Some(CONNECT_LIMIT))
            // allotd's own answers are read, whatever their status.
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent("")
            // Most answers are short, and ureq clears both buffers first.
            .input_buffer_size(BUFFER_BYTES)
            .output_buffer_size(BUFFER_BYTES)
            .build();
        let connector = UnixConnector { socket: socket.clone() };
        let http = Agent::with_parts(config, connector, NoResolver);
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
        let request = self.http.get(url("/v1/traders")).query("who", who.join(","));
        self.parse(self.check(request.call())?)
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

    /// The audit since a time, in ms of Unix time: who changed what. Ends with the last entry.
    pub fn audit(&self, since_unix_ms: u64) -> Result<Lines<Event>, ClientError> {
        self.stream(&format!("/v1/audit?since_unix_ms={since_unix_ms}"))
    }

    /// The trace of the scheduler from now on, of one client where its id is given.
    pub fn trace(&self, client: Option<u64>) -> Result<Lines<TraceLine>, ClientError> {
        match client {
            Some(id) => self.stream(&format!("/v1/trace?client={id}")),
            None => self.stream("/v1/trace"),
        }
    }

    /// The current scheduling policy.
    pub fn policy(&self) -> Result<PolicyView, ClientError> {
        self.get("/v1/policy")
    }

    /// Let another draw from now on.
    pub fn set_policy(&self, policy: &str) -> Result<PolicyView, ClientError> {
        let body = SetPolicy { policy: policy.to_owned() };
        self.send(self.http.put(url("/v1/policy")), &body)
    }

    /// Do one thing.
    pub fn operate(&self, operation: Operation) -> Result<OperationsDone, ClientError> {
        self.operate_all(vec![operation])
    }

    /// Do several things in one step, or none of them.
    pub fn operate_all(&self, operations: Vec<Operation>) -> Result<OperationsDone, ClientError> {
        self.send(self.http.post(url("/v1/operations")), &Operations { operations })
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.parse(self.check(self.http.get(url(path)).call())?)
    }

    fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder<WithBody>,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).expect("requests are plain data");
        self.parse(self.check(request.content_type("application/json").send(&body))?)
    }

    fn stream<T: DeserializeOwned>(&self, path: &str) -> Result<Lines<T>, ClientError> {
        let response = self.check(self.http.get(url(path)).call())?;
        let reader = BufReader::new(response.into_body().into_reader());
        Ok(Lines { lines: reader.lines(), what: PhantomData })
    }

    /// The answer, if allotd gave one and did what was asked.
    fn check(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, ClientError> {
        let unreachable =
            |cause: String| ClientError::Unreachable { socket: self.socket.clone(), cause };
        let response = answer.map_err(|error| unreachable(cause(error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = read(response).map_err(|error| unreachable(error.to_string()))?;
        match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) => Err(ClientError::Refused(body.error)),
            Err(_) => {
                let body = String::from_utf8_lossy(&body);
                Err(ClientError::Garbled(format!("{status}: {body}")))
            }
        }
    }

    fn parse<T: DeserializeOwned>(&self, response: Response<Body>) -> Result<T, ClientError> {
        let body = read(response).map_err(|error| ClientError::Garbled(error.to_string()))?;
        serde_json::from_slice(&body).map_err(|error| ClientError::Garbled(error.to_string()))
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

/// The whole body, however long it is.
fn read(response: Response<Body>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    response.into_body().into_reader().read_to_end(&mut body)?;
    Ok(body)
}

/// What the system said.
fn cause(error: ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        other => other.to_string(),
    }
}
