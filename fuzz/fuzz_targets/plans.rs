#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    valuation::fuzzing::plans(bytes);
    enforcer::fuzzing::plans(bytes);
    enforce_scx::fuzzing::plans(bytes);
});
