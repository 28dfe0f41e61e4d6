#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    front::fuzzing::front(bytes);
});
