# What a contributor runs. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help test wasm web dashboard python sdist spark deny parquet kafka cluster cluster-test cluster-results demo \
	bench soak capacity accuracy ablation advice audit results coverage fuzz mutants api fmt tools

# How many clusters `make cluster-test` runs under faults, and the seed of the first.
CLUSTER_RUNS ?= 50
CLUSTER_SEED ?= 100

# How long each fuzz target runs.
FUZZ_SECONDS ?= 30

# How long `make soak` kills services, on each store, and how many worlds it simulates.
SOAK_SECONDS ?= 600
SOAK_WORLDS ?= 10000

# All features but `parquet` of the command and `kafka` of the log, which take minutes to build: `make parquet` and
# `make kafka` test those.
FEATURES := --features tidegate/programme,tidegate-kernel/simulation

# The Python package is an extension module, which no library of Python is linked to. Cargo builds it the same way for
# lints as for the package, or it would build PyO3 twice.
export PYO3_BUILD_EXTENSION_MODULE := 1

# Where rustup puts cargo, for a shell that was open before.
export PATH := $(PATH):$(HOME)/.cargo/bin

stage = printf '==> %s\n'

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

tools:
	@.ci/build-tools
	@command -v cargo >/dev/null || { echo 'Rust is needed: install it with rustup.' >&2; exit 1; }

web: tools ## build the dashboard's page from web into crates/server/assets
	@.ci/web --build

dashboard: tools ## test the dashboard in Chromium against a real service, and write docs/dashboard.png
	@cargo build --quiet -p tidegate-cli
	@.ci/web-e2e --picture

test: tools ## check format, lints, tests, examples in the documentation, and its links
	@$(stage) format
	@cargo fmt --all --check
	@cargo fmt --manifest-path fuzz/Cargo.toml --check
	@.ci/check-sizes
	@.ci/web
	@$(stage) 'the command without the laboratory'
	@! cargo tree --quiet -p tidegate-cli --no-default-features -e normal,features \
		| grep -E 'tidegate-lab|tidegate-papers|tidegate-kernel feature "simulation"'
	@if cargo deny --version >/dev/null 2>&1; then \
		$(stage) 'licences and sources of dependencies'; \
		cargo deny --log-level error check --hide-inclusion-graph bans licenses sources; \
	fi
	@$(stage) lints
	@cargo clippy --quiet --workspace --all-targets $(FEATURES) -- -D warnings
	@$(stage) 'brokers for tests'
	@.ci/brokers
	@$(stage) tests
	@if cargo nextest --version >/dev/null 2>&1; then \
		cargo nextest run --cargo-quiet --workspace $(FEATURES) --status-level fail --final-status-level fail; \
	else \
		cargo test --quiet --workspace $(FEATURES) --lib --bins --tests --examples; \
	fi
	@.ci/web-e2e
	@$(stage) 'examples in the documentation'
	@cargo test --quiet --workspace $(FEATURES) --doc
	@$(stage) documentation
	@RUSTDOCFLAGS='-D warnings' cargo doc --quiet --no-deps --workspace $(FEATURES)
	@.ci/python
	@$(stage) 'all is well'

wasm: tools ## build the npm package @tidegate/device, and test it in Chromium against a real service
	@cargo build --quiet -p tidegate-cli
	@.ci/wasm

python: tools ## install the Python package into a fresh environment under target, and test it against the command
	@cargo build --quiet -p tidegate-cli
	@.ci/python

sdist: tools ## build the Python package from its source distribution, in a fresh environment
	@.ci/python-sdist

spark: tools ## test tg.spark on a local cluster of PySpark; needs Java 17 and the network
	@.ci/python-spark

deny: tools ## check dependencies by deny.toml, security advisories included; installs cargo-deny, needs the network
	@cargo deny --version >/dev/null 2>&1 || { \
		$(stage) 'installing cargo-deny'; cargo install --quiet --locked cargo-deny; }
	@cargo deny check --hide-inclusion-graph

parquet: tools ## test the reading and writing of Parquet files, which no other target builds
	@cargo clippy --quiet -p tidegate-table -p tidegate-cli --all-targets --features parquet -- -D warnings
	@cargo test --quiet -p tidegate-table -p tidegate-cli --features parquet parquet

cluster: tools ## run brokers, PostgreSQL, gateways, workers, drivers and a fleet on this machine, until Ctrl-C
	@cargo build --quiet -p tidegate-cli
	@.ci/cluster

kafka: tools ## test the log on the Kafka protocol, which no other target builds, against an imitated cluster
	@cargo clippy --quiet -p tidegate-log --all-targets --features kafka -- -D warnings
	@cargo test --quiet -p tidegate-log --features kafka --test log kafka

