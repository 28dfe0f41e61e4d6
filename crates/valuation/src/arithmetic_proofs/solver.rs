//! Questions to the SMT solver z3.

use std::fmt::Write;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What one program of the solver is asked: conditions that hold, and claims that follow from them.
#[derive(Default)]
pub(super) struct Questions {
    text: String,
    expected: Vec<(String, &'static str)>,
}

impl Questions {
    /// Declares a number.
    pub fn number(&mut self, name: &str) {
        writeln!(self.text, "(declare-const {name} Int)").expect("a string takes all");
    }

    /// Says that a condition holds from here on.
    pub fn assume(&mut self, condition: &str) {
        writeln!(self.text, "(assert {condition})").expect("a string takes all");
    }

    /// Asks whether nothing contradicts a claim.
    pub fn claim(&mut self, claim: &str) {
        self.ask(format!("(not {claim})"), "unsat");
    }

    /// Asks whether a condition can hold at all.
    pub fn possible(&mut self, condition: &str) {
        self.ask(condition.to_owned(), "sat");
    }

    fn ask(&mut self, condition: String, expected: &'static str) {
        writeln!(self.text, "(push)\n(assert {condition})\n(check-sat)\n(pop)")
            .expect("a string takes all");
        self.expected.push((condition, expected));
    }

    /// Has the solver answer everything.
    pub fn answer(self) {
        let mut solver = Command::new("z3")
            .args(["-in", "-t:60000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("z3 starts");
        let mut input = solver.stdin.take().expect("it has an input");
        let text = format!("(set-logic QF_NIA)\n{}", self.text);
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = solver.wait_with_output().expect("z3 ends");
        writer.join().expect("the writer ends").expect("z3 reads");
        let output = String::from_utf8(output.stdout).expect("z3 writes text");
        let answers: Vec<&str> = output.lines().collect();
        assert_eq!(answers.len(), self.expected.len(), "z3 says: {output}");
        for ((condition, expected), answer) in self.expected.iter().zip(answers) {
            assert_eq!(answer, *expected, "{condition}, where\n{}", self.text);
        }
    }
}

/// Whether z3 is there; else a line says that the test is skipped.
pub(super) fn is_there(test: &str) -> bool {
    let there = Command::new("z3").arg("--version").output().is_ok_and(|it| it.status.success());
    if !there {
        eprintln!("SKIP {test}: there is no z3 (Debian's package z3)");
    }
    there
}
