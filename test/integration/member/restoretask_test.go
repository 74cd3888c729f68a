// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	words "github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/copybackups"
	restoretask "github.com/etcd-foreman/etcd-foreman/tasks/restore"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// operated is a cluster whose Restores the operator's handler decides on. The test does what the Etcd controller does with what the
// handler decides, and the agent's own functions do the work of Jobs.
type operated struct {
	*cluster
	g       Gomega
	api     client.WithWatch
	handler *restoretask.Handler
	etcd    *v1alpha1.Etcd
	service *corev1.Service
	taker   *snapshotter.Snapshotter
	seen    *words.Snapshot
	// at has what happens once when a phase has been entered, before the members follow.
	at map[v1alpha1.RecoveryPhase]func()
	// archive is another store, which Jobs mount as the claim of that name.
	archive store.Config
}

func operate(g Gomega, c *cluster, id string, changes ...func(*snapshotter.Options)) *operated {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	etcd.Spec.Replicas = 3
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	etcd.Status.ClusterID, etcd.Status.ClusterSize = id, 3
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: etcd.Name}
	o := &operated{cluster: c, g: g, etcd: etcd, taker: c.takeSnapshots(g, changes...), at: map[v1alpha1.RecoveryPhase]func(){}}
	o.service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: etcd.ClientServiceName(), Labels: labels, OwnerReferences: apitest.ControlledBy(etcd)}}
	o.api = apitest.API(etcd, o.service)
	for i := range int32(3) {
		name := etcd.ClaimName(i)
		g.Expect(o.api.Create(c.t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: labels}})).To(Succeed())
	}
	o.handler = &restoretask.Handler{Stays: &restoretask.Stays{},
		Jobs:     tasks.Jobs{Client: o.api, Live: o.api, Clock: clock.RealClock{}, Image: "agent"},
		Observer: apitest.Members(func() *words.Snapshot { return o.seen }), Agent: composition.AgentAt(o.agent().URL),
	}
	o.serves(id)
	return o
}

// agent serves what the leading agent does.
func (o *operated) agent() *httptest.Server {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, s backup.Snapshot, err error) {
		if err != nil {
			api.WriteError(w, http.StatusInternalServerError, api.CodeSnapshotFailed, err.Error())
			return
		}
		_ = json.NewEncoder(w).Encode(s)
	}
	mux.HandleFunc(api.PathFull, func(w http.ResponseWriter, r *http.Request) {
		s, err := o.taker.Full(r.Context(), r.URL.Query().Get("final") == "true")
		answer(w, s, err)
	})
	mux.HandleFunc(api.PathKeep, func(w http.ResponseWriter, r *http.Request) {
		s, err := o.taker.Keep(r.Context(), r.URL.Query().Get("name"))
		answer(w, s, err)
	})
	mux.HandleFunc(api.PathHold, func(w http.ResponseWriter, r *http.Request) {
		revision, err := strconv.ParseInt(r.URL.Query().Get("revision"), 10, 64)
		o.g.Expect(err).NotTo(HaveOccurred())
		s, err := o.taker.Hold(r.Context(), r.URL.Query().Get("base"), revision)
		answer(w, s, err)
	})
	s := httptest.NewServer(mux)
	o.t.Cleanup(s.Close)
	return s
}

// serves has the operator see all three members serve as a cluster.
func (o *operated) serves(id string) {
	n, err := strconv.ParseUint(id, 16, 64)
	o.g.Expect(err).NotTo(HaveOccurred())
	o.seen = &words.Snapshot{StatefulSet: words.StatefulSet{Name: "main", Observed: true, AgentImage: "agent"}, Cluster: words.Cluster{ID: n, Reachable: true, LeaderKnown: true}}
	for i := range 3 {
		pod := o.etcd.PodName(int32(i))
		o.seen.Ordinals = append(o.seen.Ordinals, words.Ordinal{Name: pod, Member: pod, Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, Serving: true, Answers: true})
		o.seen.Cluster.Voters = append(o.seen.Cluster.Voters, words.Voter{ID: uint64(i + 1), Ordinal: i, Serving: true})
	}
}

