#!/usr/bin/env python3
"""The tests of JUnit reports as lines.

junit.py REPORT             one line a test, as the shell tests print them: 'ok NAME', 'FAIL NAME: what' with what it printed
                            below, or 'SKIP NAME: reason'; exit status 1 if a test failed or none ran
junit.py --slowest N REPORT...   the N slowest tests

A test that cannot run on this machine prints 'SKIP name: reason' and passes: it counts as skipped.
"""

import re
import sys
import xml.etree.ElementTree as xml

SKIP = re.compile(r"\bSKIP [A-Za-z0-9_:./-]+: (.*)")
LINES_OF_A_FAILURE = 60


def tests(path):
    """Yields the name and the element of each test."""
    for suite in xml.parse(path).getroot().iter("testsuite"):
        for test in suite.iter("testcase"):
            yield f"{suite.get('name')}::{test.get('name')}", test


def printed(test):
    parts = (test.findtext(part) or "" for part in ("system-out", "system-err"))
    return "\n".join(part.rstrip() for part in parts)


def verdict(name, test):
    wrong = next((it for it in test if it.tag in ("failure", "error")), None)
    if wrong is not None:
        what = " ".join((wrong.get("message") or wrong.get("type") or "it failed").split())
        lines = printed(test).splitlines()[-LINES_OF_A_FAILURE:]
        return "\n    ".join([f"FAIL {name}: {what[:400]}", *lines])
    skipped = SKIP.search(printed(test))
    return f"SKIP {name}: {skipped[1]}" if skipped else f"ok {name}"


def show_slowest(number, paths):
    times = [(float(test.get("time")), name) for path in paths for name, test in tests(path)]
    for seconds, name in sorted(times, reverse=True)[:number]:
        print(f"{seconds:8.1f} s  {name}")


def main():
    if sys.argv[1] == "--slowest":
        return show_slowest(int(sys.argv[2]), sys.argv[3:])
    try:
        lines = sorted(verdict(name, test) for name, test in tests(sys.argv[1]))
    except (OSError, xml.ParseError) as error:
        print(f"FAIL nextest: it left no report: {error}")
        return 1
    print(*lines, sep="\n")
    return 0 if lines and not any(line.startswith("FAIL") for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
