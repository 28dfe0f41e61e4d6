# allot: the two commands are `make demo` and `make test`; `make help` lists the rest.

# One command a line, run in order by `make soak`; the first that fails ends it.
define SOAK_COMMANDS
scripts/prove
cargo run --release --locked -p allot-sim --bin soak -- --sequences 1000000 --seed 1
cargo run --release --locked -p allot-sim --bin soak -- --graphs
PROPTEST_CASES=10000 cargo test --release --locked -p allot-policy -p allot-market
scripts/fuzz --cpu-seconds 600
ALLOT_KILLS=1000 cargo test --release --locked -p allotd --test durability killed_at_any_moment -- --nocapture
ALLOT_KILLS=1000 cargo test --release --locked -p allotd --test exchanges killed_at_any_moment -- --nocapture
cargo build --release --locked -p allotd --examples
ALLOT_HOSTILE_SECONDS=1800 cargo test --release --locked -p allotd --test hostile_suite -- --nocapture --test-threads 1
ALLOT_KILLS=1000 cargo test --release --locked -p allot-journal -- --nocapture
ALLOT_KILLS=1000 cargo test --release --locked -p allot-enforce-tests -- --nocapture
ALLOT_LONG=1 ALLOT_FORKS=10000 tests/scx.sh
ALLOT_LONG=1 tests/lab-experiments.sh
ALLOT_LONG=1 tests/lab-memory.sh
endef

PREFIX  ?= /usr/local
DESTDIR ?=
UNITDIR ?= $(PREFIX)/lib/systemd/system

# Absolute: the benchmarks run in their crates' directories and take it from there.
CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TARGET_DIR
RELEASE := $(CARGO_TARGET_DIR)/release
SECONDS_OF_DEMO ?= 30
# Without the scheduler in the kernel, D-Bus and LMDB, and optimised less; apart from the release binaries, which
# `make install` takes.
DEMO_PACKAGES := -p allotd -p allot-experiments --bin allotd --bin allot-exp

# rustup puts cargo here; a shell that has not read its profile does not look there.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help demo test soak bench lab build install uninstall clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: ## build, then share this machine's CPU among real processes for 30 s
	@scripts/setup demo
	cargo build --profile demo --no-default-features --locked $(DEMO_PACKAGES)
	"$(CARGO_TARGET_DIR)/demo/allot-exp" run cpu-hierarchy --seconds $(SECONDS_OF_DEMO) --policy stride --live --out report/cpu-hierarchy

test: ## run every test; the last line counts them
	@scripts/setup test
	@scripts/run-tests

soak: build ## run the long tests (hours)
	@set -e; printf '%s\n' "$$SOAK_COMMANDS" | while IFS= read -r command; do \
	  test -n "$$command" || continue; \
	  echo "soak: $$command"; sh -c "$$command" </dev/null; \
	done
export SOAK_COMMANDS

bench: ## run the benchmarks; those of the scheduler in the kernel run in the lab
	cargo bench --workspace --locked
	scripts/bench-kernel

lab: ## prepare the virtual machine for kernel features and show that it boots
	lab/run -- sh -c 'echo "kernel $$(uname -r), sched_ext $$(cat /sys/kernel/sched_ext/state)"'

build: ## build the release binaries
	@scripts/setup build
	cargo build --release --locked --bin allot --bin allot-exp --bin allot-negotiate --bin allotd

install: ## install under PREFIX (/usr/local); run `make build` first
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' UNITDIR='$(UNITDIR)' scripts/install "$(RELEASE)"

uninstall: ## remove what `make install` put under PREFIX
	PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' UNITDIR='$(UNITDIR)' scripts/install --remove

clean: ## remove what was built here (the lab's cache stays: rm -r lab/cache)
	cargo clean
	rm -rf report
