# Everything needs Go only; `lint` fetches its pinned tool by itself. `make test TESTFLAGS=-v` passes flags to go test.

SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c

GOLANGCI_VERSION := v2.15.0
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: build test conformance demo lint bench

build:
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

test:
	.ci/test $(TESTFLAGS)

# Rule by rule, against the real binary, and through rows of two and three of it.
HOPS ?= 1 2 3
conformance:
	@status=0; for n in $(HOPS); do echo "== $$n in a row"; \
	WEIR_HOPS=$$n go test -count=1 -v $(TESTFLAGS) ./cmd/weir/conformance | grep -vE '^(=== (RUN|PAUSE|CONT)| *--- PASS)' || status=1; \
	done; exit $$status

demo:
	go run ./cmd/weir demo $(ARGS)

lint: $(GOLANGCI)
	$(GOLANGCI) run ./...

# The version is in the name, so a new pin fetches anew. Formatting (gofumpt) is part of the same run.
$(GOLANGCI):
	mkdir -p bin
	GOBIN="$(CURDIR)/bin/install" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/install/golangci-lint $(GOLANGCI) && rmdir bin/install

bench:
	go test -run '^$$' -bench . -benchmem -benchtime 200ms -timeout 20m ./...
