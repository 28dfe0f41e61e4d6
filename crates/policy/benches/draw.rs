//! A draw and its charges, against the number of clients: O(log n).
fn main() {}
