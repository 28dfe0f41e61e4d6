//! What every command's help must have, and that the definition is sound.

use clap::Command;

fn visit(command: &Command, path: &str, look: &mut dyn FnMut(&Command, &str)) {
    look(command, path);
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        visit(inner, &format!("{path} {}", inner.get_name()), look);
    }
}

#[test]
fn definition_is_sound() {
    allot::command().debug_assert();
}

#[test]
fn every_command_has_an_example_that_names_it() {
    let mut seen = 0;
    visit(&allot::command(), "allot", &mut |command, path| {
        seen += 1;
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.contains("Example:\n"), "`{path} --help` shows no example");
        let name = command.get_name();
        if !command.is_hide_set() {
            assert!(after.contains(name), "the example of `{path}` does not use it: {after}");
        }
        assert!(command.get_about().is_some(), "`{path} --help` does not say what it does");
    });
    assert!(seen > 25, "only {seen} commands were seen");
}

/// Each line of an example that is a whole command of ours must be one that can be typed.
#[test]
fn examples_can_be_typed() {
    let mut typed = 0;
    let mut examples = Vec::new();
    visit(&allot::command(), "allot", &mut |command, _| {
        examples.extend(command.get_after_help().map(ToString::to_string));
    });
    for line in examples.iter().flat_map(|text| text.lines()).map(str::trim) {
        let line = line.split([';', '|', '>']).next().unwrap_or_default();
        let mut words: Vec<String> =
            line.split_whitespace().map(|word| word.replace('\'', "")).collect();
        match words.first().map(String::as_str) {
            Some("allot") => {}
            Some("lnice" | "lrenice" | "lsetbase" | "ltix") => words.insert(0, "allot".to_owned()),
            _ => continue,
        }
        typed += 1;
        let parsed = allot::command().try_get_matches_from(&words);
        assert!(parsed.is_ok(), "`{line}`: {}", parsed.unwrap_err());
    }
    assert!(typed > 30, "only {typed} examples were tried");
}
