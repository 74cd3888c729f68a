// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package recreate_test runs RecreateRollout tasks with the whole operator against a real API server and the real
// StatefulSet controller. The kubelet and etcd are simulated. The scenarios are KEP-3541's.
package recreate_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	// With the native strategy at hand (see native_test.go), which changes nothing for sets that do not have it.
	os.Exit(env.Main(m, &testEnv, env.WithFeatureGates("StatefulSetRecreateStrategy=true"), env.WithControllerManager(), env.WithRoles()))
}

const name = "main"

// cluster is an Etcd with three ready members under a running operator.
type cluster struct {
	*env.Cluster
	quorum bool
	stop   func()
}

func newCluster(t *testing.T, quorumAware bool) *cluster {
	t.Helper()
	c := &cluster{Cluster: testEnv.NewCluster(t, name), quorum: quorumAware}
	c.Simulate(3)
	c.CreateEtcd(3)
	c.start()
	c.UntilReady(3)
	return c
}

func pod(i int) string { return env.PodName(name, i) }

// start starts the whole operator; c.stop stops it.
func (c *cluster) start() {
	c.T.Helper()
	var changes []composition.Change
	if !c.quorum {
		changes = append(changes, composition.GateOff)
	}
	c.stop = c.Start(nil, changes...)
}

// change updates the pod template.
func (c *cluster) change() {
	c.T.Helper()
	c.Change(func(e *v1alpha1.Etcd) {
		e.Spec.Annotations = map[string]string{"change": time.Now().Format(time.RFC3339Nano)}
	})
}

func (c *cluster) recreate() {
	c.T.Helper()
	c.CreateTask("recreate", v1alpha1.RecreateRollout, "")
}

func (c *cluster) untilPhase(phase v1alpha1.RecreatePhase) *v1alpha1.EtcdOperatorTask {
	c.T.Helper()
	return c.UntilTaskStatus("recreate", func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.Rollout != nil && s.Rollout.Phase == phase })
}

func (c *cluster) untilState(state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	c.T.Helper()
	return c.UntilTask("recreate", state)
}

// rollouts returns the tasks created by the operator.
func (c *cluster) rollouts(g Gomega) []v1alpha1.EtcdOperatorTask {
	var rollouts []v1alpha1.EtcdOperatorTask
	for _, t := range c.Tasks(g) {
		if t.Spec.Type == v1alpha1.QuorumAwareRollout {
			rollouts = append(rollouts, t)
		}
	}
	return rollouts
}

// mixture records whether pods of different revisions ever exist at the same time.
type mixture struct {
	mu     sync.Mutex
	pods   map[types.UID]string
	worst  int
	recent []string
}

func (c *cluster) watchMixture() *mixture { return c.watchMixtureOf(name) }

func (c *cluster) watchMixtureOf(set string) *mixture {
	m := &mixture{pods: map[types.UID]string{}}
	c.WatchPods(func(event watch.EventType, p *corev1.Pod) {
		if strings.HasPrefix(p.Name, set+"-") {
			m.see(event, p)
		}
	})
	return m
}

func (m *mixture) see(event watch.EventType, p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if event == watch.Deleted {
		delete(m.pods, p.UID)
		return
	}
	m.pods[p.UID] = p.Labels[appsv1.StatefulSetRevisionLabel]
	revisions := map[string]bool{}
	for _, r := range m.pods {
		revisions[r] = true
	}
	if len(revisions) > m.worst {
		m.worst = len(revisions)
		m.recent = append(m.recent, fmt.Sprintf("%s of %s: %v", event, p.Name, m.pods))
	}
}

func (m *mixture) revisions() (int, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.worst, m.recent
}
