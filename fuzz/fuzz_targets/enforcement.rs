#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    enforcement::fuzzing::enforcement(bytes);
});
