# What a newcomer needs: `make test` checks everything, `make bench` measures, `make generate` writes what is generated.

GO ?= go
FUZZTIME ?= 3s

# A program with the race detector sleeps a second before it ends; the tests start hundreds.
export GORACE = atexit_sleep_ms=0

.PHONY: test need check unit fuzz bench profile interop soak generate build

test: need check unit fuzz

# What tests need beside Go is installed, where that can be done.
need:
	@scripts/need

# Format, vet, staticcheck.
check:
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted: $$files"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# Everything with the race detector, the longest tables shortened, but for dialect, which is pure; then those whole: conformance
# over the recorded streams, a writer killed a thousand times, and whether generated files (schema, documents, verdicts) are up to
# date; the failure matrix in every dialect and through every face, and that no secret gets out. (`go test ./cmd/sluice` is the
# rest, whole: two hundred runs killed and resumed, five hundred turns.)
unit:
	$(GO) test -race -short -timeout 15m $$($(GO) list ./... | grep -v '/dialect$$')
	$(GO) test -timeout 15m ./dialect ./journal
	$(GO) test -timeout 15m -run 'Matrix|Secret' ./cmd/sluice

# Each parser, a few seconds.
fuzz:
	GO="$(GO)" FUZZTIME=$(FUZZTIME) scripts/fuzz

# One table of ratios against jq, in one run. BENCH_MB sets the size of the files, BENCH_BIG_MB that of the memory test.
bench:
	$(GO) run ./scripts/bench

# Where the readers spend their time, for the compiler: cmd/sluice/default.pgo. To be written anew when the hot paths change.
profile:
	$(GO) run ./scripts/bench profile

# Against other people's programs, fetched from npm into the user's cache: needs the network, node and npm. AGENT=NAME takes one of them:
# mcp, claude, claude-tui, claude-channel, claude-acp, codex, opencode, gemini, qwen, pi, acpx. It prints what became of each of them.
interop:
	cd interop && AGENT="$(AGENT)" $(GO) test -tags interop -count=1 -timeout 30m

# Ten thousand phases, with subscribers who come and go: nothing grows, nothing is lost, nothing is left.
soak:
	$(GO) run ./scripts/soak

# Write generated files anew: event schema, docs/events.md, docs/dialects.md, docs/conformance.md, verdicts of the recorded
# streams.
generate:
	$(GO) test ./event ./dialect . -update
	$(GO) test ./cmd/sluice -run TestConformance -update

build:
	$(GO) build -o sluice ./cmd/sluice
