// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/prepare"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	words "github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/status"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/membership"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// migration is an Etcd whose members join a source cluster: real members, their agents' decisions, the observer and the task. The test
// stands in for Kubernetes, and for the controller of Etcds.
type migration struct {
	own, source *cluster
	etcd        *v1alpha1.Etcd
	api         client.WithWatch
	handler     *membership.Handler
	task        tasks.Typed[membership.Config]
	// loses: etcd's answers to changes of the list are lost, and another operator starts after each.
	loses bool
	// asked is what etcd was asked to change, failed the error of the last step, and ended whether the task has.
	asked  []string
	failed error
	ended  bool
}

func (m *migration) labels() map[string]string {
	return map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: m.etcd.Name}
}

// name is that of a member of the Etcd.
func (m *migration) name(i int) string { return m.etcd.MemberName(m.etcd.PodName(int32(i))) }

// migrate creates an Etcd of three members that join a cluster of three, and records the ID of that, as the first start does.
func migrate(g Gomega, source *cluster) *migration {
	return migrateTo(g, source, newCluster(source.t, 3))
}

// migrateThree does so from a new cluster of three.
func migrateThree(g Gomega, t testing.TB) (source *cluster, m *migration) {
	source = newCluster(t, 3)
	source.startThree(g)
	return source, migrate(g, source)
}

// migrateTo does so with members of a number of their own.
func migrateTo(g Gomega, source, own *cluster) *migration { return declare(source, own).begin(g) }

// begin records the ID of the source, as the first start does, and creates the objects of the Etcd.
func (m *migration) begin(g Gomega) *migration {
	own, n := m.own, int32(m.own.members)
	found := m.found()
	g.Expect(found.Members).To(HaveLen(m.source.members))
	m.etcd.Status.ClusterID, m.etcd.Status.ClusterSize = fmt.Sprintf("%x", found.ClusterID), n
	of := metav1.ObjectMeta{Namespace: "ns", Name: m.etcd.Name, UID: "set", Labels: m.labels(), OwnerReferences: apitest.ControlledBy(m.etcd)}
	config := &corev1.ConfigMap{ObjectMeta: *of.DeepCopy(), Data: map[string]string{member.KeyBootstrap: "initial-cluster: " + m.initial()}}
	config.Name, config.UID = m.etcd.ConfigMapName(v1alpha1.ManagedBy), "config"
	set := &appsv1.StatefulSet{ObjectMeta: of, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To(n), UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}}}
	m.api = apitest.API(append(own.secured.secrets(), m.etcd, set, config)...)
	m.task = tasks.Typed[membership.Config]{Task: tasks.Task{Etcd: m.etcd, Object: &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "task", UID: "task"}}}}
	m.task.Object.Spec = v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.MembershipChange, OwnerEtcdReference: v1alpha1.EtcdReference{Name: m.etcd.Name}}
	m.restart()
	return m
}

// declare creates an Etcd whose members are to join a cluster, before anything has begun.
func declare(source, own *cluster) *migration {
	n := int32(own.members)
	m := &migration{own: own, source: source}
	m.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: n}}
	joins := &v1alpha1.BootstrapWithExistingCluster{}
	for i := range source.members {
		joins.Members = append(joins.Members, v1alpha1.BootstrapExistingMember{Name: fmt.Sprintf("m%d", i), PeerURLs: []string{source.url(i, source.peer)}})
		joins.ClientEndpoints = append(joins.ClientEndpoints, source.url(i, source.client))
	}
	m.etcd.Spec.Etcd.BootstrapWithExistingCluster = joins
	own.secured.configure(m.etcd)
	m.api = apitest.API(own.secured.secrets()...)
	return m
}

// found is what the operator finds out about the source before a member is started.
func (m *migration) found() observe.Source {
	return observe.New(m, clock.RealClock{}, observe.WithCredentials(m.credentials())).Source(context.Background(), m.etcd)
}

// restart starts another operator, which remembers nothing.
func (m *migration) restart() {
	access := state.Access{Client: m.api, API: m.api, Locker: &lock.Locks{}, Clock: clock.RealClock{}}
	credentials := m.credentials()
	m.handler = &membership.Handler{
		Client: m.api, Live: m.api, Clock: clock.RealClock{}, Rule: replacer.Operator{}, Writer: memberconfig.Writer{Access: access},
		Reader: members.Reader{Observer: observe.New(m, clock.RealClock{}, observe.WithCredentials(credentials)), Dialer: m, Credentials: credentials, Clock: clock.RealClock{}, Client: m.api},
	}
}

func (m *migration) credentials() *certificates.Credentials {
	return &certificates.Credentials{Reader: m.api, Clock: clock.RealClock{}}
}

func (m *migration) initial() string {
	var entries []string
	for i := range m.own.members {
		entries = append(entries, fmt.Sprintf("%s=%s", m.name(i), m.own.url(i, m.own.peer)))
	}
	return strings.Join(entries, ",")
}

