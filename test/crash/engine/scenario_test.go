// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scenario is a task in a cluster.
type scenario struct {
	name     string
	taskType v1alpha1.TaskType
	config   string
	// outdate changes the pod template before the task is made.
	outdate bool
	// result is what the agent reports in a Job.
	result func(*batchv1.Job) string
	// whole: the controller of Etcds takes part, and makes the objects of the Etcd.
	whole bool
	// lost: no member runs, and all have data.
	lost bool
	// alone: pods of two revisions never exist at a time.
	alone bool
	// from is how many members the cluster begins with, 3 if it is 0, and replicas what its spec asks for when the task is made, the same
	// if it is 0.
	from, replicas int32
	// surges: the pod of the only member is replaced by way of a second one.
	surges bool
	// moves: the volumes are to be of another StorageClass.
	moves bool
	// undoes: there was a Restore before, which the task undoes. forgotten: what it kept is gone, and the final snapshot is left.
	undoes, forgotten bool
}

// disturbance is what happens to a run.
type disturbance struct {
	// at is the number of the write that it happens at; 0 for an undisturbed run.
	at   int
	fate disturb.Fate
	// hold are the kinds whose watches are held from that write on, for so long.
	hold []string
	long time.Duration
}

// run is one run of a scenario.
type run struct {
	t        *testing.T
	world    *inmemory.World
	scenario scenario
	agent    *disturb.Agent
	operator *operator
	writes   []disturb.Write
	disturb  disturbance
	// heldSince is when the watches were held.
	heldSince time.Time
	// broken are the invariants that were.
	broken []string
	// armed: writes count.
	armed bool
	// rebuiltFor is the task whose recovery the members have carried out; empty for none.
	rebuiltFor string
	// joins: a recovery begins with one member, and the others join it.
	joins bool
	// outage: members are down because someone stops them, or fail for good. What is done to claims counts nevertheless.
	outage bool
	// last is the number of the last write, counted or not.
	last int
}

const taskName = "task"

// outcome is what a run has come to, in words that can be compared.
type outcome struct {
	state, acts string
	writes      []disturb.Write
	broken      []string
	// why is what the task's status says, for people.
	why string
}

// perform runs a scenario once, in a bubble.
func perform(t *testing.T, s scenario, d disturbance) (out outcome) {
	t.Helper()
	agent := disturb.NewAgent()
	defer agent.Close()
	synctest.Test(t, func(t *testing.T) {
		r := &run{t: t, scenario: s, disturb: d, agent: agent}
		out = r.perform(t.Context())
	})
	return out
}

func (s scenario) newEtcd() *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: inmemory.Namespace, Name: inmemory.Name}}
	e.Spec.Replicas = cmp.Or(s.from, 3)
	e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "store", Prefix: "a/main"}}
	if s.surges {
		e.Spec.SurgePolicy = v1alpha1.SurgeSingleMember
	}
	return e
}

func (r *run) perform(ctx context.Context) outcome {
	r.begin(ctx)
	r.operator, r.armed = r.start(), true
	r.until(ctx, "the task has ended", func() bool { return r.read(ctx).Status.State.IsFinal() && r.ended(ctx) && r.isQuiet(ctx) })
	return r.outcome(ctx)
}

func (r *run) outcome(ctx context.Context) outcome {
	return outcome{state: r.state(ctx), acts: r.acts(), writes: r.writes, broken: r.broken, why: fmt.Sprintf("%+v", r.read(ctx).Status)}
}

