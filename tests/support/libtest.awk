# What libtest printed with --nocapture --test-threads=1, as one line a test. A line 'file NAME' stands before each
# program's own; `files` says how many programs there were. Status 1 if a test failed or a program did not end. A test's own
# lines stand between its name and its result.
function finish(result) {
  if (name == "") return
  if (result == "ok" && skipped != "") print "SKIP " file ":" name ": " skipped
  else if (result == "ok") print "ok " file ":" name
  else { print "FAIL " file ":" name ": " (why == "" ? "no result" : why); failed = 1 }
  name = ""; skipped = ""; why = ""; told = 0
}
/^file [a-z_-]+$/ { finish("none"); file = $2; next }
/^test result: / { finish("none"); ended++; next }
match($0, /^test [a-z_0-9:]+ \.\.\. /) {
  finish("none")
  name = $2
  $0 = substr($0, RSTART + RLENGTH)
}
name != "" && match($0, /SKIP [a-z_0-9]+: /) { skipped = substr($0, RSTART + RLENGTH) }
name != "" && told { why = $0; told = 0 }
name != "" && /panicked at/ { told = 1 }
name != "" && /^ok$/ { finish("ok") }
name != "" && /^FAILED$/ { finish("failed") }
END {
  finish("none")
  if (ended < files) { print "FAIL " file ": the tests did not end"; failed = 1 }
  exit failed
}
