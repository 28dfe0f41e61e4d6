//! What is written on standard output.

use crate::cli::Global;
use crate::error::CliError;
use serde::Serialize;
use std::io::{self, Write};
use wire::OperationsDone;

/// One line of JSON.
pub fn json(value: &impl Serialize) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// A text, with the line's end that it lacks.
pub fn text(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// That something was done: nothing for people, who see no news as good news, unless there is
/// something to tell.
pub fn done(global: &Global, done: &OperationsDone, news: Option<&str>) -> Result<(), CliError> {
    match news {
        _ if global.json => json(done),
        Some(news) => text(news),
        None => Ok(()),
    }
}