// begin makes the cluster and the task.
func (r *run) begin(ctx context.Context) {
	etcd := r.scenario.newEtcd()
	w, err := inmemory.New(etcd, time.Now)
	must(r.t, err)
	if r.scenario.result != nil {
		w.Result = r.scenario.result
	}
	r.world = w
	if r.scenario.whole {
		r.build(ctx, etcd)
	} else {
		r.prepare(ctx, etcd)
	}
	if r.scenario.outdate {
		r.outdate(ctx)
	}
	if r.scenario.lost {
		for _, name := range w.Members.Names {
			w.Crashing[name] = true
		}
	}
	r.settle(ctx)
	// Pods that were made in the same second as a task count as newer.
	pause(time.Minute)
	if r.scenario.replicas > 0 {
		r.resize(ctx, r.scenario.replicas)
	}
	if r.scenario.moves {
		r.beginToMove(ctx)
	}
	if r.scenario.undoes {
		r.restoreBefore(ctx)
	}
	must(r.t, w.Create(ctx, r.task()))
}

// restoreBefore has the cluster go back, and what it had set aside.
func (r *run) restoreBefore(ctx context.Context) {
	before := r.task()
	before.Name, before.Spec.Config = "before", disturb.Restored
	must(r.t, r.world.Create(ctx, before))
	r.until(ctx, "the cluster has gone back", func() bool {
		must(r.t, r.world.Get(ctx, client.ObjectKeyFromObject(before), before))
		return before.Status.State == v1alpha1.TaskStateSucceeded && r.isQuiet(ctx)
	})
	if !r.scenario.forgotten {
		r.world.Result = func(j *batchv1.Job) string { return disturb.Kept(j, before.UID) }
	}
}

// resize changes the number of members that the spec asks for, and agrees to one.
func (r *run) resize(ctx context.Context, replicas int32) {
	etcd := &v1alpha1.Etcd{}
	must(r.t, r.world.Get(ctx, mainKey, etcd))
	etcd.Spec.Replicas = replicas
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
	must(r.t, r.world.Update(ctx, etcd))
}

// backUp has the agents report that the store has everything, while members change.
func (r *run) backUp(ctx context.Context) {
	lease := &coordinationv1.Lease{}
	if r.scenario.replicas == 0 && !r.scenario.surges && !r.scenario.moves || r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.Name + "-full-snap"}, lease) != nil {
		return
	}
	if at := lease.Spec.RenewTime; at == nil || time.Since(at.Time) > time.Minute {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		must(r.t, r.world.Update(ctx, lease))
	}
}

func (r *run) start() *operator {
	return newOperator(r.t, r.world, r.agent.URL, r.scenario.whole, r.decide)
}

// build has an operator make the objects of the Etcd, and waits for its members. From then on there are claims, as the StatefulSet controller
// makes them.
func (r *run) build(ctx context.Context, etcd *v1alpha1.Etcd) {
	r.operator = r.start()
	r.until(ctx, "the Etcd is ready", func() bool {
		e := &v1alpha1.Etcd{}
		must(r.t, r.world.Get(ctx, client.ObjectKeyFromObject(etcd), e))
		return ptr.Deref(e.Status.Ready, false) && e.Status.ClusterID != "" && r.isQuiet(ctx)
	})
	r.world.Claims = true
	r.settle(ctx)
}

// outdate changes the pod template.
func (r *run) outdate(ctx context.Context) {
	set, err := r.world.StatefulSet(ctx)
	must(r.t, err)
	if set.Spec.Template.Annotations == nil {
		set.Spec.Template.Annotations = map[string]string{}
	}
	set.Spec.Template.Annotations["changed"] = "by hand"
	must(r.t, r.world.Update(ctx, set))
}

// prepare makes the objects of the Etcd, and waits for its members.
func (r *run) prepare(ctx context.Context, etcd *v1alpha1.Etcd) {
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
	labels := map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: inmemory.Name, v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet,
	}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: inmemory.Namespace, Name: inmemory.Name, Labels: labels, OwnerReferences: owner},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(etcd.Spec.Replicas), UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: "localhost/etcd:v1"}, {Name: v1alpha1.ContainerBackupRestore, Image: composition.Agent}}}},
		},
	}
	must(r.t, r.world.Create(ctx, set))
	must(r.t, r.world.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: inmemory.Namespace, Name: inmemory.Name + "-full-snap", OwnerReferences: owner}}))
	r.settle(ctx)
}

