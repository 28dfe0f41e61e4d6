#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allot_negotiate::fuzzing::negotiate(bytes);
});
