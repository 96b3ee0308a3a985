# make help lists the targets.

# Packages whose tests are quick. check runs them with the race detector; so does
# test where there is a C compiler, which it needs, and takes the results of check
# from Go's cache.
QUICK  := ./hooks/... ./server/... ./test/manifests/... ./test/purity/...
RACE    = $(if $(and $(filter 1,$(shell go env CGO_ENABLED)),$(shell command -v $$(go env CC))),-race)
# Every module of the repository: the product and those nested under test/.
MODULES := $(dir $(wildcard go.mod test/*/go.mod))

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
FUZZTIME ?= 60s
# The image in bin/install.yaml.
IMAGE    ?= greyrelease:$(VERSION)
INSTALL  ?= bin/install.yaml
# How long make soak goes on.
FOR      ?= 1h

.PHONY: help build verify-build sbom generate manifests check test e2e soak control-plane cluster cluster-down demo fmt lint fuzz bench tidy format vet generated race
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the service as bin/greyrelease
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)' -o bin/greyrelease ./server

# What git knows is in VERSION and REVISION. Stamped by Go as well, a copy without .git
# would be another binary.
verify-build: build ## Build bin/greyrelease twice more, elsewhere, and compare the bytes
	VERSION=$(VERSION) REVISION=$(REVISION) test/verify-build.sh bin/greyrelease

sbom: build ## Write the modules of bin/greyrelease with licences and hashes to bin/greyrelease.cdx.json
	go build -C test/tools -o ../../bin/cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	bin/cyclonedx-gomod bin -json -licenses -assert-licenses -noserial -notimestamp -version $(VERSION) -output bin/greyrelease.cdx.json bin/greyrelease

generate: ## Make manifests/00-crd.yaml and docs/api.md from the Go types
	@mkdir -p bin
	cd test/tools && go run ./crd ../.. > ../../bin/crd.yaml
	mv bin/crd.yaml manifests/00-crd.yaml
	go test ./test/docs -run TestReferenceIsCurrent -update

# The files that kustomization.yaml lists, in its order.
manifests: ## Make bin/install.yaml of manifests/, with the image IMAGE
	@mkdir -p $(dir $(INSTALL))
	@for f in $$(sed -n 's/^- \([0-9].*\.yaml\)$$/\1/p' manifests/kustomization.yaml); do echo "---" && cat manifests/$$f || exit 1; done \
		| sed 's|image: greyrelease:dev$$|image: $(IMAGE)|' > $(INSTALL)
	@echo "$(INSTALL) runs $(IMAGE)"

check: tidy format vet lint generated race ## Check modules, format, lint, generated files and routes, races

test: ## Run all tests of the product, the service over HTTP included
	go test $(RACE) $(QUICK)
	go test -timeout 30m $$(go list ./test/... | grep -vE '/test/(manifests|purity)(/|$$)')
	test/curl.sh

# Without a package, go test shows at once what is being built. Stories mostly wait, so
# there are more of them at a time than processors.
e2e: control-plane ## Tell the stories on a real control plane, in both apply strategies; METACONTROLLER=/path to use the original
	cd test/e2e && go test -count=1 ./compare ./haproxy ./soak && go test -count=1 -timeout 60m -parallel 4
	cd test/e2e && go test -count=1 -timeout 60m -parallel 4 -apply server-side-apply

# The exit code is 1 if a promise was broken.
soak: control-plane ## Run releases with users and trouble on a real control plane for FOR, 1h by default; SEED, RELEASES, FAULTS, APPLY, METACONTROLLER
	cd test/e2e && go run ./soak -for $(FOR) $(if $(SEED),-seed $(SEED)) $(if $(RELEASES),-releases $(RELEASES)) $(if $(FAULTS),-faults $(FAULTS)) $(if $(APPLY),-apply $(APPLY))

control-plane:
	cd test/e2e && go run ./localcluster build

cluster: ## Boot a real control plane with GreyRelease on this machine and leave it running; APPLY=server-side-apply for that
	@cd test/e2e && go run ./localcluster up

cluster-down: ## End what make cluster has started
	@cd test/e2e && go run ./localcluster down

demo: ## Watch two releases on a simulated cluster: one succeeds, one rolls itself back
	@echo "Compiling; the first time takes a minute or two."
	@go run ./test/demo

fmt: ## Format all Go files
	gofmt -w hooks server test

lint: bin/golangci-lint ## Run golangci-lint in every module
	@for m in $(MODULES); do echo "golangci-lint in $$m"; (cd $$m && $(CURDIR)/bin/golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || exit 1; done

fuzz: ## Fuzz each target for FUZZTIME, 60s by default
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' hooks server test | sort | while IFS=: read -r file func; do \
		echo "fuzzing $${func#func } in $$(dirname $$file)"; \
		go test ./$$(dirname $$file) -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) < /dev/null || exit 1; \
	done

# Never a test: what a machine does besides decides what comes out.
bench: ## Compare the benchmarks of a sync with those of the commit BASE, HEAD by default
	test/bench.sh $(or $(BASE),HEAD)

tidy:
	@for m in $(MODULES); do echo "go mod tidy -diff in $$m"; (cd $$m && go mod tidy -diff) || exit 1; done

format:
	@unformatted=$$(gofmt -l hooks server test) && if [ -n "$$unformatted" ]; then echo "run make fmt, which changes:"; echo "$$unformatted"; exit 1; fi

vet:
	@for m in $(MODULES); do echo "go vet in $$m"; (cd $$m && go vet ./...) || exit 1; done

# These tests read files of the product, which is outside of their modules: the cache of
# go test would not see a change.
generated:
	cd test/tools && go test -count=1 ./...
	cd test/gatewayapi && go test -count=1 ./...
	cd test/monitoring && go test -count=1 ./...

race:
	go test -race $(QUICK)

# The linter is pinned with the other tools. Building it takes about a minute and
# a half the first time.
bin/golangci-lint: test/tools/go.mod test/tools/go.sum
	cd test/tools && go build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