func (r *run) task() *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: inmemory.Namespace, Name: taskName},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: r.scenario.taskType, Config: r.scenario.config, OwnerEtcdReference: v1alpha1.EtcdReference{Name: inmemory.Name}, TTLSecondsAfterFinished: ptr.To[int32](1e6)},
	}
}

func (r *run) read(ctx context.Context) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{}
	must(r.t, r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: taskName}, t))
	return t
}

// settle has the cluster do all that it would.
func (r *run) settle(ctx context.Context) {
	for range 50 {
		changed, err := r.world.Step(ctx)
		must(r.t, err)
		if !changed {
			return
		}
	}
	r.t.Fatal("the cluster does not settle")
}

// round has the operator look once, and the cluster do one thing. An operator that was killed is followed by another one.
func (r *run) round(ctx context.Context) error {
	r.release()
	r.operator.Deliver()
	failed := r.operator.look(ctx)
	synctest.Wait()
	if r.operator.Killed() {
		pause(20 * time.Second)
		r.operator = r.start()
	}
	r.step(ctx)
	return failed
}

// step has the cluster do one thing, and time pass.
func (r *run) step(ctx context.Context) {
	r.rebuild(ctx)
	r.join(ctx)
	r.backUp(ctx)
	_, err := r.world.Step(ctx)
	must(r.t, err)
	if r.armed && !r.outage && (r.scenario.replicas > 0 || r.scenario.surges || r.scenario.moves) && r.world.Members.Leader() < 0 {
		r.broken = append(r.broken, fmt.Sprintf("the quorum is lost after %v", r.world.Members.Changes()))
	}
	if n := r.votersServing(); r.armed && !r.outage && r.scenario.moves && n < int(r.scenario.from) {
		r.broken = append(r.broken, fmt.Sprintf("%d voters serve after %v", n, r.world.Members.Changes()))
	}
	pods, err := r.world.Pods(ctx)
	must(r.t, err)
	for _, p := range pods {
		if was, is := pods[0].Labels[appsv1.ControllerRevisionHashLabelKey], p.Labels[appsv1.ControllerRevisionHashLabelKey]; r.scenario.alone && was != is {
			r.broken = append(r.broken, fmt.Sprintf("pods of two revisions: %s and %s", pods[0].Name, p.Name))
		}
	}
	pause(500 * time.Millisecond)
}

func (r *run) votersServing() (n int) {
	for i, name := range r.world.Members.Names {
		if _, votes, _ := r.world.Members.Lists(i); votes && r.world.Ready(name) {
			n++
		}
	}
	return n
}

// rebuild has the members do what the operator tells them: start again, as another cluster.
func (r *run) rebuild(ctx context.Context) {
	config := &corev1.ConfigMap{}
	if !r.scenario.lost && r.scenario.taskType != v1alpha1.Restore || r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.Name + "-config"}, config) != nil || config.Data[member.KeyRecovery] == "" {
		return
	}
	shared, err := member.ParseShared(config.Data)
	must(r.t, err)
	if shared.Recovery.Task == r.rebuiltFor {
		return
	}
	r.rebuiltFor, r.world.Crashing = shared.Recovery.Task, map[string]bool{}
	r.world.Members.Rebuild(shared.RecoveredID())
	if r.joins {
		r.world.Members.Found(slices.Index(r.world.Members.Names, shared.Recovery.Member))
	}
}

// join has the next member join the one that a recovery has begun with, as long as the operator leaves that to the agents.
func (r *run) join(ctx context.Context) {
	config := &corev1.ConfigMap{}
	if !r.joins || r.rebuiltFor == "" || r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.Name + "-config"}, config) != nil {
		return
	}
	shared, err := member.ParseShared(config.Data)
	must(r.t, err)
	if shared.Recovery == nil || shared.Members != nil || r.world.Members.Leader() < 0 {
		return
	}
	pods, err := r.world.Pods(ctx)
	must(r.t, err)
	for _, p := range pods {
		i := slices.Index(r.world.Members.Names, p.Name)
		if listed, _, _ := r.world.Members.Lists(i); !listed && len(p.Status.InitContainerStatuses) > 0 {
			r.world.Members.Join(i)
			return
		}
	}
}