// work does the work of each new Job.
func (o *operated) work() {
	jobs := &batchv1.JobList{}
	o.g.Expect(o.api.List(o.t.Context(), jobs)).To(Succeed())
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if len(j.Status.Conditions) > 0 {
			continue
		}
		result, err := json.Marshal(o.result(j))
		o.g.Expect(err).NotTo(HaveOccurred())
		o.g.Expect(o.api.Create(o.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: j.Name + "-pod", Labels: map[string]string{batchv1.JobNameLabel: j.Name}, OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: j.UID, Controller: ptr.To(true)}}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(result)}}}}},
		})).To(Succeed())
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		o.g.Expect(o.api.Status().Update(o.t.Context(), j)).To(Succeed())
	}
}

// result is what the agent reports in a Job.
func (o *operated) result(j *batchv1.Job) any {
	args := j.Spec.Template.Spec.Containers[0].Args
	if args[0] == "survey" {
		claim := j.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
		ordinal, err := strconv.Atoi(claim[strings.LastIndex(claim, "-")+1:])
		o.g.Expect(err).NotTo(HaveOccurred())
		return o.survey(o.g, ordinal)
	}
	flags := map[string]string{}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	if args[0] == "copy" {
		return o.copied(j, flags)
	}
	o.g.Expect(args[0]).To(Equal("restore-preview"))
	from, err := store.Open(o.t.Context(), o.store)
	o.g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = from.Close() }()
	revision, _ := strconv.ParseInt(flags["revision"], 10, 64)
	var other *store.Store
	if prefix := flags["from-prefix"]; prefix != "" {
		at := o.store
		at.Prefix = prefix
		other, err = store.Open(o.t.Context(), at)
		o.g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = other.Close() }()
	}
	p, err := restore.Preview(o.t.Context(), restore.PreviewConfig{
		Store: from, From: other, WorkDir: o.t.TempDir(), Target: backup.Target{Revision: revision, Snapshot: flags["snapshot"]},
		EtcdUID: flags["etcd-uid"], ClusterID: flags["cluster-id"], Members: backup.Members{AcceptAuth: flags["accept-auth"] == "true"}, Log: logr.Discard(),
	})
	o.g.Expect(err).NotTo(HaveOccurred())
	return p
}

// copied does what the Job of a CopyBackups does, with the keys that it has: those that its flags name.
func (o *operated) copied(j *batchv1.Job, flags map[string]string) any {
	open := func(role string) *store.Store {
		c := store.Config{Provider: store.Local, Prefix: flags[role+"store-prefix"]}
		for _, v := range j.Spec.Template.Spec.Volumes {
			if v.Name == role+"store" {
				c.Container = map[string]string{"backups": o.store.Container, "archive": o.archive.Container}[v.PersistentVolumeClaim.ClaimName]
			}
		}
		if flags[role+"store-signing-keys"] != "" {
			c.SigningKeys = o.store.SigningKeys
		}
		o.g.Expect(flags).NotTo(HaveKey(role + "store-identities"))
		s, err := store.Open(o.t.Context(), c)
		o.g.Expect(err).NotTo(HaveOccurred())
		o.t.Cleanup(func() { _ = s.Close() })
		return s
	}
	result, err := copier.Copy(o.t.Context(), copier.Config{Source: open("source-"), Target: open(""), Now: time.Now(), Log: logr.Discard()})
	o.g.Expect(err).NotTo(HaveOccurred())
	return result
}

// follow does what the Etcd controller and the members do in a phase.
func (o *operated) follow(t *v1alpha1.EtcdOperatorTask) {
	r := t.Status.Recovery
	if r != nil && o.at[r.Phase] != nil {
		o.at[r.Phase]()
		delete(o.at, r.Phase)
	}
	switch {
	case r == nil:
	case r.Phase == v1alpha1.RecoveryFencing:
		o.service.Spec.Selector = map[string]string{v1alpha1.LabelFencedBy: string(t.UID)}
		o.g.Expect(o.api.Update(o.t.Context(), o.service)).To(Succeed())
	case r.Phase == v1alpha1.RecoveryStopping && o.seen.StatefulSet.HeldAtZeroBy == "":
		for i := range o.processes {
			o.stop(i)
		}
		o.seen = &words.Snapshot{StatefulSet: words.StatefulSet{Name: "main", Observed: true, AgentImage: "agent", HeldAtZeroBy: t.UID}}
	case r.Phase == v1alpha1.RecoveryStarting && o.seen.StatefulSet.HeldAtZeroBy != "":
		o.etcd.Status.Recovery = &v1alpha1.ClusterRecovery{
			Task: t.Name, TaskUID: t.UID, Member: r.Member, Source: r.Source, PreviousClusterID: r.PreviousClusterID, EarlierClusterIDs: r.EarlierClusterIDs, Restore: &r.Restore.ClusterRestore,
		}
		told := component.Recovery(o.etcd.Status.Recovery)
		told.Member = strings.Replace(told.Member, "main-", "m", 1)
		o.recover(o.g, told)
		first, _ := strconv.Atoi(strings.TrimPrefix(told.Member, "m"))
		o.start(o.g, first, "existing")
		o.awaitVotersAt(o.g, first, 1)
		id := o.idOf(o.g, first)
		o.recordID(id)
		for i := range 3 {
			if i != first {
				o.start(o.g, i, "existing")
				o.promote(o.g, i)
			}
		}
		o.awaitVoters(o.g, 3)
		o.serves(id)
		o.etcd.Status.ClusterID = id
		o.g.Expect(o.api.Update(o.t.Context(), o.etcd)).To(Succeed())
	}
}

