//! allotd
fn main() {}
