//! allot-policy
