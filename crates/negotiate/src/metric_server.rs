//! The server that exports a client's metric, asked over HTTP.
//!
//! Others run it, so its answer may take a second and 4 MiB, no more, and cannot send the negotiator to
//! another host: else the owner of one port could choose which hosts this user's negotiator asks.

use std::io::Read;
use std::time::Duration;
use ureq::http::uri::{Authority, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectionDetails, Connector, TcpConnector};
use ureq::{Agent, Error};

const ANSWER_BYTES: u64 = 4 << 20;
const ANSWER_WITHIN: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// A server and the page that shows the metric.
#[derive(Debug)]
pub struct MetricServer {
    http: Agent,
    page: Uri,
}

impl MetricServer {
    /// The server of an address such as `http://HOST:PORT/PATH`.
    ///
    /// # Errors
    /// When the address has no such form.
    pub fn new(url: &str) -> Result<MetricServer, String> {
        let page: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let host = page.authority().cloned().ok_or("it names no host")?;
        let config = Agent::config_builder()
            .timeout_global(Some(ANSWER_WITHIN))
            .proxy(None)
            .user_agent(concat!("allot/", env!("CARGO_PKG_VERSION")))
            .build();
        let connector = OneHost(host).chain(TcpConnector::default());
        let http = Agent::with_parts(config, connector, DefaultResolver::default());
        Ok(MetricServer { http, page })
    }

    /// Returns the page's text.
    ///
    /// # Errors
    /// When the server cannot be asked, or answers with an error or with a redirect to another host.
    pub fn ask(&self) -> Result<String, String> {
        let answer = self.http.get(&self.page).call().map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        let read = answer.into_body().into_reader().take(ANSWER_BYTES).read_to_end(&mut text);
        read.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Refuses connections to other hosts and ports than this one.
#[derive(Debug)]
struct OneHost(Authority);

impl Connector for OneHost {
    type Out = ();

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<()>, Error> {
        match details.uri.authority() {
            Some(host) if *host == self.0 => Ok(None),
            _ => Err(Error::Io(std::io::Error::other(format!(
                "it redirects to {}, another host: name that one",
                details.uri
            )))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// Serves answers, one a connection, and tells which paths were asked for.
    fn serve(listener: TcpListener, answers: Vec<String>) -> std::thread::JoinHandle<Vec<String>> {
        std::thread::spawn(move || {
            let served = answers.into_iter().map(|answer| {
                let (mut stream, _) = listener.accept().expect("a caller");
                let mut request = [0; 1024];
                let length = stream.read(&mut request).expect("a request");
                stream.write_all(answer.as_bytes()).expect("it listens");
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                request.split(' ').nth(1).unwrap_or_default().to_owned()
            });
            served.collect()
        })
    }

    fn redirect(to: &str) -> String {
        format!(
            "HTTP/1.1 302 Found\r\nlocation: {to}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )
    }

    #[test]
    fn redirects_stay_on_their_host() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let elsewhere = format!("http://{}/", other.local_addr().expect("an address"));
        let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n41";
        let server = MetricServer::new(&format!("http://{address}/old")).expect("an address");
        let answers = vec![redirect("/new"), answer.to_owned(), redirect(&elsewhere)];
        let served = serve(listener, answers);
        assert_eq!(server.ask().as_deref(), Ok("41"));
        let refused = server.ask().expect_err("it is another host");
        assert!(refused.contains("another host"), "{refused}");
        assert_eq!(served.join().expect("it served"), ["/old", "/new", "/old"]);
        other.set_nonblocking(true).expect("a socket");
        assert!(other.accept().is_err(), "nobody asks there");
    }

    #[test]
    fn errors_are_no_answers() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 2\r\n\r\n41";
        let served = serve(listener, vec![answer.to_owned()]);
        let server = MetricServer::new(&format!("http://{address}/")).expect("an address");
        assert!(server.ask().expect_err("it is not there").contains("404"));
        served.join().expect("it served");
        assert!(MetricServer::new("http:///x").is_err());
    }
}
