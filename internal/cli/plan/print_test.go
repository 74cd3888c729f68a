// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace/read"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/plan"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const (
	older = "etcd-main-6c4b8f9d5c"
	newer = "etcd-main-7d9f9c7bd5"
)

// snapshot returns a cluster whose last member leads; functions change each member.
func snapshot(n int, change ...func(i int, o *cluster.Ordinal)) *cluster.Snapshot {
	s := &cluster.Snapshot{
		At:          clitest.Now,
		StatefulSet: cluster.StatefulSet{Name: "etcd-main", Observed: true, OnDelete: true, UpdateRevision: newer, EtcdVersion: "3.6.8"},
		Cluster:     cluster.Cluster{Reachable: true, ID: 1, Term: 2, Leader: uint64(n), LeaderKnown: true},
	}
	for i := range n {
		o := cluster.Ordinal{
			Name: fmt.Sprintf("etcd-main-%d", i), Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, MemberID: uint64(i + 1),
			Answers: true, Serving: true, AppliedIndex: 100, LeaseRole: v1alpha1.RoleUnknown,
			Pod: &cluster.Pod{UID: types.UID(fmt.Sprint(i)), ResourceVersion: "1", Revision: older, Ready: true, AllContainersReady: true, BackupSidecarReady: true, EtcdVersion: "3.6.8", Probed: true, GracePeriod: 30 * time.Second},
		}
		if i == n-1 {
			o.Role = v1alpha1.RoleLeader
		}
		for _, c := range change {
			c(i, &o)
		}
		s.Ordinals = append(s.Ordinals, o)
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: i, Serving: o.Serving})
	}
	return s
}

// frozen makes a member stop answering.
func frozen(which int) func(int, *cluster.Ordinal) {
	return func(i int, o *cluster.Ordinal) {
		if i == which {
			o.Class, o.Role, o.Answers, o.Serving = v1alpha1.ClassUnready, v1alpha1.RoleUnknown, false, false
			o.Pod.Ready, o.Pod.AllContainersReady = false, false
		}
	}
}

// badNode makes the node of the first member not ready.
func badNode(i int, o *cluster.Ordinal) {
	if i == 0 {
		o.Pod.Node = cluster.Node{Name: "n0", Trouble: "not ready"}
	}
}

func updated(_ int, o *cluster.Ordinal) { o.Pod.Revision = newer }

// cutOff makes a ready member stop answering.
func cutOff(i int, o *cluster.Ordinal) {
	o.Class, o.LeaseRole, o.Role, o.Answers, o.Serving, o.MemberID = v1alpha1.ClassUnready, o.Role, v1alpha1.RoleUnknown, false, false, 0
}

func planned(t *testing.T, p *result, tasks ...*v1alpha1.EtcdOperatorTask) *result {
	t.Helper()
	p.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "etcd-main"}}
	p.etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
	in, err := p.input(tasks, rollout.Config{Restart: p.restart}, clitest.Now)
	if err != nil {
		t.Fatal(err)
	}
	p.foresee(in, clitest.Now)
	return p
}

func TestPlan(t *testing.T) {
	reachable := snapshot(3, cutOff)
	reachable.Cluster = cluster.Cluster{}
	otherStrategy := snapshot(1)
	otherStrategy.StatefulSet.OnDelete = false
	suspended := clitest.Held()
	suspended.Spec.Suspend = true
	upgraded := snapshot(3, func(_ int, o *cluster.Ordinal) { o.Versions = cluster.Versions{Etcd: "3.6.16", Storage: "3.6.0"} })
	upgraded.StatefulSet.EtcdVersion = "3.7.3"
	skipped := snapshot(3, func(_ int, o *cluster.Ordinal) { o.Versions = cluster.Versions{Etcd: "3.5.33"} })
	skipped.StatefulSet.EtcdVersion = "3.7.3"
	lost := snapshot(3, frozen(1), frozen(2), func(i int, o *cluster.Ordinal) {
		o.Class, o.Role, o.Serving = v1alpha1.ClassUnready, v1alpha1.RoleUnknown, false
	})
	lost.Cluster.Leader, lost.Cluster.LeaderKnown = 0, false
	for name, p := range map[string]*result{
		"healthy":        planned(t, &result{snapshot: snapshot(3)}),
		"frozen":         planned(t, &result{snapshot: snapshot(3, frozen(0))}),
		"nothing":        planned(t, &result{snapshot: snapshot(3, updated)}),
		"restart":        planned(t, &result{snapshot: snapshot(3, updated), restart: true}),
		"leases":         planned(t, &result{snapshot: reachable, unreachable: "pods \"etcd-main-0\" is forbidden: User \"ann\" cannot create resource \"pods/portforward\""}),
		"no-nodes":       planned(t, &result{snapshot: snapshot(3, updated), surroundings: "not permitted: nodes \"a\" is forbidden"}),
		"single":         planned(t, &result{snapshot: snapshot(1)}),
		"other-strategy": planned(t, &result{snapshot: otherStrategy}),
		"going-on":       planned(t, &result{snapshot: snapshot(3, frozen(1))}, suspended),
		"bad-node":       planned(t, &result{snapshot: snapshot(3, badNode)}),
		"upgrade":        planned(t, &result{snapshot: upgraded}),
		"skips-a-minor":  planned(t, &result{snapshot: skipped}),
		"lost":           planned(t, &result{snapshot: lost}),
		"waits":          planned(t, &result{snapshot: snapshot(3), policies: []v1alpha1.EtcdFleetPolicy{limiting("production", full)}}),
	} {
		for suffix, width := range map[string]int{"": 0, "-80": 80} {
			golden.Check(t, "plan-"+name+suffix+".txt", []byte(strings.Join(p.lines(width), "\n")+"\n"))
		}
		var out bytes.Buffer
		k := kube.Kube{IOStreams: genericiooptions.IOStreams{Out: &out}}
		if err := k.PrintDocument(p.document(), "yaml"); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "plan-"+name+".yaml", out.Bytes())
	}
}