// carryOut carries a Restore out to its end.
func (o *operated) carryOut(name, config string) *v1alpha1.EtcdOperatorTask {
	return o.carryOutBy(tasks.For(o.handler), v1alpha1.Restore, name, config)
}

// carryOutBy carries a task of a type out to its end.
func (o *operated) carryOutBy(handler tasks.Handler, kind v1alpha1.TaskType, name, config string) *v1alpha1.EtcdOperatorTask {
	ctx := o.t.Context()
	t := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name), OwnerReferences: apitest.ControlledBy(o.etcd)}}
	t.Spec.Type, t.Spec.OwnerEtcdReference.Name = kind, o.etcd.Name
	o.g.Expect(o.api.Create(ctx, t)).To(Succeed())
	decoded, err := handler.Decode(config)
	o.g.Expect(err).NotTo(HaveOccurred())
	task := tasks.Task{Object: t, Etcd: o.etcd, Config: decoded}
	v, err := handler.Admit(ctx, task)
	o.g.Expect(err).NotTo(HaveOccurred())
	o.g.Expect(v.Outcome).To(Equal(tasks.Continue), v.Message)
	o.g.Eventually(func(g Gomega) {
		v, err = handler.Execute(ctx, task)
		g.Expect(err).NotTo(HaveOccurred())
		if v.Recovery != nil {
			t.Status.Recovery = v.Recovery
		}
		if v.Result != nil {
			t.Status.Result = v.Result
		}
		if v.Step != nil {
			t.Status.LastOperation = &v1alpha1.LastOperation{Name: v.Step.Operation}
			g.Expect(handler.Perform(ctx, task, *v.Step)).To(Succeed())
		}
		o.work()
		o.follow(t)
		g.Expect(v.Outcome).NotTo(Equal(tasks.Continue), v.Message)
	}).WithTimeout(2 * machine.Patience()).Should(Succeed())
	o.g.Expect(handler.Cleanup(ctx, task)).To(Succeed())
	o.g.Expect(o.api.Update(ctx, t)).To(Succeed())
	o.t.Logf("%s: %s: %s", name, v.Outcome, v.Message)
	t.Status.State = map[tasks.Outcome]v1alpha1.TaskState{tasks.Done: v1alpha1.TaskStateSucceeded, tasks.Fail: v1alpha1.TaskStateFailed}[v.Outcome]
	return t
}

// What the operator decides, real members with a real store carry out: a preview, a confirmation that is wrong, going back to a revision in
// the middle of a delta, and back again to all that was acknowledged.
func TestARestoreByTheOperatorsTask(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	o := operate(g, c, c.startThree(g))
	c.put(g, "wanted")
	target := c.revision(g)
	for _, value := range []string{"unwanted", "unwanted too"} {
		c.put(g, value)
	}
	_, err := o.taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	preview := o.carryOut("preview", fmt.Sprintf("to: {revision: %d}", target))
	g.Expect(preview.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(preview.Status.Recovery).To(BeNil())
	c.put(g, "last")
	last := c.revision(g)
	wrong := o.carryOut("wrong", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target+1, preview.Status.Result["confirm"]))
	g.Expect(wrong.Status.State).To(Equal(v1alpha1.TaskStateFailed))

	back := o.carryOut("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target, preview.Status.Result["confirm"]))
	g.Expect(back.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("wanted"))
		g.Expect(c.revisionOf(g, i)).To(BeNumerically(">", last))
	}
	bumped := c.revision(g)
	undo := o.carryOut("undo", "undo: back")
	g.Expect(undo.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(undo.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromKeptData))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("last"), "which was written after the last delta")
		g.Expect(c.revisionOf(g, i)).To(BeNumerically(">", bumped))
	}
}

