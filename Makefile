# virtflow's commands. Each can be repeated, and continues where a killed run stopped. Slow builds lie in
# $VIRTFLOW_CACHE (~/.cache/virtflow), the local cluster's state in $VIRTFLOW_STATE (/var/lib/virtflow-dev).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export GOTOOLCHAIN := local
# Where Temporal of the local cluster keeps its histories: sqlite (unless it is said) or postgres, Debian's. It is fixed
# by the first make up.
export TEMPORAL_DB
# A module of its own: what the local cluster needs is no dependency of the product.
DEV := go run -C deploy/dev -trimpath -buildvcs=false .

# What runs without a node: everything but the end-to-end tests, which have a build tag.
TEST_PACKAGES ?= ./...
TEST_FLAGS ?=
# Modules of their own, whose tests run with all others: their dependencies are none of the product's.
# Some read files outside their module, which the cache of test results does not notice.
TEST_MODULES ?= $(if $(filter ./...,$(TEST_PACKAGES)),deploy/crds/gen deploy/monitoring/gen deploy/dev deploy/dev/parts/storage testsuite/clients \
  testsuite/manifests testsuite/scale/plots)
E2E_FLAGS ?=

##@ The local cluster

.PHONY: up
up: ## Start Kubernetes (2 nodes) and Temporal, and wait until both can be used (TEMPORAL_DB=postgres: histories in PostgreSQL). 15 s; the very first time 16 to 40 minutes of building.
	@$(DEV) up

.PHONY: demo
demo: ## Everything: cluster, images, virtflow, and a virtual machine with a booted guest. 1 minute; the very first time 16 to 40 minutes.
	@$(DEV) demo

.PHONY: status
status: ## Show every process with its log, and whether the cluster is well. 1 s.
	@$(DEV) status

.PHONY: env
env: ## Print export lines for your shell: eval "$$(make env)". 1 s.
	@$(DEV) env

.PHONY: images
images: ## Build the images and import them into every node. Seconds; the first time some minutes.
	@$(DEV) images

.PHONY: deploy
deploy: ## Like images, then apply the manifests and wait for the rollouts. 20 s.
	@$(DEV) deploy

.PHONY: down
down: ## End everything of the cluster; its state stays (PURGE=1 deletes it), finished builds always do. 3 s.
	@$(DEV) down $(if $(PURGE),--purge)

.PHONY: kill restart stop start
kill restart stop start: ## Kill, or restart, stop or start in order, one process of the cluster: make kill PROCESS=node1-kubelet. 1 s.
	@$(DEV) $@ $(or $(PROCESS),$(error give PROCESS=NAME; make status lists the names))

.PHONY: storage
storage: ## Like up, with a CSI driver and a StorageClass, which the cluster keeps. 20 s; the first time 3 more minutes of building.
	@$(DEV) storage

.PHONY: multus
multus: ## Give pods the further networks that they ask for, by Multus (OFF=1: no more). 1 s; the first time a minute of building.
	@$(DEV) multus $(if $(OFF),--off)

.PHONY: cdi
cdi: ## Have CDI fill the claims of DataVolumes (OFF=1: no more). 1 minute; the first time 6 more of building.
	@$(DEV) cdi $(if $(OFF),--off)

.PHONY: kubevirt
kubevirt: ## Deploy KubeVirt's own controllers instead of virtflow, to measure them (make down PURGE=1 ends that). 2 minutes; the first time 4 more of building.
	@$(DEV) kubevirt

.PHONY: tools
tools: ## Put temporal, tctl and virtctl beside kubectl, on the PATH of make env. 1 s; the first time some 9 minutes of building.
	@$(DEV) tools

##@ Development

.PHONY: test
test: ## Unit tests, workflow tests, replay, the proof suites: all that needs no node. 15 minutes; the first time more, for compiling.
	@$(DEV) packages test
	@mkdir -p .build; figures=$$(mktemp -d .build/figures.XXXXXX); trap 'rm -rf "$$figures"' EXIT; failed=0; \
	  VIRTFLOW_FIGURES="$$PWD/$$figures" go test -timeout 45m $(TEST_FLAGS) $(TEST_PACKAGES) || failed=$$?; \
	  for module in $(TEST_MODULES); do (cd $$module && go test -count 1 $(TEST_FLAGS) ./...) || failed=$$?; done; \
	  find "$$figures" -type f | sort | xargs -r cat; exit $$failed

# Package, target, and how many inputs it tries: as many as about 15 s are enough for. A number, and not a time, at
# whose end Go's coordinator sometimes takes its own deadline for a failure. All that a package depends on is built again
# for it, once: the last two have much of that.
FUZZ_TARGETS ?= ./api/subresources/streams/plain:FuzzFrames:100000x ./internal/streams/wire:FuzzReadDatagram:300000x \
  ./internal/streams/migration:FuzzServe:100000x \
  ./gateway:FuzzSignal:50000x ./testsuite/admission:FuzzReview:4000x