func TestPlanFitsInto80Columns(t *testing.T) {
	lines := planned(t, &result{snapshot: snapshot(5, frozen(0))}).lines(80)
	for line := range strings.Lines(strings.Join(lines, "\n")) {
		line = strings.TrimRight(line, "\n")
		if len([]rune(line)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}

// While members of a source cluster may vote, an operator that reaches no member does not go by probes, nor does the plan say so.
func TestPlanOfAClusterWithASource(t *testing.T) {
	g := NewWithT(t)
	s := snapshot(3, cutOff)
	s.Cluster = cluster.Cluster{}
	p := planned(t, &result{snapshot: s, unreachable: "no member answers"})
	g.Expect(p.heading()).To(ContainElement(HavePrefix("Roles come from leases, and health from readiness probes")))
	g.Expect(p.Entries[0].Step).NotTo(BeNil())

	p.etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{}
	in, err := p.input(nil, rollout.Config{}, clitest.Now)
	g.Expect(err).NotTo(HaveOccurred())
	p.foresee(in, clitest.Now)
	g.Expect(p.heading()).To(And(ContainElement(HavePrefix("Roles and voters are not known")), Not(ContainElement(ContainSubstring("come from leases")))))
	g.Expect(p.Entries[0].Hold().Guard).To(Equal(v1alpha1.GuardQuorumLossConfirmed))
	g.Expect(serving(p.now())).To(HavePrefix("No voter reports"))
}

// Beside etcd-druid, the operator updates no pod in place, and does not know which versions images have. The label of the StatefulSet
// says so, not one of the Etcd.
func TestPlanBesideDruid(t *testing.T) {
	const uid = "set"
	owned := func(kind string, by types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: "etcd-main", UID: by, Controller: ptr.To(true)}}
	}
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid}
	template := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: image}}}}
	}
	var objects []client.Object
	for name, image := range map[string]string{older: "wrapper:1", newer: "wrapper:2"} {
		raw, err := json.Marshal(template(image))
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, OwnerReferences: owned("StatefulSet", uid)}, Data: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"template":%s}}`, raw)},
		})
	}
	s := snapshot(3, func(i int, o *cluster.Ordinal) { o.Pod.UID, o.Pod.EtcdVersion = types.UID(o.Name), "" })
	s.StatefulSet.UID, s.StatefulSet.EtcdVersion = uid, ""
	for _, o := range s.Ordinals {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: o.Name, UID: o.Pod.UID, ResourceVersion: o.Pod.ResourceVersion, OwnerReferences: owned("StatefulSet", uid),
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, appsv1.StatefulSetRevisionLabel: older},
		}, Spec: template("wrapper:1").Spec}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ContainerEtcd, Ready: true, ContainerID: "1", Image: "wrapper:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		objects = append(objects, pod)
	}
	for name, c := range map[string]struct {
		annotations map[string]string
		first       rollout.Action
		always      bool
	}{
		"etcd-druid manages it":   {nil, rollout.DeletePod, false},
		"with Always":             {nil, rollout.TakeSnapshot, true},
		"the Etcd has adopted it": {map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}, rollout.TakeSnapshot, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "etcd-main", UID: uid, Labels: labels, Annotations: c.annotations, OwnerReferences: owned(v1alpha1.KindEtcd, "etcd")}}
			api := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(append(objects, set)...).Build()
			p := &result{snapshot: s, pods: &read.Reader{Reader: api}, etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "etcd-main", UID: "etcd"}}}
			p.etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
			g.Expect(p.pods.List(t.Context(), &corev1.PodList{})).To(Succeed())
			g.Expect(p.observeManager(t.Context(), api)).To(Succeed())
			var wanted rollout.Config
			if c.always {
				wanted.SnapshotBefore = rollout.SnapshotAlways
			}
			in, err := p.input(nil, wanted, clitest.Now)
			g.Expect(err).NotTo(HaveOccurred())
			in.Updates, err = p.updates(t.Context(), in.Config)
			g.Expect(err).NotTo(HaveOccurred())
			p.foresee(in, clitest.Now)
			g.Expect(p.Entries[0].Step.Action).To(Equal(c.first))
			writes := slices.ContainsFunc(p.Entries, func(e plan.Entry) bool { return e.Step != nil && e.Step.Write != nil })
			g.Expect(writes).To(Equal(c.annotations != nil), "in place")
		})
	}
}
