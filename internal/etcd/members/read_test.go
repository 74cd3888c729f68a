// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// asked are the members of a cluster, which answer what the test wants.
type asked struct {
	observe.Confirming
	etcdclient.Client
	list                    []etcdclient.Member
	dialing, listing, reads error
	// dialed are the endpoints of the connections, and open how many of them are not closed.
	dialed []string
	open   int
	late   bool
}

func (a *asked) Reads(_ context.Context, _ client.Reader, _ *v1alpha1.Etcd, s *cluster.Snapshot) error {
	s.Ordinals[0].Read.Generation = 3
	return a.reads
}

func (a *asked) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	if a.dialing != nil {
		return nil, a.dialing
	}
	a.dialed, a.open = append(a.dialed, endpoint), a.open+1
	return a, nil
}

func (a *asked) ConfirmedMembers(ctx context.Context) ([]etcdclient.Member, error) {
	_, bounded := ctx.Deadline()
	a.late = !bounded
	return a.list, a.listing
}

func (a *asked) Close() error { a.open--; return nil }

// scene is an Etcd of three members at the API server, and its members.
type scene struct {
	*WithT
	t       *testing.T
	api     client.WithWatch
	etcd    *v1alpha1.Etcd
	members *asked
	now     *clocktesting.FakePassiveClock
}

func newScene(t *testing.T) *scene {
	s := &scene{WithT: NewWithT(t), t: t, etcd: known(3).Etcd, members: &asked{list: known(3).List}, now: clocktesting.NewFakePassiveClock(noon)}
	s.etcd.Status.ClusterID = "cafe"
	s.api = apitest.API(s.etcd)
	s.own(&appsv1.StatefulSet{}, "main")
	return s
}

// own creates an object of the Etcd.
func (s *scene) own(o client.Object, name string) {
	o.SetNamespace("ns")
	o.SetName(name)
	o.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	o.SetOwnerReferences(apitest.ControlledBy(s.etcd))
	s.Expect(s.api.Create(s.t.Context(), o)).To(Succeed())
}

// tells the members something in the ConfigMap.
func (s *scene) tells(m member.Members) *corev1.ConfigMap {
	text, err := m.Encode()
	s.Expect(err).NotTo(HaveOccurred())
	config := &corev1.ConfigMap{Data: map[string]string{member.KeyMembers: text, member.KeyBootstrap: "initial-cluster: main-0=http://a,main-1=http://b", member.KeyClusterID: "cafe"}}
	s.own(config, "main-config")
	return config
}

func (s *scene) reader(api client.Reader) Reader {
	server := interceptor.NewClient(s.api, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		o.SetCreationTimestamp(metav1.NewTime(noon)) // a question for the time
		return nil
	}})
	return Reader{Observer: s.members, Dialer: s.members, Credentials: &certificates.Credentials{Reader: api, Clock: s.now}, Clock: s.now, Client: server}
}

func snapshot() *cluster.Snapshot {
	s := known(3).Snapshot
	for i := range s.Ordinals {
		s.Ordinals[i].Pod.Endpoint = "http://" + s.Ordinals[i].Name
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: s.Ordinals[i].MemberID, Name: s.Ordinals[i].Name, Ordinal: i, Serving: true})
	}
	s.Ordinals[1].Role = v1alpha1.RoleLeader
	return s
}

func (s *scene) read() Known {
	s.t.Helper()
	k, err := s.reader(s.api).Read(s.t.Context(), s.api, s.etcd, snapshot())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.members.open).To(BeZero(), "connections are closed")
	return k
}