// Dial implements etcdclient.Dialer. There is no name service: the peer URLs of members are addresses.
func (m *migration) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	c, err := etcdclient.NewDialer().Dial(endpoint, config)
	return translating{c, m}, err
}

type translating struct {
	etcdclient.Client
	m *migration
}

func (t translating) names(list []etcdclient.Member, err error) ([]etcdclient.Member, error) {
	for i := range list {
		for n := range t.m.own.members {
			if slices.Equal(list[i].PeerURLs, []string{t.m.own.url(n, t.m.own.peer)}) {
				list[i].PeerURLs = []string{t.m.host(n)}
			}
		}
	}
	return list, err
}

func (m *migration) host(i int) string {
	return fmt.Sprintf("%s://%s:2380", m.own.scheme(), m.etcd.MemberHost(m.etcd.PodName(int32(i))))
}

func (t translating) Members(ctx context.Context) ([]etcdclient.Member, error) {
	return t.names(t.Client.Members(ctx))
}

func (t translating) ConfirmedMembers(ctx context.Context) ([]etcdclient.Member, error) {
	return t.names(t.Client.ConfirmedMembers(ctx))
}

func (t translating) AddLearner(ctx context.Context, urls []string) error {
	for i := range t.m.own.members {
		if slices.Equal(urls, []string{t.m.host(i)}) {
			return t.lose("add", t.Client.AddLearner(ctx, []string{t.m.own.url(i, t.m.own.peer)}))
		}
	}
	return fmt.Errorf("a learner with the peer URLs %v", urls)
}

func (t translating) PromoteLearner(ctx context.Context, id uint64) error {
	return t.lose("promote", t.Client.PromoteLearner(ctx, id))
}

func (t translating) RemoveMember(ctx context.Context, id uint64) error {
	return t.lose("remove", t.Client.RemoveMember(ctx, id))
}

func (t translating) MoveLeader(ctx context.Context, id uint64) error {
	return t.lose("move", t.Client.MoveLeader(ctx, id))
}

func (t translating) lose(what string, err error) error {
	if t.m.asked = append(t.m.asked, what); err == nil && t.m.loses {
		return errors.New("the answer was lost")
	}
	return err
}

// until takes steps until something is the case.
func (m *migration) until(g Gomega, is func() bool) {
	m.source.t.Helper()
	m.ended = false
	g.Eventually(func() bool { m.step(g); return is() }).WithTimeout(4*machine.Patience()).WithPolling(300*time.Millisecond).
		Should(BeTrue(), func() string { return fmt.Sprintf("%s: %s %v %v", m.list(g), m.blockedBy(), m.asked, m.failed) })
}

// step lets Kubernetes, the agents, the controller of Etcds and the task do what they have to.
func (m *migration) step(g Gomega) {
	ctx := context.Background()
	set := &appsv1.StatefulSet{}
	g.Expect(m.api.Get(ctx, client.ObjectKeyFromObject(m.etcd), set)).To(Succeed())
	if r := m.task.Object.Status.Membership; r != nil && r.Replicas != nil {
		set.Spec.Replicas = r.Replicas
		g.Expect(m.api.Update(ctx, set)).To(Succeed())
	}
	m.instruct(g)
	for i := range m.own.members {
		m.kubelet(g, i, i < int(*set.Spec.Replicas))
	}
	snapshot, err := m.handler.Reader.Observer.Observe(ctx, m.api, m.etcd)
	g.Expect(err).NotTo(HaveOccurred())
	m.etcd.Status = status.Next(status.Input{State: &state.State{Etcd: m.etcd, StatefulSet: set, Snapshot: snapshot}, Size: &scale.Size{}, Now: metav1.Now()})
	if m.etcd.Status.Conditions.IsTrue(v1alpha1.ConditionScaled) && !m.etcd.SourceStays() {
		g.Expect(m.list(g)).NotTo(MatchRegexp(`\bm\d`), "what is left of the source may be deleted then")
	}
	live := &v1alpha1.Etcd{}
	g.Expect(m.api.Get(ctx, client.ObjectKeyFromObject(m.etcd), live)).To(Succeed())
	m.etcd.ResourceVersion, m.etcd.Finalizers = live.ResourceVersion, live.Finalizers // the task has held it
	g.Expect(m.api.Update(ctx, m.etcd)).To(Succeed())

	verdict, err := m.handler.Execute(ctx, m.task)
	g.Expect(err).NotTo(HaveOccurred())
	m.task.Object.Status.Membership, m.ended = verdict.Membership, verdict.Outcome == tasks.Done
	if verdict.Step == nil {
		return
	}
	// On a busy machine etcd may not answer in time. As in the engine, the next step begins with what there is.
	m.failed = m.handler.Perform(ctx, m.task.Task, *verdict.Step)
	if m.loses && slices.Contains([]string{"AddLearner", "PromoteLearner", "RemoveMember", "MoveLeader"}, verdict.Step.Operation) {
		m.restart()
	}
}

