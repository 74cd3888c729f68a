# SPDX-FileCopyrightText: The etcd-foreman authors
#
# SPDX-License-Identifier: Apache-2.0

SHELL := /usr/bin/env bash -o pipefail
.DEFAULT_GOAL := help

# Everything that is built or run here lives in .local/, which git ignores.
LOCAL := $(CURDIR)/.local
# The API server and etcd for integration tests: those of KUBEBUILDER_ASSETS where it is set, else our own.
ASSETS := $(or $(KUBEBUILDER_ASSETS),$(LOCAL)/bin)
# The flags that the images are built with, for everything: what one command compiles, the next finds in the cache.
# Without debug information the compiler takes a seventh less time. A debugger wants it: make GOFLAGS=... overrides.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -gcflags=all=-dwarf=false $(GOFLAGS)
LINT := go tool -modfile=hack/lint/go.mod golangci-lint
CONTROLLER_GEN := go tool controller-gen

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN {FS = ":.*##"; printf "Usage: make \033[36mTARGET\033[0m\n"} \
		/^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*##/ {printf "  \033[36m%-10s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: up ## Show a rollout of a cluster with a sick member, beside RollingUpdate. As root; boots what it needs.
	@go run ./test/demo

.PHONY: up
up: ## Boot a local Kubernetes with the operator and a ready Etcd. CLUSTER=current uses the current kubectl context.
	@go run ./test/local up

.PHONY: down
down: ## Take the local Kubernetes down, and leave nothing behind.
	@go run ./test/local down

.PHONY: clean
clean: down ## Take it down, and remove what was built as well.
	rm -rf $(LOCAL)

# Where the plugin goes: kubectl finds it on PATH.
PLUGIN_DIR := $(or $(GOBIN),/usr/local/bin)

.PHONY: plugin
plugin: ## Install "kubectl etcdtask", with its completion, into $GOBIN, or else /usr/local/bin.
	@mkdir -p $(PLUGIN_DIR)
	@go build -ldflags '-s -w' -o $(PLUGIN_DIR)/kubectl-etcdtask ./cmd/kubectl-etcdtask
	@install -m 0755 cmd/kubectl-etcdtask/kubectl_complete-etcdtask $(PLUGIN_DIR)/kubectl_complete-etcdtask
	@echo "installed kubectl-etcdtask and kubectl_complete-etcdtask in $(PLUGIN_DIR)"

##@ Develop

# Most tests wait for an API server or for etcd: twice as many at a time as there are processors, and those that wait
# longest begin first. Garbage is collected less often, in the linker and in the servers too: here, memory is cheaper than
# time. Vet is a part of "make verify".
WAITING = $$((2 * $$(nproc)))

.PHONY: test
test: assets ## Unit and integration tests. No root, no container runtime.
	KUBEBUILDER_ASSETS=$(ASSETS) GOGC=400 go test -vet=off -p $(WAITING) -parallel $(WAITING) ./test/integration/... ./...

# Each release has a module of its own.
RELEASES := $(notdir $(wildcard test/tools/kubernetes/1.*))
.PHONY: matrix
matrix: assets ## The controllers' integration tests on older releases of Kubernetes. The first time builds them, for minutes.
	@for release in $(RELEASES); do \
		go run ./test/local build $$release/kube-apiserver $$release/kube-controller-manager && \
		ln -sfn ../etcd $(LOCAL)/bin/$$release/etcd && echo "Kubernetes $$release" && \
		KUBEBUILDER_ASSETS=$(LOCAL)/bin/$$release go test -count=1 ./test/integration/etcd ./test/integration/task || exit 1; \
	done

.PHONY: explore
explore: ## Explore every state of the rollout's decision: minutes, where the unit tests take a second.
	go test ./internal/rollout -run 'TestExploration$$' -explore-all -timeout 30m -v

.PHONY: e2e
e2e: up ## End-to-end tests on the local Kubernetes. As root. RUN selects: make e2e RUN=TestFrozen.
	go test -tags e2e ./test/e2e -count=1 -v -parallel 2 -timeout 90m $(if $(RUN),-run '$(RUN)')

# One scenario of each kind, and all that concern the quorum and a crash of the operator.
CORE := TestAllHealthy TestFrozenMember TestCrashLoopingMember TestBadImageAndItsFix TestLeaderlessSpell TestSingleMember \
	TestOperatorKilled TestOperatorPausedInTheMiddleOfAStep TestGateSwitchedInMidRollout TestCordonedNode \
	TestMemberThatLostItsDataIsReplaced TestRecoveryFromTheOnlySurvivor TestScaleOut TestVolumesGrow TestRecreateOfAStuckCluster \
	TestTLSSwitchedOn TestBackupTasks TestRestoreDrill TestMaintenanceUnderWrites TestPluginWaitsInAPipe
space := $(subst ,, )
.PHONY: e2e-core
e2e-core: ## The end-to-end tests that matter most, in half the time. As root.
	@$(MAKE) --no-print-directory e2e RUN='^($(subst $(space),|,$(strip $(CORE))))$$'

.PHONY: smoke
smoke: ## Test the local Kubernetes itself. As root; takes a running one down.
	LOCAL_SMOKE=1 go test ./test/local/smoke -count=1 -v -timeout 20m

.PHONY: bench
bench: bench-fleet up ## Benchmarks, each against a peer in the same run.
	@go run ./test/bench $(BENCH)

.PHONY: bench-fleet
bench-fleet: assets ## The operator with a thousand Etcds, whose members are simulated.
	@KUBEBUILDER_ASSETS=$(ASSETS) go run ./test/bench/fleet $(FLEET)

.PHONY: generate
generate: ## Generate deep copies, CRDs and roles.
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(CONTROLLER_GEN) crd paths=./api/v1alpha1/... output:crd:dir=config/crd
	$(CONTROLLER_GEN) rbac:roleName=etcd-foreman paths=./internal/controller/... paths=./cmd/etcd-foreman output:rbac:dir=config/rbac

.PHONY: fmt
fmt: ## Format the code.
	gofmt -w $$(git ls-files '*.go')

.PHONY: verify
verify: ## Generated code is current, format, vet, lint, module tidiness.
	@hack/verify

.PHONY: lint
lint: ## Lint alone.
	$(LINT) run ./...

# What integration tests need; nothing when it is there.
.PHONY: assets
assets:
	@go run ./test/local build kube-apiserver kube-controller-manager etcd versitygw fake-gcs-server