// release delivers what was held, once it was for long enough.
func (r *run) release() {
	if !r.heldSince.IsZero() && time.Since(r.heldSince) >= r.disturb.long {
		r.heldSince = time.Time{}
		r.operator.Hold()
	}
}

// maxRounds is more than a run takes, with a watch that is held for ten minutes.
const maxRounds = 6000

func (r *run) until(ctx context.Context, what string, is func() bool) {
	r.t.Helper()
	var failed error
	for range maxRounds {
		if is() {
			return
		}
		failed = r.round(ctx)
	}
	r.t.Fatalf("it did not come about that %s: %v\ntask: %+v\nwrites: %v", what, failed, r.status(ctx), r.writes[max(0, len(r.writes)-20):])
}

func (r *run) status(ctx context.Context) any {
	t := &v1alpha1.EtcdOperatorTask{}
	if r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: taskName}, t) != nil {
		return nil
	}
	return t.Status
}

// isQuiet reports whether nothing is written any more, for longer than anything waits to be written.
func (r *run) isQuiet(ctx context.Context) bool {
	if !r.heldSince.IsZero() {
		return false
	}
	before := r.last
	for range 24 {
		// Errors show in what is written, or in that nothing ends.
		_ = r.round(ctx)
		if r.last != before {
			return false
		}
	}
	return true
}

// decide is asked for the fate of each write.
func (r *run) decide(w disturb.Write) disturb.Fate {
	if !r.armed {
		r.last++
		return disturb.Answered
	}
	w.Number = len(r.writes) + 1
	r.writes = append(r.writes, w)
	r.last = w.Number
	r.check(w)
	if w.Number != r.disturb.at {
		return disturb.Answered
	}
	if len(r.disturb.hold) > 0 {
		r.operator.Hold(r.disturb.hold...)
		r.heldSince = time.Now()
	}
	return r.disturb.fate
}

// check looks at a write with eyes of its own.
func (r *run) check(w disturb.Write) {
	ready := map[string]bool{}
	for i, name := range r.world.Members.Names {
		if listed, _, _ := r.world.Members.Lists(i); listed {
			ready[name] = r.world.Ready(name)
		}
	}
	harm := disturb.Harm(w, inmemory.Namespace, ready)
	if r.scenario.surges {
		harm = r.harmOfSurge(w, harm)
	}
	if r.scenario.moves && w.Kind == "PersistentVolumeClaim" {
		harm = r.harmOfMove(w)
	}
	if harm != "" {
		r.broken = append(r.broken, harm)
	}
}

// harmOfSurge is what a write does to the only member: its pod stays while it is listed, and the claim of the second one alone goes.
func (r *run) harmOfSurge(w disturb.Write, harm string) string {
	second := r.scenario.newEtcd().ClaimName(1)
	for i, name := range r.world.Members.Names {
		listed, _, _ := r.world.Members.Lists(i)
		switch kind := strings.ToLower(w.Kind); {
		case !listed || w.Verb != "delete":
		case strings.HasPrefix(kind, "pod") && w.Name == name:
			return fmt.Sprintf("%s, whose member is listed", w)
		case i == 1 && w.Name == second:
			return harm
		}
	}
	if w.Name == second {
		return ""
	}
	return harm
}

// harmOfMove is what a write does to a claim: it goes while its member is not listed, and as many serve as before the move.
func (r *run) harmOfMove(w disturb.Write) string {
	for i, name := range r.world.Members.Names {
		listed, _, _ := r.world.Members.Lists(i)
		if w.Verb == "delete" && strings.HasSuffix(w.Name, "-"+name) && (listed || !r.outage && r.votersServing() < int(r.scenario.from)) {
			return fmt.Sprintf("%s: it is listed: %v, and %d voters serve", w, listed, r.votersServing())
		}
	}
	return ""
}

