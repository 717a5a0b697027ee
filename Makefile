# Everything needs Go only; `lint` fetches its pinned tool by itself. `make test TESTFLAGS=-v` passes flags to go test.

SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c

GOLANGCI_VERSION := v2.15.0
ACTIONLINT_VERSION := v1.7.7
GOLANGCI := bin/golangci-lint-$(GOLANGCI_VERSION)

.PHONY: build test conformance demo lint bench compare image binaries chart release release-check chaos soak redteam real gateway istio consul kube page stories

# Without symbol table and DWARF, which stack traces and profiles do not need. VERSION=v1.2.3 is for a source
# archive. In a clone Go finds the tag by itself.
build:
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w$(if $(VERSION), -X main.linked=$(VERSION))" -o bin/ ./cmd/...

test:
	.ci/test $(TESTFLAGS)

# Rule by rule, against the real binary, and through rows of two and three of it.
HOPS ?= 1 2 3
conformance:
	@status=0; for n in $(HOPS); do echo "== $$n in a row"; \
	WEIR_HOPS=$$n go test -count=1 -v $(TESTFLAGS) ./cmd/weir/conformance | grep -vE '^(=== (RUN|PAUSE|CONT)| *--- PASS)' || status=1; \
	done; exit $$status

# Faults in real processes: every kind of bad day once, then drawn ones until the time is up. A line for each.
CHAOS_FOR ?= 10m
chaos:
	@CHAOS_FOR=$(CHAOS_FOR) go test -count=1 -v -timeout 0 -run '^TestChaos$$' $(TESTFLAGS) ./cmd/weir/chaos | grep -vE '^(=== |  *--- (PASS|SKIP))'

# A thousand clients and constant change: what weir uses must stay flat.
SOAK_FOR ?= 30m
soak:
	@SOAK_FOR=$(SOAK_FOR) go test -count=1 -v -timeout 0 -run '^TestSoak$$' $(TESTFLAGS) ./cmd/weir/chaos | grep -vE '^=== '

# Hostile clients, each for so long, beside a hundred good ones; then hostile clients, origins, pages and files against a weir
# that has the memory of a pod. A line for each.
REDTEAM_FOR ?= 2s
redteam:
	@WEIR_REDTEAM_FOR=$(REDTEAM_FOR) go test -count=1 -v -timeout 10m -run '^TestRedTeam' $(TESTFLAGS) ./cmd/weir/redteam | grep -vE '^(=== |  *--- PASS)'

# Programs that nobody here wrote, before and behind weir, with requests; fetched into bin/real. WEIR_REAL_CACHE names another folder.
real:
	.ci/real/install
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/weir
	cd .ci/real && go vet ./... && WEIR_BINARY="$(CURDIR)/bin/weir" go test -count=1 -timeout 28m $(TESTFLAGS) .

# An Envoy Gateway before weir, with its own mTLS. It is built once, in some minutes; its ports are fixed: one such run at a time.
gateway:
	.ci/real/install envoy gateway
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/weir
	cd .ci/real && go vet -tags gateway ./... && WEIR_BINARY="$(CURDIR)/bin/weir" go test -tags gateway -run '^TestEnvoyGateway$$' -count=1 -timeout 10m $(TESTFLAGS) .

# istio's discovery server before weir. It is built once, in some minutes.
istio:
	.ci/real/install envoy istio
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/weir
	cd .ci/real && go vet -tags istio ./... && WEIR_BINARY="$(CURDIR)/bin/weir" go test -tags istio -run '^TestIstio(Keys)?$$' -count=1 -timeout 10m $(TESTFLAGS) .

# Consul before weir, with a mesh of sidecars. It is built once, in some minutes.
consul:
	.ci/real/install envoy consul
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/weir
	cd .ci/real && go vet -tags consul ./... && WEIR_BINARY="$(CURDIR)/bin/weir" go test -tags consul -run '^TestConsul$$' -count=1 -timeout 15m -v $(TESTFLAGS) .

