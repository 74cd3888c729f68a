// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// judge says what must never happen to an Etcd. It asks the models themselves what is true, and shares no code with the operator.
type judge struct {
	world *World
	// name of the Etcd.
	name string
	// serving is since when each member that is listed has served, or not, by its ID.
	serving map[uint64]since
	// from is the pod from which each member has served last, by its ID.
	from map[uint64]types.UID
	// quorate is since when a quorum has served, or not, and seen since when users have seen that.
	quorate, seen since
	// served is for how long the last quorum that was lost had served.
	served time.Duration
	// lost is when a quorum was lost.
	lost time.Duration
	// servedFor is the UID of the newest Etcd whose own pod has led.
	servedFor types.UID
	// leads is since when the newest leader has led.
	leads led
	// surges is since when users have wanted a second member to stand in for the only one, and alone since when there is one voter.
	surges, alone since
	// edited is when users changed the spec last.
	edited time.Duration
	// byHand: a user scales the StatefulSet at this moment.
	byHand bool
	// deleted is the StatefulSet that was deleted last while its Etcd was there.
	deleted types.UID
	// hibernated is when users asked for no members last; they may be obeyed late.
	hibernated time.Duration
	// list is the newest member list of a leader, and settled the newest one of a leader that has committed something in its term.
	list, settled []members.Peer
	// settledOf is the lineage of settled.
	settledOf string
	// gone are the members that were listed and are no longer.
	gone map[uint64]bool
	// past are the clusters that have had a leader, in order, and promises what users have asked a Restore for, by its UID.
	past     []lineage
	promises map[types.UID]promise
	// untrue are statements that are not so, and told those that were complained of.
	untrue truths
	told   map[string]bool

	// backups are those of the Etcd; nil without a store.
	backups *backups
	// highest is the highest revision that a leader of an Etcd has had, since the first cluster of this UID has begun.
	highest int64
	uid     types.UID
	// gaveUp is when users last asked for no members and no volumes.
	gaveUp time.Duration
}

type since struct {
	is bool
	at time.Duration
}

type led struct {
	by uint64
	at time.Duration
}

func newJudge(w *World, name string) *judge {
	return &judge{world: w, name: name, serving: map[uint64]since{}, from: map[uint64]types.UID{}, told: map[string]bool{}, gone: map[uint64]bool{}, promises: map[types.UID]promise{}}
}

// sight is for how long an operator may act on what it saw: for as long as it may take between an observation and what is done, and for as long
// as a request may be late. What a fault has broken in that time is not the operator's doing.
const sight = observation + mostLate*time.Millisecond

// observation is how old what an operator has seen may be when it asks for something.
const observation = 5 * time.Second

func (s since) now(is bool, at time.Duration) since {
	if s.is == is && s.at != 0 {
		return s
	}
	return since{is, at}
}

// members looks at what the members are.
func (j *judge) members() {
	w := j.world
	e := j.etcd()
	if j.asked() == 0 {
		j.hibernated = w.Now()
		if e != nil && e.Spec.Retention().WhenScaled == v1alpha1.VolumesDeleted {
			j.gaveUp = w.Now()
		}
	}
	leader, list := j.leader()
	j.seen = j.seen.now(leader != nil && !w.podOf(leader).node.isSplit(), w.Now())
	if leader == nil {
		if j.quorate.is { // for however short: a term has begun, which members say
			j.lost, j.served = w.Now(), w.Now()-j.quorate.at
		}
		j.quorate = j.quorate.now(false, w.Now())
		j.attend() // none serves without a leader
		return
	}
	j.quorate, j.list = j.quorate.now(true, w.Now()), list
	if pod, set := apiserver.Find[*corev1.Pod](w.API.Live(), Namespace, leader.Name), j.set(); e != nil && set != nil && pod != nil && metav1.IsControlledBy(pod, set) && metav1.IsControlledBy(set, e) {
		j.servedFor = e.UID
	}
	j.alone = j.alone.now(len(j.voters()) == 1, w.Now())
	if j.leads.by != leader.Disk.Member {
		j.leads = led{leader.Disk.Member, w.Now()}
	}
	j.attend()
	j.cluster(leader)
	j.consecutive(leader)
}

