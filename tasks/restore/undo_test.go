// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"strconv"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// past is what tasks have made of a cluster, one after the other.
type past struct {
	etcd  *v1alpha1.Etcd
	tasks map[string]*v1alpha1.EtcdOperatorTask
}

// replaces adds a task that starts from something.
func (p *past) replaces(name string, source v1alpha1.RecoverySource, from v1alpha1.ClusterRestore) {
	t := earlier(func(t *v1alpha1.EtcdOperatorTask) { t.Name, t.UID = name, types.UID(name+"-uid") })
	t.CreationTimestamp = metav1.Unix(int64(len(p.tasks)), 0)
	r := t.Status.Recovery
	r.Source, r.PreviousClusterID, r.Restore.ClusterRestore, r.Restore.FinalSnapshot = source, p.etcd.Status.ClusterID, from, "final-of-"+name
	if source == v1alpha1.RecoverFromData {
		t.Spec.Type, r.Restore = v1alpha1.QuorumLossRecovery, nil
	}
	p.tasks[name] = t
	p.etcd.Status.Recovery = &v1alpha1.ClusterRecovery{Task: t.Name, TaskUID: t.UID, Member: r.Member, Source: source, PreviousClusterID: r.PreviousClusterID, Restore: &from}
	p.etcd.Status.ClusterID = component.Lineage(p.etcd).RecoveredID()
}

// goesBack adds a Restore, recovers a QuorumLossRecovery, and undoes an undo from kept data, or from the final snapshot.
func (p *past) goesBack(name string) {
	p.replaces(name, v1alpha1.RecoverFromTarget, v1alpha1.ClusterRestore{Base: "full"})
}
func (p *past) recovers(name string) {
	p.replaces(name, v1alpha1.RecoverFromData, v1alpha1.ClusterRestore{})
}
func (p *past) undoes(name, undone string) {
	p.replaces(name, v1alpha1.RecoverFromKeptData, v1alpha1.ClusterRestore{KeptData: "new.etcd" + member.BeforeSuffix + undone + "-uid-1"})
}
func (p *past) undoesBySnapshot(name, undone string) {
	p.replaces(name, v1alpha1.RecoverFromTarget, v1alpha1.ClusterRestore{Base: "final-of-" + undone})
}

// onlyChooses adds a task that has ended before the status of the Etcd recorded its choice.
func (p *past) onlyChooses(name string) {
	was := p.etcd.Status
	p.goesBack(name)
	p.etcd.Status = was
}

// restoresItself has the only member restore the backup: nothing is recorded any more.
func (p *past) restoresItself() { p.etcd.Status.ClusterID, p.etcd.Status.Recovery = "aaaa", nil }

// parse returns an ID of a cluster as its members report it.
func parse(g Gomega, id string) uint64 {
	n, err := strconv.ParseUint(id, 16, 64)
	g.Expect(err).NotTo(HaveOccurred())
	return n
}

