// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Result is what has become of a seed.
type Result struct {
	Script Script
	Trace  *loop.Trace
	Broken []string
	// Operations were carried out, of which Faulted with a fault in between; Injected are the faults by name.
	Operations, Faulted int
	Injected            map[string]int
	// Seen is what else has occurred.
	Seen   census
	Lasted time.Duration
}

var particulars = regexp.MustCompile("[0-9a-f]*[0-9][0-9a-f.]*")

// Kind is what was broken first, without names, numbers and times; empty for nothing.
func (r Result) Kind() string {
	if len(r.Broken) == 0 {
		return ""
	}
	what, _, _ := strings.Cut(r.Broken[0], ": ")
	return particulars.ReplaceAllString(what, "")
}

// bound is within what time all has to end once the last fault has.
const bound = 30 * time.Minute

// Run runs a script, in a bubble.
func Run(t *testing.T, script Script) (r Result) {
	t.Helper()
	return watch(t, script, nil)
}

// watch is Run with something that looks at the world now and then.
func watch(t *testing.T, script Script, look func(*World)) (r Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w, err := New(script.Seed, 5, max(script.Etcds, 1))
		if err != nil {
			t.Fatal(err)
		}
		if look != nil {
			w.watched = func() { look(w) }
		}
		s := &session{chaos: newChaos(t, w), helping: w.Random("help")}
		s.run(script)
		for _, o := range append([]*operator(nil), w.operators...) {
			o.kill()
		}
		w.Close()
		r = Result{Script: script, Trace: w.Trace, Broken: w.Broken, Operations: s.done, Faulted: s.faulted, Injected: w.faults.injected, Seen: w.seen, Lasted: w.Now()}
	})
	return r
}

// session is what users do in a run.
type session struct {
	*chaos
	helping       *rand.Rand
	done, faulted int
	recoveries    int
}

func (s *session) run(script Script) {
	if script.Etcds > 1 {
		s.limit()
	}
	for _, j := range s.judges {
		spec := v1alpha1.EtcdSpec{Replicas: script.Members}
		if script.Store {
			spec.Backup, j.backups = store(), &backups{world: s.World, of: j, begun: map[string][]string{}}
			if s.fleet != nil {
				spec.Backup.FullSnapshotSchedule = ptr.To("0 3 * * *") // one of its own would make its template another one
			}
			j.backups.keep()
		}
		s.Create(j.name, spec, nil)
	}
	s.write()
	s.start()
	s.await("the Etcd serves")
	if script.Etcds > 1 {
		s.pass(mostStale, func() bool { return false }) // every cache has the policy
	}
	s.chaos.run(script.Faults)
	for _, j := range s.judges {
		s.help(j)
	}
	for i, o := range script.Operations {
		if len(s.Broken) > 0 {
			return
		}
		before := s.total()
		s.Log("user", o.Name)
		s.carryOut(o, fmt.Sprintf("task-%d", i))
		s.pass(o.Then, func() bool { return false })
		s.done++
		if s.total() > before {
			s.faulted++
		}
	}
	s.finish()
	s.pass(bound, func() bool { return s.open == 0 })
	s.await("all operations end, after the last fault")
}

// carryOut begins an operation, on one of the Etcds.
func (s *session) carryOut(o Operation, task string) {
	random, all := picked(o.Pick), slices.Concat(wishes, fleetWishes, scriptWishes)
	j := s.judges[0]
	if len(s.judges) > 1 {
		j = s.judges[random.IntN(len(s.judges))]
	}
	all[slices.IndexFunc(all, func(w wish) bool { return w.name == o.Name })].begin(s, j, task, random)
}

func (s *session) total() (n int) {
	for _, times := range s.faults.injected {
		n += times
	}
	return n
}

// help has a user recover the cluster when its quorum has been lost for a while, or is out of sight; for good or not, the user cannot know.
func (s *session) help(j *judge) {
	s.After(time.Duration(20+s.helping.IntN(60))*time.Second, "user", "", func() {
		s.help(j)
		s.unsuspend(j)
		switch q := j.seen; {
		case q.is:
			s.settle(j)
			return
		case s.Now()-q.at < time.Minute || j.asked() == 0:
			return
		}
		for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](s.API.Live()) {
			if t.Spec.OwnerEtcdReference.Name != j.name || t.Spec.Type != v1alpha1.QuorumLossRecovery || t.Status.State.IsFinal() {
				continue
			}
			// As docs/recovery.md says for a survivor that is lost again: another one once this one is deleted.
			if r := t.Status.Recovery; r != nil && (r.Phase == v1alpha1.RecoveryGrowing || r.Phase == v1alpha1.RecoveryStarting && time.Since(r.PhaseSince.Time) > 3*time.Minute) {
				s.Log("user", "deletes task "+t.Name)
				s.remove(t)
			}
			s.record(j, said(t))
			s.decide(j, said(t))
			s.rename(j, t)
			return
		}
		s.decide(j, saidOf(j.etcd()))
		s.recoveries++
		j.Task(fmt.Sprintf("recovery-%d", s.recoveries), v1alpha1.QuorumLossRecovery, "")
	})
}

// deletes is how messages ask for it to delete claims.
var deletes = regexp.MustCompile(`delete (claim|each claim|its claim)\b`)