// attend notes which members of the newest list serve.
func (j *judge) attend() {
	for _, p := range j.list {
		is := j.serves(p.ID)
		if j.serving[p.ID] = j.serving[p.ID].now(is, j.world.Now()); is {
			j.from[p.ID] = j.podOf(p.ID)
		}
	}
}

// lately reports whether a member has served within sight, as an operator may have seen. One that served when the judge looked last has stopped since
// then, if it does not serve.
func (j *judge) lately(id uint64) bool {
	s := j.serving[id]
	return s.is || j.world.Now()-s.at < sight
}

// leader returns the member that leads with a quorum, with its member list; nil if there is none.
func (j *judge) leader() (leader *members.Member, list []members.Peer) {
	for _, m := range j.world.Etcd.Running() {
		if !m.Leads() || etcdOf(m.Name) != j.name || !j.world.Etcd.Serves(m) {
			continue
		}
		if leader != nil && leader.Disk.Lineage() != m.Disk.Lineage() {
			j.world.broke("clusters %s and %s serve at a time", leader.Disk.Lineage(), m.Disk.Lineage())
		}
		leader, list = m, m.List()
	}
	return leader, list
}

func (j *judge) serves(id uint64) bool {
	for _, m := range j.world.Etcd.Running() {
		if m.Disk.Member == id && j.world.Etcd.Serves(m) {
			return true
		}
	}
	return false
}

// podOf is the pod in which a member runs; empty if it does not.
func (j *judge) podOf(id uint64) types.UID {
	for _, m := range j.world.Etcd.Running() {
		if m.Disk.Member == id {
			return j.world.podOf(m).uid
		}
	}
	return ""
}

// removed is the removal of a pod that was carried out for an operator.
type removed struct {
	by *operator
	at time.Duration
}

// remains reports whether a member counts that is there, or served lately: not if an operator has removed the pod in which it is, or from which it
// served. An operator may not know yet what another one has removed within observation before it asked.
func (j *judge) remains(o *operator, id uint64, is bool, asked time.Duration) bool {
	from := j.from[id]
	if is {
		from = j.podOf(id)
	}
	r, was := j.world.removed[from]
	return !was || r.by != o && r.at > asked-observation
}

// runs reports whether a member runs, and could answer.
func (j *judge) runs(id uint64) bool {
	for _, m := range j.world.Etcd.Running() {
		if m.Disk.Member == id && !m.Frozen && !j.world.podOf(m).node.silent() {
			return true
		}
	}
	return false
}

// aimed is a request of an operator, with the time when it asked, and the pod that it removes: the one that it saw last.
type aimed struct {
	apiserver.Request
	who    string
	asked  time.Duration
	target types.UID
}

func removes(r apiserver.Request) bool {
	return r.Kind == "Pod" && (r.Verb == "delete" || r.Verb == "create eviction")
}

// aims is the pod that a request of an operator is to remove: that of this name when the API server was asked for pods last, as it answered.
func (o *operator) aims(who string, r apiserver.Request) types.UID {
	read, ok := o.podsRead[who]
	if !ok || !removes(r) {
		return o.world.target(r)
	}
	if p := o.world.API.After("Pod", read, r.Key); p != nil {
		return p.GetUID()
	}
	return ""
}

// target is the pod that a request removes; empty for none.
func (w *World) target(r apiserver.Request) types.UID {
	if removes(r) {
		if p := apiserver.Find[*corev1.Pod](w.API.Live(), r.Key.Namespace, r.Key.Name); p != nil {
			return p.UID
		}
	}
	return ""
}

// mostOften is how often a minute a controller may write the same: it looks once a second, at most.
const mostOften = 150

// repeated counts how often a controller has written the same in a minute.
type repeated struct {
	minute time.Duration
	times  int
}

// mostOften is how often a minute a controller may ask for this. A review of who asks stores nothing (the registry of Kubernetes has no store for
// it), and tells the time to a look that cannot believe its own clock, twice if it acts: it is a read.
func (r aimed) mostOften() int {
	if r.Kind == "SelfSubjectReview" {
		return 4 * mostOften
	}
	return mostOften
}

