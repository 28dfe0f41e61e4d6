//! A C project to build, with any number of files of one size, and a Makefile. It needs nothing but
//! `cc` and `make`.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Functions in a file.
const FUNCTIONS: usize = 40;

/// Returns the command that compiles one file, as the Makefile does.
pub(crate) fn compiler(source: &Path, object: &Path) -> Command {
    let mut command = Command::new("cc");
    command.args(["-O1", "-c", "-o"]).arg(object).arg(source);
    command
}

/// Returns the reason why nothing can be built here; none where it can.
pub(crate) fn missing() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    let missing: Vec<&str> = ["cc", "make"].into_iter().filter(|name| !there(name)).collect();
    (!missing.is_empty()).then(|| format!("there is no {} in $PATH", missing.join(" and no ")))
}

/// Writes one file of C.
pub(crate) fn write_file(path: &Path, number: usize) -> io::Result<()> {
    let mut text = String::new();
    for function in 0..FUNCTIONS {
        let (a, b) = (number * 31 + function, function * 17 + 3);
        let _ = write!(
            text,
            "int f_{number}_{function}(int *v, int n)\n{{\n\tint s = {a};\n\
             \tfor (int i = 0; i < n; i++) {{\n\t\tif (v[i] % {b} == {function})\n\
             \t\t\ts += v[i] * {a};\n\t\telse\n\t\t\ts ^= v[i] << (i & 7);\n\t}}\n\
             \tswitch (s & 7) {{\n\tcase 0: return s + {a};\n\tcase 1: return s * {b};\n\
             \tcase 2: return s - v[0];\n\tdefault: return s;\n\t}}\n}}\n"
        );
    }
    fs::write(path, text)
}

/// Writes a project of `files` files; `make` builds `all.o` from them.
pub(crate) fn write_project(dir: &Path, files: usize) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut objects = String::new();
    for number in 0..files {
        write_file(&dir.join(format!("part-{number}.c")), number)?;
        let _ = write!(objects, " part-{number}.o");
    }
    let makefile = format!(
        "OBJECTS ={objects}\n\nall.o: $(OBJECTS)\n\tld -r -o $@ $(OBJECTS)\n\n\
         %.o: %.c\n\tcc -O1 -c -o $@ $<\n"
    );
    fs::write(dir.join("Makefile"), makefile)
}

/// Removes the object files.
pub(crate) fn clean(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "o") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_builds_and_is_cleaned() {
        if let Some(missing) = missing() {
            eprintln!("SKIP a_project_builds_and_is_cleaned: {missing}");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        write_project(dir.path(), 2).unwrap();
        for _ in 0..2 {
            let made = Command::new("make").arg("-s").arg("-C").arg(dir.path()).status().unwrap();
            assert!(made.success());
            assert!(dir.path().join("all.o").is_file());
            clean(dir.path()).unwrap();
            assert!(!dir.path().join("part-1.o").exists());
        }
    }
}