// rejoins is how a recovery asks for it to delete the pod of a member that was removed with etcdctl.
var rejoins = regexp.MustCompile(`if etcdctl member list does not name it, it was removed, and joins again once pod (\S+) is deleted`)

// refuses is how it asks for it to delete the pod of one whose etcd refuses the member list.
var refuses = regexp.MustCompile(`[Dd]elete pod (\S+), and it (?:joins|starts with the newest template)`)

// settle has a user do what changes of members ask for, whose volumes have data of another cluster: one that grows again after its only member has
// restored the backup has that. So it is with a recovery that waits for a member which was removed, and with an Etcd that records another cluster than
// the one that serves.
func (s *session) settle(j *judge) {
	if e := j.etcd(); e != nil {
		s.record(j, saidOf(e))
	}
	for _, t := range apiserver.Of[*v1alpha1.EtcdOperatorTask](s.API.Live()) {
		switch asks, again := rejoins.FindStringSubmatch(said(t)), refuses.FindStringSubmatch(said(t)); {
		case t.Spec.OwnerEtcdReference.Name != j.name || t.Status.State.IsFinal():
		case t.Spec.Type == v1alpha1.MembershipChange:
			s.decide(j, said(t))
		case asks != nil && !slices.ContainsFunc(j.list, func(p members.Peer) bool { return podOfURL(p.PeerURL) == asks[1] }):
			s.deletePod(asks[1])
		case again != nil:
			s.deletePod(again[1])
		}
	}
}

func (s *session) deletePod(name string) {
	if p := apiserver.Find[*corev1.Pod](s.API.Live(), Namespace, name); p != nil && p.DeletionTimestamp == nil {
		s.Log("user", "deletes pod "+name)
		s.remove(p)
	}
}

// decide has a user do what a recovery asks for, or an Etcd that is created again, that does not know which data served last, or a change of members:
// delete the claims with data of other clusters.
func (s *session) decide(j *judge, asks string) {
	if asks = strings.ToLower(asks); len(j.past) == 0 || !deletes.MatchString(asks) {
		return
	}
	for _, c := range apiserver.Of[*corev1.PersistentVolumeClaim](s.API.Live()) {
		d := s.disks[c.Spec.VolumeName]
		if d != nil && d.Cluster != "" && d.Cluster != j.newest().id && etcdOf(podOfClaim(c.Name)) == j.name {
			s.Log("user", "deletes claim "+c.Name)
			s.remove(c)
		}
	}
}

// records is how messages ask for it to record the cluster whose data an Etcd has.
var records = regexp.MustCompile(`-p '{"status":{"clusterID":"([0-9a-f]+)"}}'`)

// record has a user run the command in a message that records the cluster which served last.
func (s *session) record(j *judge, asks string) {
	for _, id := range records.FindAllStringSubmatch(asks, -1) {
		if len(j.past) > 0 && id[1] == j.newest().id && id[1] != j.etcd().Status.ClusterID {
			s.Log("user", "records cluster "+id[1])
			edit(s.World, Namespace, j.name, "status", func(e *v1alpha1.Etcd) { e.Status.ClusterID = id[1] })
		}
	}
}

// rename has a user give the best data that members have set aside its name again, where a recovery finds no other of the newest cluster and asks for
// that, and create the task again.
func (s *session) rename(j *judge, t *v1alpha1.EtcdOperatorTask) {
	if !strings.Contains(said(t), "Rename it to new.etcd on its volume") {
		return
	}
	for _, c := range apiserver.Of[*corev1.PersistentVolumeClaim](s.API.Live()) {
		d := s.disks[c.Spec.VolumeName]
		if d == nil || d.Cluster != "" || etcdOf(podOfClaim(c.Name)) != j.name {
			continue
		}
		best := ""
		for _, dir := range slices.Sorted(maps.Keys(d.Kept)) {
			if best == "" || len(d.Kept[dir].All()) > len(d.Kept[best].All()) {
				best = dir
			}
		}
		if best != "" {
			s.Log("user", fmt.Sprintf("renames %s of claim %s", best, c.Name))
			d.Unkeep(best)
		}
	}
	s.Log("user", "deletes task "+t.Name)
	s.remove(t)
}

// pass lets time pass, until something is broken or done.
func (s *session) pass(d time.Duration, done func() bool) {
	if !s.Run(s.Now()+d, func() bool { return len(s.Broken) > 0 || done() }) {
		s.broke("what happens at this moment never ends")
	}
}

// Unfinished returns what the simulation waits for; empty once every operation has ended and all members serve.
func (w *World) Unfinished() string {
	for _, j := range w.judges {
		if waits := j.Unfinished(); waits != "" {
			return waits
		}
	}
	return ""
}

// every is how often it is looked whether all is done.
const every = 200 * time.Millisecond

// await waits until all is done, and complains if it takes too long.
func (s *session) await(what string) {
	looked := -every
	s.pass(bound, func() bool {
		if s.Now()-looked < every {
			return false
		}
		looked = s.Now()
		return s.Unfinished() == ""
	})
	if waits := s.Unfinished(); len(s.Broken) == 0 && waits != "" {
		s.broke("it did not come about within %s that %s: %s", bound, what, waits)
	}
}