demo:
	@echo "compiling weir: the first time, this takes a minute or more ..." >&2
	go run ./cmd/weir demo $(ARGS)

# actionlint reads the workflows of .github.
lint: $(GOLANGCI)
	$(GOLANGCI) run ./...
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION) -shellcheck= -pyflakes=

# The version is in the name, so a new pin fetches anew. Formatting (gofumpt) is part of the same run.
$(GOLANGCI):
	mkdir -p bin
	GOBIN="$(CURDIR)/bin/install" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv bin/install/golangci-lint $(GOLANGCI) && rmdir bin/install

# First what benchstat reads (COUNT=10 for it to judge by), then weir beside other servers.
BENCH ?= .
COUNT ?= 1
bench:
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime 200ms -count $(COUNT) -timeout 2h ./...
	$(MAKE) --no-print-directory compare

# weir, go-control-plane and the limit of grpc-go side by side, in plain text and with TLS, in about twelve minutes: a table in Markdown. ARGS="-h" tells how to have less.
compare:
	cd cmd/weirload/bench && go run . compare $(ARGS)

# For each architecture of the image, and with the same bytes wherever it is built.
ARCHS := amd64 arm64
binaries:
	for arch in $(ARCHS); do CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -ldflags "-s -w" -o bin/linux-$$arch/ ./cmd/weir; done

# Needs buildah. The architecture is part of the tag: push them, and a manifest list over them.
TAG ?= dev
image: binaries
	for arch in $(ARCHS); do buildah bud --isolation chroot --timestamp 0 --arch $$arch --build-arg VERSION=$(TAG) -f deploy/image/Dockerfile.binary -t weir:$(TAG)-$$arch .; done

# The chart, the manifests and the image, with real tools: helm is built; without buildah and root the image's tests are skipped.
chart: binaries
	.ci/kube/install helm
	cd .ci/chart && go vet ./... && HELM="$(CURDIR)/bin/kube/helm" WEIR="$(CURDIR)/bin/linux-$$(go env GOARCH)/weir" go test -count=1 -timeout 10m $(TESTFLAGS) ./...

# The chart on a live API server, with the real weir in every pod. The server is built once, in some minutes. Needs root.
kube: binaries
	nice .ci/kube/install
	.ci/real/install envoy
	cd .ci/kube && go vet ./... && go test -count=1 -timeout 10m -parallel 4 $(TESTFLAGS) ./...

# The admin page in a headless Chromium, before 2,000 simulated clients. Without a Chromium it is skipped. Pictures of all views go
# to bin/page, and those of the documentation to SHOTS. `make page TESTFLAGS='-run TestScreenshots'` makes the pictures alone.
SHOTS ?= deploy/docs/screenshots
page:
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/weir
	cd .ci/page && go vet ./... && WEIR_BINARY="$(CURDIR)/bin/weir" WEIR_SCREENSHOTS="$(CURDIR)/$(SHOTS)" go test -count=1 -timeout 9m $(TESTFLAGS) .

# Twelve faults in running fleets, and what somebody on call sees of each. Needs prometheus; root for the disk that is full.
stories:
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/weir
	cd .ci/stories && go vet ./... && WEIR_BINARY="$(CURDIR)/bin/weir" go test -count=1 -parallel 13 -timeout 5m $(TESTFLAGS) .

# What is published for the tag at HEAD, in dist/. VERSION=v1.2.3, if given, has to be that tag. See contributing.md.
release:
	.ci/kube/install helm
	HELM="$(CURDIR)/bin/kube/helm" .ci/release/run $(VERSION)

# Releases twice, in two directories, from a copy of the tree that is tagged, and compares. TARGETS names fewer systems.
release-check:
	.ci/kube/install helm
	cd .ci/release && go vet ./... && HELM="$(CURDIR)/bin/kube/helm" go test -count=1 -timeout 25m $(TESTFLAGS) .
