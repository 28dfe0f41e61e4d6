//! A client's progress, as it counts it itself.
//!
//! Counts are in thousandths, because a metric may have a fraction. A negotiator may read files and ask
//! servers of other users, so none of them can make it wait for long or read much.

use crate::metric_server::MetricServer;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most of a file that is read.
const FILE_BYTES: u64 = 4096;

/// The place where a client's progress stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The first number in a file.
    File(String),
    /// The sum of a Prometheus metric's series; without a name, the first number of the answer.
    Url {
        /// The page's address.
        url: String,
        /// The metric: `name`, or `name{label="value"}`.
        metric: Option<String>,
    },
    /// Lines that a command writes.
    Lines,
}

/// The reason why progress is not known.
#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    /// The file cannot be read.
    #[error("progress cannot be read from {path}: {cause}")]
    File { path: String, cause: std::io::Error },
    /// The server cannot be asked.
    #[error("progress cannot be read from {url}: {cause}")]
    Url { url: String, cause: String },
    /// The file or page has no number.
    #[error("{place} says no number from 0 up that could be progress")]
    NoNumber { place: String },
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        match text.split_once(':') {
            None if text == "lines" => Ok(Source::Lines),
            Some(("file", path)) if !path.is_empty() => Ok(Source::File(path.to_owned())),
            Some(("url", url)) if url.starts_with("http://") => {
                let (url, metric) = match url.split_once('#') {
                    Some((url, metric)) => (url, Some(metric.to_owned())),
                    None => (url, None),
                };
                Ok(Source::Url { url: url.to_owned(), metric: metric.filter(|it| !it.is_empty()) })
            }
            Some(("url", _)) => {
                Err("progress is read over plain http://, from this machine".to_owned())
            }
            _ => Err(format!(
                "`{text}` is no progress; write file:PATH, url:http://HOST/PATH#METRIC or lines"
            )),
        }
    }
}

/// The client, for templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Its first process.
    pub pid: Option<u32>,
    /// Its id in the ledger.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its owner's name.
    pub user: String,
}

impl Source {
    /// Fills in `{pid}`, `{id}`, `{name}` and `{user}`.
    ///
    /// # Errors
    /// When there is no process, or a name would lead to another place.
    pub fn of(&self, whose: &Whose) -> Result<Source, String> {
        let fill = |text: &str| {
            let mut filled = text.to_owned();
            let values = [
                ("{pid}", whose.pid.map(|pid| pid.to_string())),
                ("{id}", Some(whose.id.to_string())),
                ("{name}", Some(whose.name.clone())),
                ("{user}", Some(whose.user.clone())),
            ];
            for (what, value) in values.into_iter().filter(|(what, _)| text.contains(what)) {
                let value = value.ok_or(format!("#{} has no process for {what}", whose.id))?;
                let plain = |c: char| c.is_alphanumeric() || "._-@".contains(c);
                if !value.chars().all(plain) || value.is_empty() || value.starts_with('.') {
                    return Err(format!("`{value}` cannot stand for {what} in {text}"));
                }
                filled = filled.replace(what, &value);
            }
            Ok(filled)
        };
        Ok(match self {
            Source::File(path) => Source::File(fill(path)?),
            Source::Url { url, metric } => {
                Source::Url { url: fill(url)?, metric: metric.as_deref().map(fill).transpose()? }
            }
            Source::Lines => Source::Lines,
        })
    }
}

/// Reads progress.
#[derive(Debug)]
pub enum Progress {
    /// The number of lines that a command has written so far.
    Lines(Arc<AtomicU64>),
    /// The first number in a file.
    File(String),
    /// A metric, or the first number, on a server's page.
    Metric {
        /// The page's address.
        url: String,
        /// The metric's name.
        metric: Option<String>,
        /// Its server, or why the address names none.
        server: Result<MetricServer, String>,
    },
}

impl Progress {
    /// A reader of a source; `lines` is the count of a command's lines.
    pub fn new(source: Source, lines: Arc<AtomicU64>) -> Progress {
        match source {
            Source::Lines => Progress::Lines(lines),
            Source::File(path) => Progress::File(path),
            Source::Url { url, metric } => {
                let server = MetricServer::new(&url);
                Progress::Metric { url, metric, server }
            }
        }
    }

    /// Returns the progress, in thousandths.
    ///
    /// # Errors
    /// [`ProgressError`].
    pub fn read(&self) -> Result<u64, ProgressError> {
        match self {
            Progress::Lines(lines) => Ok(lines.load(Ordering::Relaxed).saturating_mul(1000)),
            Progress::File(path) => {
                let text = read_file(path)
                    .map_err(|cause| ProgressError::File { path: path.clone(), cause })?;
                let number = progress_in(&text, None);
                number.ok_or_else(|| ProgressError::NoNumber { place: path.clone() })
            }
            Progress::Metric { url, metric, server } => {
                let answer = server.as_ref().map_err(String::clone).and_then(MetricServer::ask);
                let text =
                    answer.map_err(|cause| ProgressError::Url { url: url.clone(), cause })?;
                progress_in(&text, metric.as_deref()).ok_or_else(|| {
                    let place = metric.as_ref().map(|metric| format!("{metric} at {url}"));
                    ProgressError::NoNumber { place: place.unwrap_or_else(|| url.clone()) }
                })
            }
        }
    }
}

