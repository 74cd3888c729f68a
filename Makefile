# SPDX-FileCopyrightText: The etcd-foreman authors
#
# SPDX-License-Identifier: Apache-2.0

SHELL := /usr/bin/env bash -o pipefail
.DEFAULT_GOAL := help

# Everything that is built or run here is in .local/, which git ignores.
LOCAL := $(CURDIR)/.local
# The API server and etcd for integration tests: from KUBEBUILDER_ASSETS if set, otherwise built here.
ASSETS := $(or $(KUBEBUILDER_ASSETS),$(LOCAL)/bin)
# All commands compile with the flags of the images, so that they share the build cache. Without debug information the
# compiler needs a seventh less time; for a debugger, override with make GOFLAGS=...
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -gcflags=all=-dwarf=false $(GOFLAGS)
# Compiles without linking. A compiler runs for seconds, and without collecting garbage it needs a quarter less time.
COMPILE := >/dev/null GOGC=off GOMEMLIMIT=2GiB go list -export
LINT := go tool -modfile=hack/lint/go.mod golangci-lint
CONTROLLER_GEN := go tool controller-gen

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make \033[36mTARGET\033[0m\n"} \
		/^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*##/ {printf "  \033[36m%-11s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: up ## Roll out a cluster with a failing member, and compare with RollingUpdate. As root; boots a local Kubernetes.
	@go run ./test/demo

.PHONY: up
up: ## Boot a local Kubernetes with the operator and an Etcd. As root. KUBERNETES=1.33 boots that release; CLUSTER=current uses the current kubectl context instead.
	@$(COMPILE) ./test/local
	@go run ./test/local up $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(UP)

.PHONY: down
down: ## Remove the local Kubernetes. Keeps build results in .local/.
	@go run ./test/local down

.PHONY: clean
clean: down ## Remove the local Kubernetes and all build results.
	rm -rf $(LOCAL)

# The directory that the plugin is installed into. kubectl finds plugins on PATH.
PLUGIN_DIR ?= $(or $(GOBIN),/usr/local/bin)

.PHONY: plugin
plugin: ## Install "kubectl etcdtask" and its completion into PLUGIN_DIR, by default $GOBIN or /usr/local/bin.
	@mkdir -p $(PLUGIN_DIR)
	@go build -ldflags '-s -w' -o $(PLUGIN_DIR)/kubectl-etcdtask ./cmd/kubectl-etcdtask
	@install -m 0755 cmd/kubectl-etcdtask/kubectl_complete-etcdtask $(PLUGIN_DIR)/kubectl_complete-etcdtask
	@echo "installed kubectl-etcdtask and kubectl_complete-etcdtask in $(PLUGIN_DIR)"

##@ Release

# The tag of the images, and what the programs call themselves.
VERSION ?= $(or $(shell git describe --tags --always --dirty 2>/dev/null),unknown)
IMAGES := $(LOCAL)/images

.PHONY: images
images: ## Build the images for amd64 and arm64 (PLATFORMS=linux/amd64: only that), with SBOMs, in .local/images. PUSH=registry/prefix pushes them.
	@go -C hack/images run . -version '$(VERSION)' -push '$(PUSH)' $(if $(PLATFORMS),-platforms '$(PLATFORMS)') -out $(IMAGES) -cache $(LOCAL)/downloads

.PHONY: test-images
test-images: ## Build the images twice, push them to a registry, and check what arrives there. Minutes.
	go -C hack/images test ./...

.PHONY: release
release: images ## Write a release into dist/: make release VERSION=v0.1.0. PUSH=registry/prefix pushes its images as well.
	@go run ./hack/release -version '$(VERSION)' -images $(IMAGES) $(if $(PUSH),-registry '$(PUSH)') -out dist
	@ls dist

##@ Develop

# Most tests wait for an API server or etcd, so twice as many run at a time as there are processors; the slowest packages
# start first. GOGC trades memory for time, in the linker and the servers too. Vet is part of "make verify".
WAITING = $$((2 * $$(nproc)))
SLOWEST := ./test/crash/operator $(addprefix ./test/integration/,member fleet etcd task)

.PHONY: test
test: assets ## Run unit and integration tests. Needs neither root nor a container runtime.
	KUBEBUILDER_ASSETS=$(ASSETS) GOGC=400 go test -vet=off -timeout 60m -p $(WAITING) -parallel $(WAITING) $(SLOWEST) ./test/integration/... ./...
	go -C test/tools/lua test ./...

.PHONY: alerts
alerts: ## Test the alerts with promtool, and the dashboard with Prometheus' parser. The first run builds them, which takes minutes.
	go -C test/tools/prometheus test -count=1 -timeout 20m ./...

# Each release is pinned by its own module.
RELEASES := $(notdir $(wildcard test/tools/kubernetes/1.*))
# What depends on the release: StatefulSets, roles, admission, and expressions in schemas.
MATRIX := etcd task executor crd rbac
.PHONY: matrix
matrix: assets ## Run integration tests of the controllers, of executor mode and of the CRDs against older Kubernetes releases, and restores with etcd 3.6. RELEASES=1.33 selects. The first run builds them, which takes minutes.
	@for release in $(RELEASES); do \
		go run ./test/local build $$release/kube-apiserver $$release/kube-controller-manager && \
		ln -sfn ../etcd $(LOCAL)/bin/$$release/etcd && echo "Kubernetes $$release" && \
		KUBEBUILDER_ASSETS=$(LOCAL)/bin/$$release go test -count=1 -vet=off $(addprefix ./test/integration/,$(MATRIX)) || exit 1; \
	done
	@go run ./test/local build etcd-3.6/etcd
	KUBEBUILDER_ASSETS=$(ASSETS) go test -count=1 -vet=off ./test/integration/backup -run TestRaisedRevisions -all-etcds

.PHONY: explore
explore: ## Check the rollout decision, its plan, the planner of members, and who may start in a fleet, in every state. Takes minutes; the unit tests check a subset in a second.
	go test ./internal/membership -run 'TestInvariants$$' -explore-all -timeout 3h -v
	go test ./internal/fleet -run 'TestExploration$$|TestAYearOfWindows$$' -explore-all -timeout 3h -v
	go test ./internal/fleet/control -run 'TestEveryInterleaving$$' -explore-all -timeout 3h -v
	go test ./internal/rollout -run 'TestExploration$$|TestPlanIsWhatIsCarriedOut$$' -explore-all -timeout 3h -v

FUZZTIME ?= 1m
.PHONY: fuzz
fuzz: ## Feed every parser with random input for FUZZTIME each, by default 1m. RUN selects: make fuzz RUN=FuzzAnswers.
	@grep -rEo '^func Fuzz[A-Za-z]*' --include='*_test.go' cmd internal tasks test | sed 's|/[^/]*:func | |' | while read -r package name; do \
		[[ -z "$(RUN)" || $$name == "$(RUN)" ]] || continue; \
		echo "$$package $$name"; go test -vet=off ./$$package -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
	done

# What decides about members and tasks. Tests that take long are run only for mutants that survive the others.
PKG ?= ./internal/cluster/quorum ./internal/rollout/... ./internal/membership ./internal/engine/...
.PHONY: mutants
mutants: ## Break the code in PKG at one place after another, and report what no test notices. Takes minutes; MUTANTS=-quick leaves out the exploration.
	@go run ./hack/mutants -skip 'TestExploration|TestPlanIsWhatIsCarriedOut|TestInvariants|TestEveryGuardIsNeeded|TestManyTasks|TestRecoveryIsNeverTurnedAway' $(MUTANTS) $(PKG)

.PHONY: crashes
crashes: assets ## Disturb the operator in every way at each of its writes, for every task type, and kill the agent at each of its own. Takes hours; the tests do a part of it.
	go test ./test/crash/engine -crash-all -timeout 3h -v
	KUBEBUILDER_ASSETS=$(ASSETS) go test ./test/integration/backup ./test/integration/member -run 'KilledAtEachWrite$$' -kill-all -timeout 60m -v
	KUBEBUILDER_ASSETS=$(ASSETS) go test ./test/crash/operator -crash-all -parallel 8 -timeout 4h -v

# End-to-end tests also run members of older and newer releases of etcd than the default, which take a minute or two to build.
e2e e2e-executor: UP := --all-etcds

.PHONY: e2e
e2e: up ## Run end-to-end tests on the local Kubernetes. As root. RUN selects tests: make e2e RUN=TestFrozen.
	@go run ./test/local build helm
	go test -tags e2e ./test/e2e -count=1 -v -parallel 2 -timeout 90m $(if $(RUN),-run '$(RUN)')

# One scenario of each kind, and every scenario about quorum and operator crashes.
CORE := TestAllHealthy TestFrozenMember TestCrashLoopingMember TestBadImageAndItsFix TestLeaderlessSpell TestSingleMember \
	TestOperatorKilled TestOperatorPausedInTheMiddleOfAStep TestGateSwitchedInMidRollout TestCordonedNode \
	TestMemberThatLostItsDataIsReplaced TestCreatedAgainBesideItsClaims TestRecoveryFromTheOnlySurvivor TestScaleOut TestVolumesGrow TestRecreateOfAStuckCluster \
	TestTLSSwitchedOn TestBackupTasks TestRestoreDrill TestMaintenanceUnderWrites TestPluginWaitsInAPipe
space := $(subst ,, )
.PHONY: e2e-core
e2e-core: ## Run the most important end-to-end tests, in half the time. As root.
	@$(MAKE) --no-print-directory e2e RUN='^($(subst $(space),|,$(strip $(CORE))))$$'

.PHONY: e2e-executor
e2e-executor: up ## Test executor mode beside an imitation of etcd-druid, measure its rollouts, and adopt a cluster. As root; removes the operator. RUN selects tests.
	go test -tags e2e ./test/e2e/executor -count=1 -v -timeout 90m $(if $(RUN),-run '$(RUN)')

.PHONY: attack
attack: up ## Attack the operator as users with few rights, and print what was tried and what happened. As root.
	@go run ./test/attack $(ATTACK)

.PHONY: robustness
robustness: up ## Inject faults during operations, and judge what the operator does. As root. 15 minutes; SOAK=12h, SEED=7.
	@go run ./test/robustness $(if $(SOAK),-length $(SOAK)) $(if $(SEED),-seed $(SEED)) $(ROBUSTNESS)

.PHONY: robustness-core
robustness-core: up ## Run the robustness test for two minutes: rollouts, restarts and updates in place, each under one fault. As root.
	@go run ./test/robustness -seed 1 -length 90s -always -longest -most-faults 1 -patience 10m \
		-operations 'rollout,restart,resources raised in place' \
		-faults 'member frozen (SIGSTOP),member killed (SIGKILL),operator killed (SIGKILL),answers lost after the write,clock of the operator is off'

.PHONY: robustness-seeded
robustness-seeded: up ## Check that "make robustness" fails with each of a list of bugs in the operator. As root. Half an hour.
	@go run ./test/robustness/seeded $(SEEDED)

.PHONY: simulation
simulation: ## Run the whole system in one process and in virtual time, seed after seed. SEEDS=1000, FIRST=2000, HOURS=8.
	SIM_FOR=$(if $(HOURS),$(HOURS)h) SIM_SEEDS=$(or $(SEEDS),$(if $(HOURS),1000000000,50)) SIM_FIRST=$(or $(FIRST),1) go test ./test/simulation -run TestSimulation -count=1 -v -timeout 0

.PHONY: smoke
smoke: ## Test the local Kubernetes itself. As root; removes a running one.
	LOCAL_SMOKE=1 go test ./test/local/smoke -count=1 -v -timeout 20m

.PHONY: bench
bench: bench-fleet up ## Run all benchmarks, each against a baseline in the same run. As root.
	@go run ./test/bench $(BENCH)

.PHONY: bench-fleet
bench-fleet: assets ## Benchmark the operator with a thousand Etcds with simulated members. FLEET='-policy good' measures a policy of the fleet.
	@KUBEBUILDER_ASSETS=$(ASSETS) go run ./test/bench/fleet $(FLEET)

.PHONY: bench-attack
bench-attack: assets ## Compare the operator's reactions for 50 Etcds, and its memory, with those beside an honest tenant, and while that one attacks it. 40 minutes; ATTACK='-attack 90s' is shorter.
	@KUBEBUILDER_ASSETS=$(ASSETS) go run ./test/bench/fleet -etcds 50 -attack 10m $(ATTACK)

.PHONY: generate
generate: ## Generate deepcopy functions, CRDs, roles, docs/api.md, docs/metrics.md and the dashboard, and copy what the chart shares with config/.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(CONTROLLER_GEN) crd paths=./api/v1alpha1/... output:crd:dir=config/crd/etcd
	mv config/crd/etcd/druid.gardener.cloud_etcdoperatortasks.yaml config/crd/task/
	mv config/crd/etcd/druid.gardener.cloud_etcdcopybackupstasks.yaml config/crd/copybackupstask/
	mv config/crd/etcd/druid.gardener.cloud_etcdopstasks.yaml config/crd/opstask/
	mv config/crd/etcd/druid.gardener.cloud_etcdfleetpolicies.yaml config/crd/fleet/
	$(CONTROLLER_GEN) rbac:roleName=etcd-foreman paths=./internal/... paths=./tasks/... output:rbac:dir=config/rbac
	go run ./hack/monitoring
	@hack/chart-files
	go -C hack/apidocs tool crd-ref-docs --source-path=../../api/v1alpha1 --config=config.yaml --renderer=markdown --output-path=../../docs/api.md --log-level=ERROR

.PHONY: fmt
fmt: ## Format the code.
	gofmt -w $$(git ls-files '*.go')

.PHONY: verify
verify: ## Check generated code, format, license headers, module tidiness, vet and lint.
	@hack/verify

.PHONY: vulncheck
vulncheck: ## Known vulnerabilities in what is linked. Needs https://vuln.go.dev.
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

.PHONY: lint
lint: ## Run the linter.
	$(LINT) run ./...

# The binaries that integration tests need. Builds only what is missing.
.PHONY: assets
assets:
	@$(COMPILE) ./test/local
	@go run ./test/local build kube-apiserver kube-controller-manager etcd etcd-3.5/etcd etcd-3.6/etcd versitygw fake-gcs-server certmanager helm