// All that is known is read, and what cannot be read is an error.
func TestRead(t *testing.T) {
	s := newScene(t)
	s.members.list = append(s.members.list, etcdclient.Member{ID: 9, Name: "main-9"})
	for _, name := range []string{"main-main-0", "main-main-6", "main-main-9", "main-main-10", "other-main-0"} {
		s.own(&corev1.PersistentVolumeClaim{}, name)
	}
	s.tells(member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4, Leaving: []string{"main-2"}})
	s.etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal}}
	k := s.read()
	s.Expect(k.List).To(HaveLen(4))
	s.Expect(s.members.dialed).To(Equal([]string{"http://main-1"}), "the leader is asked")
	s.Expect(s.members.late).To(BeFalse(), "and not for ever")
	s.Expect(k.Snapshot.Ordinals[0].Read.Generation).To(Equal(int64(3)))
	s.Expect(k.Claims).To(And(HaveLen(3), HaveKeyWithValue(0, HaveField("Name", "main-main-0")), HaveKeyWithValue(6, HaveField("Name", "main-main-6")), HaveKeyWithValue(9, HaveField("Name", "main-main-9"))))
	s.Expect(k.Told).To(Equal(member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4, Leaving: []string{"main-2"}}))
	s.Expect(k.Announced).To(BeTrue())
	s.Expect(k.Initial).To(Equal([]string{"main-0", "main-1"}))
	s.Expect(k.BackedUp).To(BeFalse(), "no lease says so")
	s.members.list = s.members.list[:3]
	s.Expect(s.read().Claims).To(And(HaveKey(6), HaveLen(2)), "a larger cluster may have left it")
	s.etcd.Status.ClusterSize = 11
	s.Expect(s.read().Claims).To(HaveKey(10), "the cluster was as large")

	apitest.EachRequestFails(t, s.api, func(api client.WithWatch) error {
		_, err := s.reader(s.api).Read(t.Context(), api, s.etcd, snapshot())
		return err
	})
	s.members.reads = errors.New("no leases")
	_, err := s.reader(s.api).Read(t.Context(), s.api, s.etcd, snapshot())
	s.Expect(err).To(MatchError("no leases"))
}

// A list counts only with a Snapshot that has one, too: what that says of rollouts and of foreign voters would be decided by no list.
func TestASnapshotWithoutAList(t *testing.T) {
	s, observed := newScene(t), snapshot()
	observed.Cluster.Voters = nil
	k, err := s.reader(s.api).Read(t.Context(), s.api, s.etcd, observed)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(k.List).To(BeNil())
	s.Expect(s.members.dialed).To(BeEmpty())
}

// What was said to the members of another cluster, or of an Etcd of another time, counts for nothing but the generation.
func TestWhatMembersWereTold(t *testing.T) {
	for name, c := range map[string]struct {
		told      member.Members
		change    func(*corev1.ConfigMap)
		want      int64
		announced bool
		initial   int
	}{
		"its own":                      {member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4}, nil, 4, true, 2},
		"another Etcd's":               {member.Members{Etcd: "other", ClusterID: "cafe", Generation: 4}, nil, 0, false, 2},
		"the cluster before":           {member.Members{Etcd: "etcd", ClusterID: "beef", Generation: 4, Leaving: []string{"main-0"}}, nil, 4, false, 2},
		"illegible":                    {member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4}, func(c *corev1.ConfigMap) { c.Data[member.KeyMembers] = "[" }, 0, false, 0},
		"never":                        {member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4}, func(c *corev1.ConfigMap) { delete(c.Data, member.KeyMembers) }, 0, false, 2},
		"a ConfigMap of another owner": {member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4}, func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "other" }, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			config := s.tells(c.told)
			if c.change != nil {
				c.change(config)
				s.Expect(s.api.Update(t.Context(), config)).To(Succeed())
			}
			k := s.read()
			s.Expect(k.Told.Generation).To(Equal(c.want))
			s.Expect(k.Told.Leaving).To(BeEmpty())
			s.Expect(k.Announced).To(Equal(c.announced))
			s.Expect(k.Initial).To(HaveLen(c.initial))
			s.Expect(k.BackedUp).To(BeTrue(), "there is no store")
		})
	}
	s := newScene(t)
	s.tells(member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4, Leaving: []string{"main-0"}})
	s.etcd.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "t", TaskUID: "t", Member: "main-0", PreviousClusterID: "cafe"}
	k := s.read()
	s.Expect(k.Announced).To(BeFalse(), "a recovery replaces the cluster, which is still recorded")
	s.Expect(k.Told).To(Equal(member.Members{Generation: 4}))
	s = newScene(t)
	s.Expect(s.read().Announced).To(BeFalse(), "there is no ConfigMap")
	s.tells(member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 4})
	s.Expect(s.api.Delete(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}})).To(Succeed())
	k = s.read()
	s.Expect(k.Announced).To(BeFalse(), "there is no StatefulSet")
	s.Expect(k.Etcd).To(BeIdenticalTo(s.etcd))
}

