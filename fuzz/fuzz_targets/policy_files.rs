#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    allotd::fuzzing::policy_files(bytes);
});