// file returns the file of a snapshot, or of a marker.
func (o *operated) file(folder, name string) string {
	return filepath.Join(o.store.Container, "here", folder, name)
}

// Retention would remove the full snapshot that a restore begins with: after the preview, and once more while the restore is on its way. It is
// kept for both.
func TestRetentionLeavesWhatIsToBeRestored(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	o := operate(g, c, c.startThree(g), func(o *snapshotter.Options) { o.CollectionPeriod, o.Retention.Limit = time.Second, 1 })
	full := func() backup.Snapshot {
		s, err := o.taker.Full(t.Context(), false)
		g.Expect(err).NotTo(HaveOccurred())
		return s
	}
	removed := func(s backup.Snapshot) {
		g.Eventually(func() string { return o.file(backup.LayoutVersion, s.Name()) }).WithTimeout(machine.Patience()).ShouldNot(BeAnExistingFile())
	}
	holds := func() []string {
		names, err := filepath.Glob(o.file("kept", "hold.*"))
		g.Expect(err).NotTo(HaveOccurred())
		return names
	}
	base := full()
	c.put(g, "wanted")
	target := c.revision(g)
	c.put(g, "unwanted")
	_, err := o.taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	preview := o.carryOut("preview", fmt.Sprintf("to: {revision: %d}", target))
	g.Expect(preview.Status.Result["base"]).To(Equal(base.Name()))
	g.Expect(holds()).To(HaveLen(1))
	expires, newest := full(), full()
	removed(expires)
	g.Expect(o.file(backup.LayoutVersion, base.Name())).To(BeAnExistingFile())

	o.at[v1alpha1.RecoveryFencing] = func() {
		g.Expect(holds()).To(HaveLen(2), "that of the preview, and one of its own")
		g.Expect(os.Remove(holds()[0])).To(Succeed())
	}
	o.at[v1alpha1.RecoveryStopping] = func() {
		full()
		removed(newest)
	}
	back := o.carryOut("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target, preview.Status.Result["confirm"]))
	g.Expect(back.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(c.get(g, 0)).To(Equal("wanted"))
	final := back.Status.Recovery.Restore.FinalSnapshot
	g.Expect(o.file(backup.LayoutVersion, final)).To(BeAnExistingFile())
	g.Expect(o.file("kept", "keep."+final)).To(BeAnExistingFile())
}

// What a preview has chosen is gone when it is confirmed: that is refused before anything stops.
func TestConfirmedAndGone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	o := operate(g, c, c.startThree(g))
	base, err := o.taker.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	c.put(g, "wanted")
	delta, err := o.taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	preview := o.carryOut("preview", fmt.Sprintf("to: {revision: %d}", delta.LastRevision))
	confirmed := fmt.Sprintf("{to: {revision: %d}, confirm: %s}", delta.LastRevision, preview.Status.Result["confirm"])
	// An older full snapshot leads to the same revision, and then none.
	for name, gone := range map[string]backup.Snapshot{"older": base, "none": *delta} {
		aside := filepath.Join(t.TempDir(), "aside")
		g.Expect(os.Rename(o.file(backup.LayoutVersion, gone.Name()), aside)).To(Succeed())
		refused := o.carryOut(name, confirmed)
		g.Expect(refused.Status.State).To(Equal(v1alpha1.TaskStateFailed))
		g.Expect(refused.Status.Recovery).To(BeNil(), "clients were not kept away")
		g.Expect(os.Rename(aside, o.file(backup.LayoutVersion, gone.Name()))).To(Succeed())
	}
	g.Expect(c.get(g, 2)).To(Equal("wanted"))
	g.Expect(o.carryOut("back", confirmed).Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "it is there again")
	again := o.carryOut("again", confirmed)
	g.Expect(again.Status.State).To(Equal(v1alpha1.TaskStateFailed), "a second restore was confirmed for the cluster that the first has replaced")
	g.Expect(again.Status.Recovery).To(BeNil())
}

// Clients write until the members are killed, and a volume is lost then. An undo brings back every write that was acknowledged, from a member
// that has them all, and a member that comes late with its old data joins.
func TestUndoBringsBackWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	o := operate(g, c, c.startThree(g))
	c.put(g, "wanted")
	target := c.revision(g)
	c.put(g, "unwanted")
	_, err := o.taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	preview := o.carryOut("preview", fmt.Sprintf("to: {revision: %d}", target))

	w, end := c.beginWriting(g)
	o.at[v1alpha1.RecoveryStopping] = func() { w.awaitWrites(g) }
	o.at[v1alpha1.RecoverySurveying] = func() {
		end()
		g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	}
	back := o.carryOut("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s, keepService: true, maxWritesSince: 100000000}", target, preview.Status.Result["confirm"]))
	g.Expect(back.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(back.Status.Recovery.Member).NotTo(Equal("main-0"), "its volume is lost")
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("wanted"))
	}
	undo := o.carryOut("undo", "undo: back")
	g.Expect(undo.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(undo.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromKeptData))
	for i := range 3 {
		w.expectAll(g, i)
		g.Expect(c.get(g, i)).To(Equal("unwanted"))
	}
}

