//! Compiles the schedulers in bpf/sched and writes their Rust skeletons.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first clang that had all that the schedulers use.
const OLDEST_CLANG: u32 = 17;
const NEWEST_CLANG: u32 = 30;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let bpf = here.join("../../bpf").canonicalize().expect("bpf/ stands beside crates/");
    println!("cargo:rerun-if-changed={}", bpf.display());
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=PATH");
    let clang = clang();
    let mut arguments: Vec<OsString> =
        ["-mcpu=v3", "-Wall", "-Werror", "-Wno-unused-function"].map(OsString::from).to_vec();
    arguments.push("-I".into());
    arguments.push(bpf.clone().into_os_string());
    // For the target bpf, clang does not look where Debian keeps what depends on the architecture.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    arguments.push("-idirafter".into());
    arguments.push(format!("/usr/include/{arch}-linux-gnu").into());
    for (name, source) in [("sched", "main.bpf.c"), ("fifo", "fifo.bpf.c")] {
        let built = SkeletonBuilder::new()
            .source(bpf.join("sched").join(source))
            .obj(out.join(format!("{name}.o")))
            .clang(&clang)
            .clang_args(&arguments)
            .reference_obj(true)
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            panic!("bpf/sched/{source}: {error:#}");
        }
    }
}

/// `$CLANG`, or the newest that is installed.
fn clang() -> PathBuf {
    if let Some(clang) = env::var_os("CLANG") {
        return clang.into();
    }
    let versioned = (OLDEST_CLANG..=NEWEST_CLANG).rev().map(|version| format!("clang-{version}"));
    versioned
        .chain(std::iter::once("clang".to_owned()))
        .map(PathBuf::from)
        .find(|clang| compiles_for_bpf(clang))
        .unwrap_or_else(|| {
            panic!(
                "no clang {OLDEST_CLANG} or later that compiles for BPF was found: run \
                 'scripts/setup build', or name one in $CLANG"
            )
        })
}

fn compiles_for_bpf(clang: &Path) -> bool {
    let asked = Command::new(clang).args(["-target", "bpf", "--print-supported-cpus"]).output();
    asked.is_ok_and(|answer| answer.status.success())
}