fn read_file(path: &str) -> std::io::Result<String> {
    // A pipe at that place stops nobody.
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblock).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the progress that a file or a page tells, in thousandths: a metric's, or the first number.
pub fn progress_in(text: &str, metric: Option<&str>) -> Option<u64> {
    let number = match metric {
        Some(metric) => sum_of(text, metric),
        None => first_number(text),
    };
    number.and_then(thousandths)
}

fn first_number(text: &str) -> Option<f64> {
    let begins = |c: char| c.is_ascii_digit();
    let from = text.find(begins)?;
    // A negative number does not count up.
    if text[..from].ends_with('-') {
        return None;
    }
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let text = &text[from..];
    let upto = text.find(|c| !number(c)).unwrap_or(text.len());
    text[..upto].trim_end_matches('.').parse().ok()
}

/// The sum of all series of a metric in Prometheus's exposition format; one series where the metric names
/// its labels.
fn sum_of(text: &str, metric: &str) -> Option<f64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(metric)?;
        let rest = match rest.strip_prefix('{') {
            Some(labels) => &labels[labels.rfind('}')? + 1..],
            None => rest,
        };
        let mut words = rest.strip_prefix([' ', '\t'])?.split_ascii_whitespace();
        words.next()?.parse::<f64>().ok()
    };
    let values: Vec<f64> = text.lines().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn thousandths(number: f64) -> Option<u64> {
    (number >= 0.0 && number.is_finite()).then(|| (number * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn sources_are_read() {
        let url = |url: &str, metric: Option<&str>| Source::Url {
            url: url.to_owned(),
            metric: metric.map(str::to_owned),
        };
        assert_eq!("lines".parse(), Ok(Source::Lines));
        assert_eq!("file:/a:b".parse(), Ok(Source::File("/a:b".to_owned())));
        assert_eq!("url:http://x/m#done".parse(), Ok(url("http://x/m", Some("done"))));
        assert_eq!("url:http://x/m".parse(), Ok(url("http://x/m", None)));
        for bad in ["", "file:", "line", "url:https://x/m#done", "url:ftp://x"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }

    #[test]
    fn templates_lead_nowhere_else() {
        let whose = |name: &str| Whose {
            pid: Some(5),
            id: 9,
            name: name.to_owned(),
            user: "jo".to_owned(),
        };
        let source: Source = "file:/run/{user}/{name}-{pid}-{id}".parse().expect("a source");
        let filled = source.of(&whose("make")).expect("plain names");
        assert_eq!(filled, Source::File("/run/jo/make-5-9".to_owned()));
        for bad in ["../etc", "a/b", "..", "a b", ""] {
            assert!(source.of(&whose(bad)).is_err(), "{bad}");
        }
        assert!(source.of(&Whose { pid: None, ..whose("make") }).is_err());
        let fixed: Source = "file:/run/x".parse().expect("a source");
        assert_eq!(fixed.of(&whose("a/b")), Ok(fixed.clone()), "what is not used does not matter");
    }

    #[test]
    fn numbers_are_found() {
        assert_eq!(first_number("done: 12 of 30\n"), Some(12.0));
        assert_eq!(first_number("7.5\n"), Some(7.5));
        assert_eq!(first_number("12."), Some(12.0));
        assert_eq!(
            (first_number(""), first_number("none"), first_number("-3")),
            (None, None, None)
        );
        let text =
            "# TYPE done counter\ndone{a=\"x y\"} 3\ndone{a=\"}\"} 4.5 1700000000\ndone_total 9\n";
        assert_eq!(sum_of(text, "done"), Some(7.5));
        assert_eq!(sum_of(text, "done{a=\"x y\"}"), Some(3.0));
        assert_eq!(sum_of(text, "done_total"), Some(9.0));
        assert_eq!(sum_of(text, "don"), None);
        assert_eq!(
            (thousandths(1.5), thousandths(-1.0), thousandths(f64::NAN)),
            (Some(1500), None, None)
        );
    }

    #[test]
    fn files_and_servers_are_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("count");
        let of = |source: Source| Progress::new(source, Arc::default());
        let file = of(Source::File(path.display().to_string()));
        assert!(matches!(file.read(), Err(ProgressError::File { .. })));
        std::fs::write(&path, "none").expect("written");
        assert!(matches!(file.read(), Err(ProgressError::NoNumber { .. })));
        std::fs::write(&path, "41").expect("written");
        assert_eq!(file.read().expect("a number"), 41_000);
        std::fs::remove_file(&path).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe");
        assert!(file.read().is_err(), "it would wait for ever");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).expect("a request");
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\ndone 3\n";
            stream.write_all(answer.as_bytes()).expect("it listens");
        });
        let url = format!("url:http://{address}/metrics#done");
        let url = of(url.parse().expect("a source"));
        assert_eq!(url.read().expect("a number"), 3000);
        server.join().expect("it served");
        assert!(matches!(url.read(), Err(ProgressError::Url { .. })), "nobody listens");
        let lines = Arc::new(AtomicU64::new(2));
        assert_eq!(Progress::new(Source::Lines, lines).read().expect("a number"), 2000);
    }
}