// state is what the cluster has come to, without what may differ from run to run: times, names of leaders, resourceVersions.
func (r *run) state(ctx context.Context) string {
	t := r.read(ctx)
	var lines []string
	lines = append(lines, fmt.Sprintf("task %s %s, result %v", t.Status.State, t.Status.Progress, slices.Sorted(maps.Keys(t.Status.Result))))
	if s := t.Status.Recovery; s != nil {
		lines = append(lines, fmt.Sprintf("recovery %s from %s %s", s.Phase, s.Member, s.Source))
	}
	if s := t.Status.Membership; s != nil {
		lines = append(lines, fmt.Sprintf("members %d/%d of %d serve", s.ServingVoters, s.Voters, s.Size))
	}
	if s := t.Status.Rollout; s != nil {
		lines = append(lines, fmt.Sprintf("rollout %s %d/%d %s", s.TargetRevision, s.UpdatedReplicas, s.Replicas, s.Phase))
	}
	set, err := r.world.StatefulSet(ctx)
	must(r.t, err)
	lines = append(lines, fmt.Sprintf("StatefulSet %d %s %s %v", *set.Spec.Replicas, set.Spec.UpdateStrategy.Type, inmemory.Revision(set), set.Annotations))
	pods, err := r.world.Pods(ctx)
	must(r.t, err)
	for _, p := range pods {
		lines = append(lines, fmt.Sprintf("pod %s %s ready %v", p.Name, p.Labels[appsv1.ControllerRevisionHashLabelKey], r.world.Ready(p.Name)))
	}
	jobs := &batchv1.JobList{}
	must(r.t, r.world.List(ctx, jobs))
	for _, j := range jobs.Items {
		lines = append(lines, "job "+j.Labels[v1alpha1.LabelComponent])
	}
	all := &v1alpha1.EtcdOperatorTaskList{}
	must(r.t, r.world.List(ctx, all))
	for _, t := range all.Items {
		lines = append(lines, fmt.Sprintf("there is a %s, %s", t.Spec.Type, t.Status.State))
	}
	lines = append(lines, r.stateOfEtcd(ctx)...)
	lease := &coordinationv1.Lease{}
	must(r.t, client.IgnoreNotFound(r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.Name + "-full-snap"}, lease)))
	lines = append(lines, "recorded "+ptr.Deref(lease.Spec.HolderIdentity, "nothing"))
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// stateOfEtcd is what the controller of Etcds has made of it.
func (r *run) stateOfEtcd(ctx context.Context) (lines []string) {
	if !r.scenario.whole {
		return nil
	}
	e, config, service := &v1alpha1.Etcd{}, &corev1.ConfigMap{}, &corev1.Service{}
	must(r.t, r.world.Get(ctx, mainKey, e))
	must(r.t, r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: e.ClientServiceName()}, service))
	must(r.t, r.world.Get(ctx, client.ObjectKey{Namespace: inmemory.Namespace, Name: inmemory.Name + "-config"}, config))
	for _, c := range e.Status.Conditions {
		lines = append(lines, fmt.Sprintf("Etcd %s=%s", c.Type, c.Status))
	}
	return append(lines, fmt.Sprintf("clients kept away %t", disturb.Fenced(service)), fmt.Sprintf("Etcd ready %t, cluster %s, size %d, recovery %t, members recover %t",
		ptr.Deref(e.Status.Ready, false), disturb.Cluster(e.Status.ClusterID, config.Data), e.Status.ClusterSize, e.Status.Recovery != nil, config.Data[member.KeyRecovery] != ""))
}

// acts are what must not be done twice: the pods that were replaced, and what was asked of the agent.
func (r *run) acts() string {
	return fmt.Sprintf("removed %v, snapshots %d, members %v", r.world.Removed(), r.agent.Taken(), r.world.Members.Changes())
}