.PHONY: fuzz
fuzz: ## Fuzz what reads users', nodes' and launchers' bytes. 2 minutes; the first time more, for compiling.
	@for target in $(FUZZ_TARGETS); do IFS=: read -r package name inputs <<<"$$target"; \
	  go test -run '^$$' -fuzz "^$$name\$$" -fuzztime "$$inputs" "$$package" || exit 1; done

.PHONY: test-launcher
test-launcher: ## The launcher by itself, with real libvirt, QEMU and guests. Half an hour.
	@$(DEV) packages launcher
	@go test -tags libvirt -count 1 -timeout 90m $(TEST_FLAGS) ./launcher/realtest

.PHONY: test-crash
test-crash: ## Kill the control worker and crdwatch after every event of scenarios, and lose a real Temporal's database. 15 to 25 minutes.
	@$(DEV) packages test
	@go test -tags crash -count 1 -timeout 45m -v -skip '^TestCostOfALife$$' $(TEST_FLAGS) ./testsuite/crash

BENCHTIME ?= 1x

.PHONY: bench
bench: ## Count what a VM and a VMI cost from creation to their end, and fail when that has grown; show rates and times (BENCHTIME=10x: more of them). 3 minutes.
	@$(DEV) packages test
	@go test -tags crash -count 1 -v -run '^TestCostOfALife$$' ./testsuite/crash
	@go test -count 1 -run '^$$' -bench . -benchtime $(BENCHTIME) ./testsuite/bench

# As deploy/dev/parts/catalog.go builds it, else everything compiles a second time.
TEMPORAL_FLAGS := -trimpath -tags sqlite_fts5,sqlite_omit_load_extension,netgo,osusergo

.PHONY: test-temporal
test-temporal: ## The local cluster's Temporal server by itself, on SQLite and on PostgreSQL. 20 s; the first time 6 minutes of building.
	@$(DEV) packages temporal
	@for module in deploy/dev/parts/temporal/sqlite deploy/dev/parts/temporal; do \
	  (cd $$module && go test $(TEMPORAL_FLAGS) -count 1 $(TEST_FLAGS) ./...) || exit 1; done
	@cd testsuite/temporal && go test -count 1 $(TEST_FLAGS) ./...

.PHONY: bench-temporal
bench-temporal: ## Measure what the settings of temporal-dev.yaml are worth. 5 minutes.
	@$(DEV) packages temporal
	@go run -C testsuite/temporal ./bench --server "$$($(DEV) build temporal)/virtflow-temporal" --config ../../temporal-dev.yaml

MOVES ?= 10

.PHONY: bench-migration
bench-migration: up deploy tools ## Measure migrations beside libvirt alone, plain TCP and a plain pod, as rows for docs/performance.md (MOVES=10). 10 minutes.
	@$(DEV) packages launcher
	@eval "$$($(DEV) env)"; go test -tags e2e -count 1 -timeout 20m -v -run '^TestMigrationCost$$' ./testsuite/e2e
	@VIRTFLOW_BENCH_MOVES=$(MOVES) go test -tags libvirt -count 1 -timeout 60m -v -run '^TestMovesBesideLibvirt$$' ./launcher/realtest
	@go test -count 1 -run '^$$' -bench '^BenchmarkMigrationStream$$' -benchtime $(MOVES)x ./testsuite/bench

.PHONY: e2e
e2e: storage deploy tools ## The end-to-end tests on the local cluster, with real nodes and guests. Two hours.
	@eval "$$($(DEV) env)"; go test -tags e2e -count 1 -timeout 4h -v $(E2E_FLAGS) ./testsuite/e2e/...

FOCUS ?=
# The cluster, and the programs of KubeVirt's tests.
define conformance
	@$(DEV) conformance
	@tests=$$($(DEV) build kubevirt-tests); ginkgo=$$($(DEV) build ginkgo); eval "$$($(DEV) env)"; \
	  go run -trimpath -buildvcs=false ./testsuite/conformance run --tests "$$tests/tests.test" --ginkgo "$$ginkgo/ginkgo"
endef

.PHONY: conformance
conformance: storage multus deploy tools ## KubeVirt's own functional tests on the local cluster, recorded in docs/conformance.md (FOCUS='console\.go|sig-network': some of them). Hours; the first time 8 more minutes of building.
	$(conformance) --focus '$(FOCUS)'

.PHONY: conformance-turn
conformance-turn: storage multus deploy tools ## Those of them that passed whose turn VIRTFLOW_TURN is: fail when one does not pass in two attempts. 7 minutes; the first time 8 more of building.
	$(conformance) --turn "$${VIRTFLOW_TURN:?a number that grows with each run}" --turn-lasts 4m --attempts 2 --timeout 20m