demo: tools ## show the main job on simulated data, in less than a minute after the build
	@cargo run --quiet --release -p tidegate-cli -- demo --out target/demo

bench: tools ## run the benchmarks
	@cargo bench --workspace $(FEATURES)

soak: tools ## kill services under load for SOAK_SECONDS each, simulate SOAK_WORLDS worlds, and measure capacity
	@$(stage) 'services that are killed'
	@cargo build --quiet -p tidegate-cli
	@TIDEGATE_SOAK=$(SOAK_SECONDS) cargo test --quiet -p tidegate-cli --test cli killed -- --nocapture --test-threads 2
	@$(stage) 'simulated faults'
	@TIDEGATE_WORLDS=$(SOAK_WORLDS) cargo test --quiet -p tidegate-server --test server every_invariant -- --nocapture
	@$(stage) 'memory over many ticks'
	@TIDEGATE_TICKS=20000 cargo test --quiet -p tidegate-server --test server memory_does_not_grow
	@$(MAKE) --no-print-directory capacity

cluster-test: tools ## run CLUSTER_RUNS clusters of real processes under faults; cut networks and full disks need root
	@.ci/brokers >/dev/null
	@TIDEGATE_CLUSTER_RUNS=$(CLUSTER_RUNS) TIDEGATE_SEED=$(CLUSTER_SEED) cargo test --quiet -p tidegate-cli \
		--test cluster -- --include-ignored --skip results_are_measured --nocapture --test-threads 1

cluster-results: tools ## measure throughput and latency of a cluster, and write docs/results-cluster.md
	@.ci/brokers >/dev/null
	@cargo build --quiet --release -p tidegate-cli
	@TIDEGATE_PROGRAM="$${CARGO_TARGET_DIR:-$$PWD/target}/release/tidegate" \
		TIDEGATE_CLUSTER_RESULTS="$$PWD/docs/results-cluster.md" cargo test --quiet -p tidegate-cli \
		--test cluster results_are_measured -- --include-ignored --nocapture

capacity: tools ## measure thousands of streams and reports a second, and write docs/results-capacity.md
	@$(stage) 'lag of thousands of streams, and reports a second'
	@.ci/capacity

accuracy: tools ## measure the accuracy of track, and write docs/results-track.md; real data from TIDEGATE_DATA
	@cargo run --quiet --release -p tidegate-cli -- accuracy --output docs/results-track.md

ablation: tools ## measure track with each part left out, and write docs/results-track-parts.md; real data from TIDEGATE_DATA
	@.ci/ablation

advice: tools ## hold advice against measurement, and write docs/results-advise.md; real data from TIDEGATE_DATA
	@cargo run --quiet --release -p tidegate-cli -- advise --check --output docs/results-advise.md

audit: tools ## audit every mechanism thoroughly, and print the table of docs/audit.md; takes hours
	@cargo run --quiet --release -p tidegate-cli -- audit --all --thorough --markdown

results: tools ## write docs/results-repair.md from runs; needs jq and the data sets in TIDEGATE_DATA
	@cargo build --quiet --release -p tidegate-cli
	@.ci/results-repair

coverage: tools ## write docs/results-coverage.md from runs; needs jq and the data sets in TIDEGATE_DATA
	@cargo build --quiet --release -p tidegate-cli
	@.ci/results-coverage

fuzz: tools ## run each fuzz target for FUZZ_SECONDS (30 unless set); needs a nightly compiler
	@cargo +nightly --version >/dev/null 2>&1 || { \
		echo 'Fuzzing needs a nightly compiler: rustup toolchain install nightly' >&2; exit 1; }
	@cargo fuzz --version >/dev/null 2>&1 || { \
		$(stage) 'installing cargo-fuzz'; cargo install --quiet --locked cargo-fuzz; }
	@for target in $$(cargo +nightly fuzz list); do \
		$(stage) "fuzz $$target"; \
		mkdir -p "fuzz/corpus/$$target"; \
		cargo +nightly fuzz run "$$target" "fuzz/corpus/$$target" crates/kernel/tests/golden -- \
			-max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -verbosity=0; \
	done

mutants: tools ## run cargo-mutants over the kernel and the device, or over the file FILE
	@cargo mutants --version >/dev/null 2>&1 || { \
		$(stage) 'installing cargo-mutants'; cargo install --quiet --locked cargo-mutants; }
	@cargo mutants --output target $(if $(FILE),--file '$(FILE)')

api: tools ## check the service against its OpenAPI document with Schemathesis; needs Python and the network
	@.ci/schemathesis

fmt: tools ## format the code
	@cargo fmt --all
	@cargo fmt --manifest-path fuzz/Cargo.toml