// The leader is asked about the list, or else a voter that serves. Without an answer there is no list.
func TestList(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *cluster.Snapshot)
		want   string
	}{
		"the leader":                  {func(*cluster.Snapshot) {}, "http://main-1"},
		"no leader is known":          {func(s *cluster.Snapshot) { s.Ordinals[1].Role = v1alpha1.RoleFollower }, "http://main-0"},
		"the leader does not serve":   {func(s *cluster.Snapshot) { s.Ordinals[1].Serving = false }, "http://main-0"},
		"the leader ends":             {func(s *cluster.Snapshot) { s.Ordinals[1].Class = v1alpha1.ClassTerminating }, "http://main-0"},
		"a learner is asked for none": {func(s *cluster.Snapshot) { s.Ordinals[1].Serving = false; s.Ordinals[0].Role = v1alpha1.RoleLearner }, "http://main-2"},
		"a pod has no address":        {func(s *cluster.Snapshot) { s.Ordinals[1].Pod.Endpoint = "" }, "http://main-0"},
		"there is no pod any more":    {func(s *cluster.Snapshot) { s.Ordinals[1].Pod = nil }, "http://main-0"},
		"nothing serves":              {func(s *cluster.Snapshot) { s.Ordinals = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, observed := newScene(t), snapshot()
			c.change(observed)
			list := s.reader(s.api).List(t.Context(), s.etcd, observed)
			if c.want == "" {
				s.Expect(list).To(BeNil())
				s.Expect(s.members.dialed).To(BeEmpty())
				return
			}
			s.Expect(list).To(HaveLen(3))
			s.Expect(s.members.dialed).To(Equal([]string{c.want}))
		})
	}
	s := newScene(t)
	s.members.listing = errors.New("no quorum")
	s.Expect(s.reader(s.api).List(t.Context(), s.etcd, snapshot())).To(BeNil(), "what is not confirmed does not count")
	s.Expect(s.members.open).To(BeZero())
	s.members.dialing = errors.New("illegible certificate")
	s.Expect(s.reader(s.api).List(t.Context(), s.etcd, snapshot())).To(BeNil())
}

// A member may only be given up if the store has what is committed, but for the last minutes, by whichever report is the newest.
func TestBackedUp(t *testing.T) {
	const bound = 2*5*time.Minute + backupAge
	ago := func(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: noon.Add(-d)} }
	current := func(d time.Duration) map[string]string {
		return map[string]string{v1alpha1.AnnotationBackupsCurrent: noon.Add(-d).Format(time.RFC3339)}
	}
	for name, c := range map[string]struct {
		full, delta *metav1.MicroTime
		annotations map[string]string
		period      *metav1.Duration
		// ahead is how far the operator's clock is ahead of that of the API server.
		ahead time.Duration
		want  bool
	}{
		"just now":                          {full: ago(bound), want: true},
		"the operator's clock is behind":    {full: ago(0), ahead: -time.Hour, want: true},
		"the operator's clock is ahead":     {full: ago(bound), ahead: time.Hour, want: true},
		"too long ago, by both":             {full: ago(bound + time.Second), ahead: time.Hour},
		"by a clock that is a bit ahead":    {full: ago(-backupAge), want: true},
		"in the future":                     {full: ago(-backupAge - time.Second)},
		"a full one, and a future delta":    {full: ago(0), delta: ago(-time.Hour)},
		"current in the future":             {full: ago(0), annotations: current(-time.Hour)},
		"too long ago":                      {full: ago(bound + time.Second)},
		"never":                             {},
		"never, but for a delta":            {delta: ago(0)},
		"an old full one, and a delta":      {full: ago(24 * time.Hour), delta: ago(bound), want: true},
		"an old full one, and an old delta": {full: ago(24 * time.Hour), delta: ago(bound + time.Second)},
		"a delta before the full one":       {full: ago(bound), delta: ago(time.Hour), want: true},
		"nothing was written since":         {full: ago(24 * time.Hour), annotations: current(bound), want: true},
		"something was":                     {full: ago(24 * time.Hour), annotations: current(bound + time.Second)},
		"current before the full one":       {full: ago(bound), annotations: current(24 * time.Hour), want: true},
		"an illegible report":               {full: ago(24 * time.Hour), annotations: map[string]string{v1alpha1.AnnotationBackupsCurrent: "now"}},
		"it fails":                          {full: ago(0), annotations: map[string]string{v1alpha1.AnnotationBackupError: "no space"}},
		"without deltas":                    {full: ago(2*time.Hour + backupAge), period: &metav1.Duration{}, want: true},
		"without deltas, too long ago":      {full: ago(2*time.Hour + backupAge + time.Second), period: &metav1.Duration{}},
		"at another period":                 {full: ago(2*time.Minute + backupAge), period: &metav1.Duration{Duration: time.Minute}, want: true},
		"at another period, too long ago":   {full: ago(2*time.Minute + backupAge + time.Second), period: &metav1.Duration{Duration: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal}, DeltaSnapshotPeriod: c.period}
			s.own(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}, Spec: coordinationv1.LeaseSpec{RenewTime: c.full}}, "main-full-snap")
			s.own(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: c.delta}}, "main-delta-snap")
			s.now.SetTime(noon.Add(c.ahead))
			s.Expect(s.read().BackedUp).To(Equal(c.want))
		})
	}
}