// The data that was kept is lost with its volume: an undo goes back to the final snapshot. Another undo goes back to what was there in between.
func TestUndoWithoutTheKeptData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	o := operate(g, c, c.startThree(g))
	c.put(g, "wanted")
	target := c.revision(g)
	_, err := o.taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	preview := o.carryOut("preview", fmt.Sprintf("to: {revision: %d}", target))
	c.put(g, "last")
	back := o.carryOut("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target, preview.Status.Result["confirm"]))
	g.Expect(back.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	c.put(g, "in between")
	for i := range 3 {
		kept, err := filepath.Glob(c.dataDir(i) + member.BeforeSuffix + "*")
		g.Expect(err).NotTo(HaveOccurred())
		for _, dir := range kept {
			g.Expect(os.RemoveAll(dir)).To(Succeed())
		}
	}
	undo := o.carryOut("undo", "undo: back")
	g.Expect(undo.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(undo.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromTarget))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("last"))
	}
	again := o.carryOut("again", "undo: undo")
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("in between"))
	}
	g.Expect(again.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromKeptData))
}

// The member that an undo starts on was down before, and lacks what the others have acknowledged. An undo of that undo brings all of it back, from
// the one that was the most advanced.
func TestUndoOfAnUndoOnAMemberThatWasDown(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	o := operate(g, c, c.startThree(g))
	c.put(g, "wanted")
	target := c.revision(g)
	_, err := o.taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	preview := o.carryOut("preview", fmt.Sprintf("to: {revision: %d}", target))
	o.at[v1alpha1.RecoverySurveying] = func() {
		g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed(), "so that another member keeps what an undo goes back to")
	}
	back := o.carryOut("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target, preview.Status.Result["confirm"]))
	keeps := back.Status.Recovery.Member
	g.Expect(keeps).NotTo(Equal("main-0"))
	o.at[v1alpha1.RecoveryFencing] = func() {
		i, err := strconv.Atoi(strings.TrimPrefix(keeps, "main-"))
		g.Expect(err).NotTo(HaveOccurred())
		o.stop(i)
		c.change(g, func(ctx context.Context, etcd *clientv3.Client) error {
			_, err := etcd.Put(ctx, key, "while it was down")
			return err
		})
	}
	undo := o.carryOut("undo", "undo: back")
	g.Expect(undo.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromKeptData))
	g.Expect(undo.Status.Recovery.Member).To(Equal(keeps))
	g.Expect(c.get(g, 0)).To(Equal("wanted"))
	again := o.carryOut("again", "undo: undo")
	g.Expect(again.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("while it was down"))
	}
}