// instruct writes what the members read, as their ConfigMap says.
func (m *migration) instruct(g Gomega) {
	config := &corev1.ConfigMap{}
	g.Expect(m.api.Get(context.Background(), client.ObjectKey{Namespace: "ns", Name: m.etcd.ConfigMapName(v1alpha1.ManagedBy)}, config)).To(Succeed())
	for i := range m.own.members {
		settings := map[string]any{
			"data-dir": m.own.dataDir(i), "listen-client-urls": m.own.url(i, m.own.client), "listen-peer-urls": m.own.url(i, m.own.peer),
			"log-level": "error", "unsafe-no-fsync": true,
		}
		maps.Copy(settings, m.own.options)
		m.own.write(g, i, member.KeyConfig, settings)
		m.own.write(g, i, member.KeyBootstrap, map[string]any{"initial-cluster": m.initial(), "initial-cluster-token": string(m.etcd.UID)})
		if source := m.etcd.Source(); source != nil {
			m.own.write(g, i, member.KeySource, map[string]any{"clientEndpoints": source.ClientEndpoints, "leads": m.etcd.SourceStays()})
		} else {
			g.Expect(os.RemoveAll(filepath.Join(m.own.memberDir(i), member.KeySource))).To(Succeed())
		}
		path := filepath.Join(m.own.memberDir(i), member.KeyMembers)
		g.Expect(os.WriteFile(path, []byte(config.Data[member.KeyMembers]), 0o600)).To(Succeed())
	}
	m.own.recordID(m.etcd.Status.ClusterID)
}

// kubelet runs the pod of an ordinal, or removes it, and tells the API server of it; a member that runs reads what it is told.
func (m *migration) kubelet(g Gomega, i int, wanted bool) {
	ctx, name := context.Background(), m.etcd.PodName(int32(i))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: m.labels()}}
	if m.own.secured != nil {
		pod.Annotations = map[string]string{v1alpha1.AnnotationClientTLS: v1alpha1.TLSOn, v1alpha1.AnnotationPeerTLS: v1alpha1.TLSOn}
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: m.etcd.Name, UID: "set", Controller: ptr.To(true)}}
	pod.Spec.Containers = []corev1.Container{{Name: v1alpha1.ContainerEtcd, Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: int32(m.own.client)}}, ReadinessProbe: &corev1.Probe{}}}
	g.Expect(client.IgnoreNotFound(m.api.Delete(ctx, pod.DeepCopy()))).To(Succeed())
	if !wanted {
		if m.own.processes[i] != nil {
			m.own.stop(i)
		}
		return
	}
	refusal := m.refusalOf(i)
	pod.Status.PodIP, pod.Status.Phase = fmt.Sprintf("127.0.0.%d", i+1), corev1.PodRunning
	prepared := corev1.ContainerStatus{Name: v1alpha1.InitContainerPrepare, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	runs := corev1.ContainerStatus{Name: v1alpha1.ContainerEtcd, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	if refusal != nil {
		prepared.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: refusal.TerminationMessage()}
		runs.Ready, runs.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	}
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = []corev1.ContainerStatus{prepared}, []corev1.ContainerStatus{runs}
	g.Expect(m.api.Create(ctx, pod)).To(Succeed())
	if refusal == nil {
		m.report(g, i)
	}
}

// refusalOf lets a member start that may, and returns why it may not.
func (m *migration) refusalOf(i int) *words.Refusal {
	if m.own.processes[i] != nil {
		return nil
	}
	err := prepare.Run(context.Background(), logr.Discard(), prepare.Options{
		Name: m.name(i), SharedDir: m.own.memberDir(i), ClientDir: m.own.certificateDir(), ConfigFile: m.own.configFile(i), Clock: clock.RealClock{},
	})
	refusal, _ := errors.AsType[*words.Refusal](err)
	if err == nil {
		m.own.run(NewWithT(m.own.t), i)
	}
	return refusal
}

// refusal is why a member does not start, without the words for people.
func (m *migration) refusal(i int) words.Refusal {
	r := m.refusalOf(i)
	return words.Refusal{Reason: r.Reason, Volume: r.Volume}
}

// report reports in the Lease what the agent has read of the members that leave.
func (m *migration) report(g Gomega, i int) {
	shared, err := member.ReadShared(m.own.memberDir(i))
	g.Expect(err).NotTo(HaveOccurred())
	if shared.Members == nil {
		return
	}
	name := m.name(i)
	read := words.Read{Etcd: "etcd", Generation: shared.Members.Generation, Leaving: shared.Members.Leaves(name)}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, OwnerReferences: apitest.ControlledBy(m.etcd), Annotations: map[string]string{v1alpha1.AnnotationMembersRead: read.Encode()},
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: m.etcd.Name, v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease},
	}}
	g.Expect(client.IgnoreNotFound(m.api.Delete(context.Background(), lease.DeepCopy()))).To(Succeed())
	g.Expect(m.api.Create(context.Background(), lease)).To(Succeed())
}
