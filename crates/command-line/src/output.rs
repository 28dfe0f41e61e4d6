//! Output: JSON and text on standard output.

use crate::connection::GlobalOptions;
use crate::error::{self, CliError};
use crate::style::deceives;
use serde::Serialize;
use std::io::{self, Write};
use wire::OperationsDone;

/// Writes one line of JSON.
pub fn json(value: &impl Serialize) -> Result<(), CliError> {
    let line = json_line(value)? + "\n";
    io::stdout().lock().write_all(line.as_bytes())?;
    Ok(())
}

/// One line of JSON. What deceives a reader at a terminal is escaped, which programs read as the same.
pub fn json_line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut line = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut line, Escaping))?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// As compact JSON, but for what [`deceives`].
struct Escaping;

impl serde_json::ser::Formatter for Escaping {
    fn write_string_fragment<W>(&mut self, out: &mut W, text: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        let mut units = [0; 2];
        for part in text.split_inclusive(deceives) {
            let last = part.chars().next_back().filter(|c| deceives(*c));
            let plain = part.len() - last.map_or(0, char::len_utf8);
            out.write_all(&part.as_bytes()[..plain])?;
            for unit in last.iter().flat_map(|c| c.encode_utf16(&mut units).to_vec()) {
                write!(out, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// Writes a text, and ends its last line.
pub fn text(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Warns of what was done and has no effect now.
pub fn warn_of_no_effect(done: &OperationsDone) {
    let mut notes: Vec<&String> = done.results.iter().flat_map(|result| &result.notes).collect();
    notes.dedup();
    notes.into_iter().for_each(|note| error::warn(note));
}

/// Writes the result of an operation: for people only where there is news.
pub fn done(
    global: &GlobalOptions,
    done: &OperationsDone,
    news: Option<&str>,
) -> Result<(), CliError> {
    if !global.json {
        warn_of_no_effect(done);
    }
    match news {
        _ if global.json => json(done),
        Some(news) => text(news),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_deceives_a_terminal_is_escaped_and_read_back_the_same() {
        // C1, an order of text from right to left, a tag, one of two UTF-16 units that is harmless.
        let name = "a\u{9b}31m\u{202e}b\u{e0041}c\u{1f600}\n\u{7f}";
        let line = json_line(&name).expect("JSON");
        assert_eq!(line, "\"a\\u009b31m\\u202eb\\udb40\\udc41c\u{1f600}\\n\\u007f\"");
        assert_eq!(serde_json::from_str::<String>(&line).expect("JSON"), name);
        assert_eq!(crate::style::clean(name), "a?31m?b?c\u{1f600}??");
    }
}