// again counts a write, and reports whether a controller repeats it without a pause. While two operators act, each reverts at once what the other has
// written by what it knows, until the first notices that its time is over: that is not counted.
func (w *World) again(r aimed) bool {
	if w.acting() > 1 {
		return false
	}
	key, minute := r.who+" "+r.String(), w.Now()/time.Minute
	last := w.repeats[key]
	if last.minute != minute {
		last = repeated{minute: minute}
	}
	last.times++
	w.repeats[key] = last
	return last.times == r.mostOften()
}

// acting is how many operators are not paused.
func (w *World) acting() (n int) {
	for _, o := range w.operators {
		if !o.actor.Paused {
			n++
		}
	}
	return n
}

// before judges a request of an operator to the API server, before it is carried out: what it breaks if it is; empty if nothing.
func (w *World) before(o *operator, r aimed) string {
	switch {
	case w.again(r):
		return fmt.Sprintf("%s does this for the %dth time within a minute: %s", r.who, r.mostOften(), r)
	case removes(r.Request):
		if is := w.target(r.Request); is != "" && r.target != "" && is != r.target {
			return fmt.Sprintf("%s removes pod %s, which is not the one that it asked to remove", o.name, r.Key.Name)
		}
		j := w.of(r.Key.Name)
		if w.fleet != nil {
			if breaks := w.fleet.removal(o, j, r.Key.Name); breaks != "" {
				return breaks
			}
		}
		return j.removal(o, r)
	case r.Kind == "PersistentVolumeClaim" && r.Verb == "delete":
		return w.of(podOfClaim(r.Key.Name)).claim(o, r.Key.Name)
	case r.Kind == "EtcdOperatorTask" && r.Verb == "delete":
		return w.expiry(o, r.Key.Name)
	}
	if live := w.API.Live().Find(r.Kind, r.Key); live != nil && live.GetAnnotations()[strangers] != "" {
		return fmt.Sprintf("%s does this to a stranger's object: %s", o.name, r)
	}
	return ""
}

// strangers marks an object of someone who knows nothing of the operator.
const strangers = "a-strangers"

// expiry judges the deletion of a task: one that has ended is kept for as long as it is to be, whatever the operator's clock says.
func (w *World) expiry(o *operator, name string) string {
	t := apiserver.Find[*v1alpha1.EtcdOperatorTask](w.API.Live(), Namespace, name)
	if t == nil || !t.Status.State.IsFinal() {
		return ""
	}
	if kept := w.Now() - w.ended[t.UID]; kept < time.Duration(ptr.Deref(t.Spec.TTLSecondsAfterFinished, v1alpha1.DefaultTTLSecondsAfterFinished)-2)*time.Second {
		return fmt.Sprintf("%s deletes task %s %s after it has ended, which is before its time", o.name, name, kept)
	}
	return ""
}

// patience is for how long without a leader no member that runs may be given up, at least: it may find a quorum again.
const patience = 20 * time.Second

// removal judges the removal of a pod: where a quorum serves, or runs and has only just lost its leader, one has to be left. Members that something else
// than a removal has stopped just now count as serving.
func (j *judge) removal(o *operator, r aimed) string {
	name := r.Key.Name
	leader, list := j.leader()
	is := j.serves
	if leader == nil {
		// No member leads, but not yet for so long that who runs may be given up.
		if lost := j.world.Now() - j.lost; j.quorate.is || lost < sight || lost > patience || j.lost > r.asked-observation {
			return ""
		}
		list, is = j.list, j.runs
	}
	voters, left, removes := 0, 0, false
	for _, p := range list {
		if p.Learner {
			continue
		}
		voters++
		switch {
		case p.Name == name:
			_, again := j.world.removed[j.podOf(p.ID)]
			removes = is(p.ID) && !again && !j.world.reportedDown(name, r.asked)
		case (is(p.ID) || j.lately(p.ID) || j.serving[p.ID].at > r.asked-observation) && j.remains(o, p.ID, is(p.ID), r.asked):
			left++ // a removal that is late rests on what was seen when it was asked for
		}
	}
	if removes && leader != nil && voters == 1 && j.relieved(r.asked) {
		return fmt.Sprintf("%s removes pod %s, which serves, and no second member stands in for it", o.name, name)
	}
	if removes && left <= voters/2 && voters > 1 {
		return fmt.Sprintf("%s removes pod %s, which leaves %d of %d voters", o.name, name, left, voters)
	}
	return ""
}