// A claim that was made for a further member is left behind once it is beyond the members. What is not the Etcd's own, or a copy of such a
// claim, is not.
func TestLeftBehind(t *testing.T) {
	temporary := func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationTemporary, string(c.UID))
	}
	keeper := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "keeper"}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.Restore}, Status: v1alpha1.EtcdOperatorTaskStatus{Recovery: &v1alpha1.RecoveryStatus{Source: v1alpha1.RecoverFromTarget}}}
	for name, c := range map[string]struct {
		ordinal int32
		change  func(*corev1.PersistentVolumeClaim)
		tasks   []v1alpha1.EtcdOperatorTask
		want    bool
	}{
		"beyond the members":           {3, temporary, nil, true},
		"far beyond":                   {6, temporary, nil, true},
		"of a member":                  {2, temporary, nil, false},
		"a larger cluster has left it": {3, func(*corev1.PersistentVolumeClaim) {}, nil, false},
		"restored from one":            {3, func(c *corev1.PersistentVolumeClaim) { temporary(c); c.UID = "restored" }, nil, false},
		"foreign":                      {3, func(c *corev1.PersistentVolumeClaim) { temporary(c); c.Labels = nil }, nil, false},
		"a Restore keeps data on it":   {3, temporary, []v1alpha1.EtcdOperatorTask{keeper}, false},
		"is being deleted": {3, func(c *corev1.PersistentVolumeClaim) {
			temporary(c)
			c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: noon}, []string{"kubernetes.io/pvc-protection"}
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: etcd.ClaimName(c.ordinal), UID: "claim", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
			}}
			c.change(claim)
			api := apitest.API(etcd, claim)
			g.Expect(LeftBehind(t.Context(), api, etcd, c.tasks)).To(Equal(c.want))
			apitest.EachRequestFails(t, api, func(api client.WithWatch) error {
				_, err := LeftBehind(t.Context(), api, etcd, c.tasks)
				return err
			})
		})
	}
}

// An announcement is left behind if it is about a member that stays. While a task is there, it takes it back; the caller knows of that.
func TestAnnouncementThatIsLeftBehind(t *testing.T) {
	for name, c := range map[string]struct {
		leaving []string
		change  func(*member.Members)
		want    bool
	}{
		"of a member that stays":            {[]string{"main-4", "main-2"}, func(*member.Members) {}, true},
		"of members that leave":             {[]string{"main-4", "main-3"}, func(*member.Members) {}, false},
		"none":                              {nil, func(*member.Members) {}, false},
		"for an earlier Etcd":               {[]string{"main-2"}, func(m *member.Members) { m.Etcd = "earlier" }, false},
		"for the cluster before a recovery": {[]string{"main-2"}, func(m *member.Members) { m.ClusterID = "f00d" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.etcd.Spec.Replicas = 3
			told := member.Members{Etcd: "etcd", ClusterID: "cafe", Generation: 3, Leaving: c.leaving}
			c.change(&told)
			config := s.tells(told)
			s.Expect(LeftBehind(t.Context(), s.api, s.etcd, nil)).To(Equal(c.want))
			apitest.EachRequestFails(t, s.api, func(api client.WithWatch) error {
				_, err := LeftBehind(t.Context(), api, s.etcd, nil)
				return err
			})
			config.OwnerReferences = nil
			s.Expect(s.api.Update(t.Context(), config)).To(Succeed())
			s.Expect(LeftBehind(t.Context(), s.api, s.etcd, nil)).To(BeFalse(), "it is not the Etcd's own")
		})
	}
}