# golangci-lint looks at one module at a time.
LINT_MODULES ?= deploy/crds/gen deploy/monitoring/gen deploy/dev deploy/dev/parts/storage testsuite/clients testsuite/manifests testsuite/scale/plots \
  testsuite/temporal deploy/dev/parts/temporal/sqlite

SCALE ?=

.PHONY: scale
scale: ## Load the local cluster's control plane with 1,000 VMs on simulated nodes, at twice the rate that it can do (SCALE='--count 200': fewer; SCALE=--kubevirt: after make kubevirt). 20 minutes.
	@eval "$$($(DEV) env)"; go run -trimpath -buildvcs=false ./testsuite/scale \
	  --temporal-address "$$TEMPORAL_ADDRESS" --temporal-namespace "$$TEMPORAL_NAMESPACE" --temporal-tls-server-name "$$TEMPORAL_TLS_SERVER_NAME" \
	  --temporal-tls-ca "$$TEMPORAL_TLS_CA" --temporal-tls-cert "$$TEMPORAL_TLS_CERT" --temporal-tls-key "$$TEMPORAL_TLS_KEY" $(SCALE)

.PHONY: scale-plots
scale-plots: ## Draw what make scale has measured (IN=file, given to it as SCALE='--out file') into docs/images. 5 s.
	@go run -C testsuite/scale/plots . -in "$(abspath $(IN))" -out "$(CURDIR)/docs/images"

.PHONY: lint
lint: ## golangci-lint with the import walls, and workflowcheck. 2 minutes; the first time 2 more, to build them.
	@$(DEV) packages test
	@linter=$$($(DEV) build golangci-lint); for module in . $(LINT_MODULES); do \
	  (cd $$module && "$$linter/golangci-lint" run --config "$(CURDIR)/.golangci.yml" ./...) || exit 1; done
	@checker=$$($(DEV) build workflowcheck); "$$checker/workflowcheck" ./workflows/...

.PHONY: vulnerabilities
vulnerabilities: ## Look for known vulnerabilities in what the programs call, with govulncheck. 2 minutes.
	@$(DEV) packages test
	@$(DEV) vulnerabilities

# The launcher's gRPC service, written into the folder $(1).
define protoc
	@$(DEV) packages generate
	@plugins=$$($(DEV) build protoc-gen-go protoc-gen-go-grpc | tr '\n' ':'); PATH="$$plugins$$PATH" protoc \
	  --go_out=$(1) --go_opt=paths=source_relative --go-grpc_out=$(1) --go-grpc_opt=paths=source_relative launcher/rpc/launcher.proto
endef

.PHONY: generate
generate: ## Write the generated files: the CRDs, the launcher's service, the pages of state tables and of conformance, KubeVirt's rules, the operator's alerts. 1 minute.
	@cd deploy/crds/gen && go run . generate
	@cd deploy/monitoring/gen && go run . generate
	@go run -trimpath -buildvcs=false ./testsuite/tables/write
	@go run -trimpath -buildvcs=false ./deploy/monitoring/write
	@go run -trimpath -buildvcs=false ./testsuite/conformance page
	$(call protoc,.)

.PHONY: verify
verify: ## Fail when a generated file is not what generate would write. 1 minute.
	@cd deploy/crds/gen && go run . verify
	@cd deploy/monitoring/gen && go run . verify
	@rm -rf .build/verify && mkdir -p .build/verify
	$(call protoc,.build/verify)
	@for f in launcher/rpc/launcher.pb.go launcher/rpc/launcher_grpc.pb.go; do \
	  cmp "$$f" ".build/verify/$$f" || { echo "$$f is not what launcher.proto says: run make generate"; exit 1; }; done
	@echo "The generated files are what their sources say."

.PHONY: record-histories
record-histories: ## Add the local cluster's workflow histories to the replay tests (RELEASE=name). 5 s.
	@eval "$$($(DEV) env)"; go run -trimpath -buildvcs=false ./testsuite/replay/record --release "$(or $(RELEASE),dev)" --query "$(QUERY)" \
	  --temporal-address "$$TEMPORAL_ADDRESS" --temporal-namespace "$$TEMPORAL_NAMESPACE" --temporal-tls-server-name "$$TEMPORAL_TLS_SERVER_NAME" \
	  --temporal-tls-ca "$$TEMPORAL_TLS_CA" --temporal-tls-cert "$$TEMPORAL_TLS_CERT" --temporal-tls-key "$$TEMPORAL_TLS_KEY"

.PHONY: help
help: ## Show this.
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9 -]+:.*## / {gsub(/\$$\$$/, "$$"); printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