// An undo makes the restore before the undone one the newest again, and a task that is to be undone first leads there. An undo that is asked for
// twice, as after a client timed out, is told so: to undo the first one brings back what was undone.
func TestWhatCanBeUndone(t *testing.T) {
	const possible = ""
	leads := func(from, to string) string {
		return "the tasks that exist do not lead from task " + from + " back to task " + to + ". Preview the final snapshot of task " + to + " to go back to what was there before it (kubectl etcdtask restore main -n ns --to snapshot=final-of-" + to + ")"
	}
	for name, c := range map[string]struct {
		past func(p *past)
		says map[string]string
	}{
		"two": {func(p *past) { p.goesBack("a"); p.goesBack("b") }, map[string]string{
			"a": "task b has replaced the cluster since task a: undo that one first", "b": possible,
		}},
		"the newer one is undone": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.undoes("u", "b") }, map[string]string{
			"a": possible, "b": "task u has undone task b: there is nothing left to undo. To go back to what task b had restored, undo task u", "u": possible,
		}},
		"by its final snapshot": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.undoesBySnapshot("u", "b") }, map[string]string{
			"a": possible, "b": "task u has undone task b", "u": possible,
		}},
		"both are undone": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.undoes("u", "b"); p.undoes("v", "a") }, map[string]string{
			"a": "task v has undone task a", "b": leads("v", "b"), "u": leads("v", "u"), "v": possible,
		}},
		"the undo is undone": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.undoes("u", "b"); p.undoes("v", "u") }, map[string]string{
			"a": "task b has replaced the cluster since task a: undo that one first", "b": possible, "u": "task v has undone task u", "v": possible,
		}},
		"another one follows an undo": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.undoes("u", "b"); p.goesBack("c") }, map[string]string{
			"a": "task c has replaced the cluster since task a: undo that one first", "b": "task u has undone task b", "u": "task c has replaced the cluster since task u: undo that one first", "c": possible,
		}},
		"that is undone as well": {func(p *past) {
			p.goesBack("a")
			p.goesBack("b")
			p.undoes("u", "b")
			p.goesBack("c")
			p.undoes("v", "c")
		}, map[string]string{"a": possible, "b": "task u has undone task b", "u": possible, "c": "task v has undone task c", "v": possible}},
		"a recovery is between": {func(p *past) { p.goesBack("a"); p.recovers("q"); p.goesBack("b"); p.undoes("u", "b") }, map[string]string{
			"a": "task q has recovered the cluster from quorum loss since task a, and a recovery cannot be undone. Preview the final snapshot of task a",
			"u": possible,
		}},
		"the newest is gone": {func(p *past) { p.goesBack("a"); p.goesBack("b"); delete(p.tasks, "b") }, map[string]string{"a": leads("b", "a")}},
		"an undo is gone":    {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.undoes("u", "b"); delete(p.tasks, "u") }, map[string]string{"a": possible, "b": "task u has undone task b, and was deleted: there is nothing left to undo"}},
		"the undone is gone": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.undoes("u", "b"); delete(p.tasks, "b") }, map[string]string{"a": leads("u", "a"), "u": possible}},
		"one between is gone": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.goesBack("c"); delete(p.tasks, "b") }, map[string]string{
			"a": leads("c", "a"), "c": possible,
		}},
		"the only member has restored itself": {func(p *past) { p.goesBack("a"); p.goesBack("b"); p.restoresItself() }, map[string]string{
			"a": "task b has replaced the cluster since task a: undo that one first", "b": possible,
		}},
		"one was never recorded": {func(p *past) { p.goesBack("a"); p.restoresItself(); p.onlyChooses("b") }, map[string]string{
			"a": possible, "b": "task b has replaced no data: there is nothing to undo",
		}},
		"it has, between the two": {func(p *past) { p.goesBack("a"); p.restoresItself(); p.goesBack("b"); p.undoes("u", "b") }, map[string]string{
			"a": leads("u", "a"), "u": possible,
		}},
		"a status leads in a circle": {func(p *past) {
			p.goesBack("a")
			p.undoes("u", "u")
			p.tasks["u"].Status.Recovery.PreviousClusterID = p.etcd.Status.ClusterID
			p.undoes("v", "u")
		}, map[string]string{"a": leads("v", "a")}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := &past{etcd: newEtcd(), tasks: map[string]*v1alpha1.EtcdOperatorTask{}}
			c.past(p)
			objects := []client.Object{p.etcd}
			for _, t := range p.tasks {
				objects = append(objects, t)
			}
			there := apitest.API(objects...)
			healthy := at(saving, serving(parse(g, p.etcd.Status.ClusterID), 0, 1, 2)).Snapshot
			for undone, says := range c.says {
				v, err := handlerOf(there, healthy).Admit(t.Context(), taskOf(p.etcd, Config{Undo: undone}, nil))
				g.Expect(err).NotTo(HaveOccurred())
				if says == possible {
					g.Expect(v.Outcome).To(Equal(tasks.Continue), "%s: %s", undone, v.Message)
					continue
				}
				g.Expect(v.Code).To(Equal(v1alpha1.ErrRestoreRefused), "%s: %s", undone, v.Message)
				g.Expect(v.Message).To(HavePrefix(says), undone)
			}
		})
	}
}

// The Jobs that survey the volumes for an undo describe what was kept for the undone task, which may not be the newest.
func TestWhatIsSurveyedForAnUndo(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   OmegaMatcher
	}{
		"an undo":   {Config{Undo: "r1"}, ContainElement(corev1.EnvVar{Name: member.KeptForVariable, Value: "r1-uid"})},
		"a restore": {Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, ContainElement(corev1.EnvVar{Name: member.KeptForVariable, Value: "none"})},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd, in := newEtcd(), at(surveying, stopped)
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: etcd.ClaimName(0), UID: "claim", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"},
			}}
			claim.Status.Phase = corev1.ClaimBound
			task := taskOf(etcd, c.config, &in.Recorded)
			there := apitest.API(etcd, claim, earlier(), task.Object)
			run(t, there, in.Snapshot, task)
			created := &batchv1.Job{}
			g.Expect(there.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: job.Name(task.Object) + "-0"}, created)).To(Succeed())
			g.Expect(created.Spec.Template.Spec.Containers[0].Env).To(c.want)
		})
	}
}
