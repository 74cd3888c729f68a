// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/image"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// kubectlImage is for a pod that calls the API server.
var kubectlImage = image.Image{
	Name:   "localhost/kubectl:smoke",
	Files:  []image.File{{Binary: "kubectl", Path: "/kubectl"}},
	Config: v1.Config{Entrypoint: []string{"/kubectl"}},
}

// checkCluster runs three members of etcd and uses everything that a cluster does for them.
func checkCluster(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	l, err := layout.Find(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.Import(ctx, l, kubectlImage); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	kubectl(t, "apply", "--filename=testdata/etcd.yaml")
	kubectl(t, "rollout", "status", "statefulset/etcd", "--timeout=90s")
	t.Logf("3 members ready after %s", time.Since(start).Round(100*time.Millisecond))

	checkNetwork(t)
	checkStreams(ctx, t)
	checkFrozenMember(ctx, t)
	checkCutOffMember(ctx, t)
	checkData(t)
	checkExpansion(t)
	checkDeletion(t)
}

// etcdctl runs etcdctl in member 1, against an endpoint.
func etcdctl(t *testing.T, endpoint string, args ...string) string {
	t.Helper()
	return kubectl(t, append([]string{"exec", "etcd-1", "--", "etcdctl", "--endpoints=" + endpoint}, args...)...)
}

func checkNetwork(t *testing.T) {
	t.Helper()
	for _, endpoint := range []string{"http://etcd-0.etcd-peer:2379", "http://etcd-2.etcd-peer.smoke.svc.cluster.local:2379"} {
		etcdctl(t, endpoint, "endpoint", "health")
	}
	// Ten times, so that every member has answered, also the caller itself.
	for range 10 {
		etcdctl(t, "http://etcd-client:2379", "put", "key", "value")
	}
	kubectl(t, "apply", "--filename=testdata/client.yaml")
	eventually(t, "a pod reaches the API server by its Service", func() bool {
		return kubectl(t, "get", "pod", "client", "--output=jsonpath={.status.phase}") == "Succeeded"
	})
	if logs := kubectl(t, "logs", "client"); !strings.Contains(logs, "pod/etcd-0") {
		t.Errorf("log of the pod that lists pods: %q", logs)
	}
}

func checkStreams(ctx context.Context, t *testing.T) {
	t.Helper()
	if logs := kubectl(t, "logs", "etcd-0"); !strings.Contains(logs, "serving client traffic") {
		t.Errorf("log of etcd-0: %q", logs)
	}
	forward := exec.CommandContext(ctx, root+"/.local/bin/kubectl", "--kubeconfig="+root+"/.local/kubeconfig", "--namespace=smoke",
		"port-forward", "etcd-0", "19095:9095")
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forward.Process.Signal(os.Interrupt)
		_ = forward.Wait()
	}()
	eventually(t, "a forwarded port answers", func() bool {
		response, err := http.Get("http://127.0.0.1:19095/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

func checkFrozenMember(ctx context.Context, t *testing.T) {
	t.Helper()
	member := find(ctx, t, "etcd-2")
	if err := member.Freeze(ctx); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "--for=condition=Ready=False", "pod/etcd-2", "--timeout=30s")
	if err := member.Thaw(ctx); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "--for=condition=Ready", "pod/etcd-2", "--timeout=30s")
	if err := member.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if again := find(ctx, t, "etcd-2"); again.PID() == member.PID() {
		t.Errorf("the restarted member has the number of the killed one: %d", again.PID())
	}
	kubectl(t, "wait", "--for=condition=Ready", "pod/etcd-2", "--timeout=60s")
}

func checkCutOffMember(ctx context.Context, t *testing.T) {
	t.Helper()
	reconnect, err := find(ctx, t, "etcd-0").CutOff(ctx)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "--for=condition=Ready=False", "pod/etcd-0", "--timeout=30s")
	if err := reconnect(ctx); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "--for=condition=Ready", "pod/etcd-0", "--timeout=30s")
}

func checkData(t *testing.T) {
	t.Helper()
	before := etcdctl(t, "http://etcd-0.etcd-peer:2379", "endpoint", "status", "--write-out=fields")
	kubectl(t, "delete", "pod", "etcd-0", "--wait")
	kubectl(t, "rollout", "status", "statefulset/etcd", "--timeout=60s")
	eventually(t, "the name of a replaced member has its new address", func() bool {
		after := etcdctl(t, "http://etcd-0.etcd-peer:2379", "endpoint", "status", "--write-out=fields")
		return field(before, "MemberID") == field(after, "MemberID")
	})
	if got := etcdctl(t, "http://etcd-0.etcd-peer:2379", "get", "key", "--print-value-only"); got != "value" {
		t.Errorf("a replaced member has %q", got)
	}
}

// field returns a line of the output of etcdctl --write-out=fields.
func field(output, name string) string {
	for _, line := range lines(output) {
		if strings.Contains(line, `"`+name+`"`) {
			return line
		}
	}
	return ""
}

func checkExpansion(t *testing.T) {
	t.Helper()
	kubectl(t, "patch", "pvc", "data-etcd-0", "--patch", `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
	kubectl(t, "wait", "--for=jsonpath={.status.capacity.storage}=2Gi", "pvc/data-etcd-0", "--timeout=30s")
}

func checkDeletion(t *testing.T) {
	t.Helper()
	kubectl(t, "delete", "namespace", "smoke", "--wait", "--timeout=90s")
	eventually(t, "the folders of deleted volumes are gone", func() bool {
		entries, err := os.ReadDir(layout.Volumes)
		return err == nil && len(entries) == 0
	})
}