// heard is how long ago a kubelet was heard of at most when its word is believed, with what is lost to seconds of timestamps.
const heard = 9 * time.Second

// reportedDown reports whether the newest word of a kubelet is that the member of a pod does not run, which the operator could believe when it asked for
// something: the kubelet's node was cut off, and the member has started, only a moment before.
func (w *World) reportedDown(name string, asked time.Duration) bool {
	live := apiserver.Find[*corev1.Pod](w.API.Live(), Namespace, name)
	if live == nil || w.pods[live.UID] == nil {
		return false
	}
	p := w.pods[live.UID]
	down := slices.ContainsFunc(live.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == v1alpha1.ContainerEtcd && c.State.Waiting != nil })
	return down && p.node.cut && w.Now()-time.Since(p.started) > asked-observation-heard
}

// change judges a change at the API server.
func (j *judge) change(c apiserver.Change) {
	if e, ok := c.After.(*v1alpha1.Etcd); c.Kind == "Etcd" && c.Key.Name == j.name {
		j.surges = j.surges.now(ok && e.Surges(), j.world.Now())
	}
	if c.Kind == "Etcd" && c.Key.Name == j.name && (c.Before == nil || c.After == nil || c.Before.GetGeneration() != c.After.GetGeneration()) {
		j.edited = j.world.Now()
		j.world.acts++ // only users write its spec
	}
	if t, ok := c.After.(*v1alpha1.EtcdOperatorTask); ok && t.Spec.OwnerEtcdReference.Name == j.name {
		j.task(c, t)
	}
	j.collected(c)
	before, _ := c.Before.(*appsv1.StatefulSet)
	after, _ := c.After.(*appsv1.StatefulSet)
	if before == nil || after == nil || after.Name != j.name || j.byHand {
		return
	}
	had, has := ptr.Deref(before.Spec.Replicas, 1), ptr.Deref(after.Spec.Replicas, 1)
	leader, list := j.leader()
	switch {
	case has >= had || leader == nil || !j.quorate.is || j.world.Now()-j.quorate.at <= sight:
	case has == 0 && !j.mayStop():
		j.world.broke("all members are stopped, although a quorum has served since %s", j.quorate.at)
	case has > 0:
		for _, p := range list {
			if ordinalOf(podOfURL(p.PeerURL)) >= int(has) {
				j.world.broke("the StatefulSet is scaled to %d, and %s is in the member list", has, p.PeerURL)
			}
		}
	}
}

// collected judges that no pod goes with a StatefulSet that is deleted while the Etcd is there.
func (j *judge) collected(c apiserver.Change) {
	ends := c.Before != nil && (c.After == nil || c.Before.GetDeletionTimestamp() == nil && c.After.GetDeletionTimestamp() != nil)
	switch e := j.etcd(); {
	case !ends || e == nil || e.DeletionTimestamp != nil:
	case c.Kind == "StatefulSet" && metav1.IsControlledBy(c.Before, e):
		j.deleted = c.Before.GetUID()
	case c.Kind == "Pod" && j.world.collecting && ptr.Deref(metav1.GetControllerOf(c.Before), metav1.OwnerReference{}).UID == j.deleted && j.deleted != "":
		j.world.broke("pod %s goes with its StatefulSet, which was deleted while the Etcd is there", c.Key.Name)
	}
}

// mayStop reports whether a user wants all members to be stopped, or did a moment ago.
func (j *judge) mayStop() bool {
	recreates := slices.ContainsFunc(apiserver.Of[*v1alpha1.EtcdOperatorTask](j.world.API.Live()), func(t *v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.OwnerEtcdReference.Name == j.name && t.Spec.Type == v1alpha1.RecreateRollout && !t.Status.State.IsFinal()
	})
	return recreates || j.replaces() || j.asked() == 0 || j.world.Now()-j.hibernated < sight
}

// podOfURL is the pod in the host name of a URL.
func podOfURL(url string) string {
	host, _, _ := strings.Cut(url[strings.LastIndex(url, "/")+1:], ".")
	return host
}