// A cluster goes back to what another one had, by a copy of that one's backup in the container of its own store, and undoes it.
func TestRestoreFromAnotherPrefix(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	other := newCluster(t, 3)
	other.store = store.Config{Provider: store.Local, Container: dir, Prefix: "other"}
	other.startThree(g)
	other.put(g, "theirs")
	taker := other.takeSnapshots(g)
	_, err := taker.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	other.put(g, "theirs too")
	target := other.revision(g)
	other.put(g, "unwanted")
	_, err = taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for i := range 3 {
		other.stop(i)
	}

	c := newCluster(t, 3)
	c.store = store.Config{Provider: store.Local, Container: dir, Prefix: "here"}
	o := operate(g, c, c.startThree(g))
	o.handler.Rules = policy.Rules{LocalClaims: []string{"*"}}
	for range 20 {
		c.put(g, "ours")
	}
	_, err = o.taker.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	config := fmt.Sprintf("to: {revision: %d}, from: {prefix: other}", target)
	preview := o.carryOut("preview", "{"+config+"}")
	g.Expect(preview.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	last := c.revision(g)
	back := o.carryOut("back", "{"+config+", confirm: "+preview.Status.Result["confirm"]+"}")
	g.Expect(back.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("theirs too"))
		g.Expect(c.revisionOf(g, i)).To(BeNumerically(">", last))
	}
	chain, err := o.taker.Latest(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chain.Full.LastRevision).To(BeNumerically(">", last), "the first full snapshot of the new cluster is among the own ones")
	g.Expect(o.carryOut("undo", "undo: back").Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("ours"))
	}
}

// A cluster goes back to what is in another store, signed and encrypted, on the way that its refusal names: a CopyBackups brings it into the
// container of the own store, and from names the prefix there.
func TestRestoreFromAnotherStore(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	identity, recipient := encryptiontest.Identity(t)
	protected := store.Config{Provider: store.Local, SigningKeys: signaturetest.Keys(t), Recipients: []string{recipient}, Identities: encryptiontest.Folder(t, identity)}
	at := func(prefix string) store.Config {
		c := protected
		c.Container, c.Prefix = t.TempDir(), prefix
		return c
	}
	gone := newCluster(t, 1)
	gone.store = at("gone/main")
	gone.share(g, 1)
	gone.start(g, 0, "new")
	gone.put(g, "theirs")
	target := gone.revision(g)
	taker := gone.takeSnapshots(g)
	gone.put(g, "unwanted")
	_, err := taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	gone.stop(0)

	c := newCluster(t, 3)
	c.store = at("here")
	o := operate(g, c, c.startThree(g))
	o.archive = gone.store
	o.etcd.Spec.Backup.Signing = &v1alpha1.SigningSpec{SecretRef: v1alpha1.SecretReference{Name: "keys"}}
	g.Expect(o.api.Update(t.Context(), o.etcd)).To(Succeed())
	o.handler.Rules = policy.Rules{LocalClaims: []string{"ns/backups"}, CopyStores: []configv1alpha1.CopyStore{{Provider: "Local", Container: "archive"}}}
	c.put(g, "ours")
	_, err = o.taker.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())

	handler := tasks.For(o.handler)
	decoded, err := handler.Decode(fmt.Sprintf("{to: {revision: %d}, from: {provider: Local, container: archive, prefix: gone/main}}", target))
	g.Expect(err).NotTo(HaveOccurred())
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "elsewhere"}}
	task.Spec.OwnerEtcdReference.Name = o.etcd.Name
	refused, err := handler.Admit(t.Context(), tasks.Task{Object: task, Etcd: o.etcd, Config: decoded})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(refused.Outcome).To(Equal(tasks.Reject))
	g.Expect(refused.Message).To(ContainSubstring("copy-backups main -n ns --wait --source-provider Local --source-container archive --source-prefix gone/main --target-provider Local --target-container backups --target-prefix ns/main-copy. Then"))
	copied := o.carryOutBy(tasks.For(&copybackups.Handler{Jobs: o.handler.Jobs, Rules: o.handler.Rules}), v1alpha1.CopyBackups, "copy",
		"{sourceStore: {provider: Local, container: archive, prefix: gone/main}, targetStore: {provider: Local, container: backups, prefix: ns/main-copy}}")
	g.Expect(copied.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))

	config := fmt.Sprintf("to: {revision: %d}, from: {prefix: ns/main-copy}", target)
	preview := o.carryOut("preview", "{"+config+"}")
	g.Expect(preview.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	back := o.carryOut("back", "{"+config+", confirm: "+preview.Status.Result["confirm"]+"}")
	g.Expect(back.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("theirs"))
	}
	g.Expect(o.carryOut("undo", "undo: back").Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	for i := range 3 {
		g.Expect(c.get(g, i)).To(Equal("ours"))
	}
}
