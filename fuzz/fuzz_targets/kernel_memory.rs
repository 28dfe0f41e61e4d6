#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    enforce_scx::fuzzing::kernel_memory(bytes);
});
