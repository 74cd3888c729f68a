// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// faults decides what becomes of requests and watches.
type faults struct {
	random *rand.Rand
	// rate is how many of a thousand requests fail in one of the ways of fates, and slow how many of a hundred watches are late.
	rate, slow int
	// held are the kinds that no cache is shown for now.
	held map[string]bool
	// sight is the only node whose members the operator reaches; nil for all.
	sight *node
	// delayed: every second removal of a pod arrives up to mostDelayed late. replaced: a pod that is to be removed is deleted by a user before the
	// request arrives, and has a successor of its name.
	delayed, replaced bool
	// fatal: the operator ends as soon as it has promoted or removed a member.
	fatal bool
	// storeless: the store of backups does not answer.
	storeless bool
	// still: the controllers of Kubernetes do nothing. slowly: pods take up to their grace period to end.
	still, slowly bool
	// torn: agents end between two acts of those that replace data.
	torn bool
	// skew is how far off the clock of the next operator is; 0 for what is drawn.
	skew time.Duration
	// steady: clocks are off by seconds at most.
	steady bool
	// going is how many have begun and not ended.
	going int
	// injected counts, by name.
	injected map[string]int
}

func newFaults(l *loop.Loop) *faults {
	return &faults{random: l.Random("faults"), held: map[string]bool{}, injected: map[string]int{}}
}

// clock returns the clock of an operator, which may be off by two seconds, and now and then by minutes.
func (f *faults) clock() shifted {
	if by := f.skew; by != 0 && !f.steady {
		f.skew = 0
		return shifted{by}
	}
	if f.random.IntN(8) == 0 && !f.steady {
		return shifted{time.Duration(f.random.IntN(11)-5) * time.Minute}
	}
	return shifted{time.Duration(f.random.IntN(7)-3) * 700 * time.Millisecond}
}

// lag returns how long a change takes to a cache.
func (f *faults) lag(kind string) time.Duration {
	if f.held[kind] || f.random.IntN(100) < f.slow {
		f.injected["watch is late"]++
		return time.Duration(500+f.random.IntN(10_000)) * time.Millisecond
	}
	return time.Duration(1+f.random.IntN(30)) * time.Millisecond
}

// fate is what becomes of a request to the API server.
type fate struct {
	name string
	// writes: only of one that writes.
	writes bool
	do     func(c carried)
}

// carried is a request that is being carried out.
type carried struct {
	*faults
	ctx    context.Context
	world  *World
	who    string
	effect func() error
	answer func(error)
}

var anyResource = schema.GroupResource{Resource: "objects"}

var fates = []fate{
	{"conflict", true, func(c carried) { c.answer(apierrors.NewConflict(anyResource, "any", errors.New("it has changed"))) }},
	{"too many requests", false, func(c carried) { c.answer(apierrors.NewTooManyRequests("slow down", 1)) }},
	{"internal error", false, func(c carried) { c.answer(apierrors.NewInternalError(errors.New("etcdserver: request timed out"))) }},
	{"answer lost", true, func(c carried) {
		_ = c.effect() // its answer is lost
		c.answer(apierrors.NewTimeoutError("the answer was lost", 1))
	}},
	{"request late", false, func(c carried) { c.later(mostLate, c.effect) }},
	{"answer late", false, func(c carried) {
		err := c.effect()
		c.later(mostLate, func() error { return err })
	}},
}

// mostLate is how late a request or an answer may be, and mostDelayed how late a removal may be, in milliseconds.
const (
	mostLate    = 3000
	mostDelayed = 28_000
)

// later answers after a while what do says then. Who asks gives up at its deadline.
func (c carried) later(most int, do func() error) {
	after, answered := time.Duration(1+c.random.IntN(most))*time.Millisecond, false
	once := func(err error) {
		if !answered {
			answered = true
			c.answer(err)
		}
	}
	if deadline, ok := c.ctx.Deadline(); ok && time.Until(deadline) < after {
		c.world.After(time.Until(deadline), c.who, "gives up", func() { once(context.DeadlineExceeded) })
	}
	c.world.After(after, c.who, "what was late comes", func() { once(do()) })
}

// carry carries a request to the API server out.
func (f *faults) carry(ctx context.Context, o *operator, who string, r aimed, do func() error, answer func(error)) {
	w := o.world
	effect := func() error {
		if !r.Writes {
			return do()
		}
		breaks, target := w.before(o, r), w.target(r.Request)
		err := do()
		switch {
		case err != nil:
			w.Log(who, fmt.Sprintf("  refused: %v", err))
		case breaks != "":
			w.broke("%s", breaks)
		}
		if _, again := w.removed[target]; err == nil && target != "" && !again {
			w.removed[target] = removed{o, w.Now()}
		}
		return err
	}
	switch {
	case o.dead:
		answer(disturb.ErrKilled)
	case ctx.Err() != nil:
		answer(ctx.Err())
	case removes(r.Request) && f.intercept(carried{faults: f, ctx: ctx, world: w, who: who, effect: effect, answer: answer}, r):
	case f.random.IntN(1000) >= f.rate:
		answer(effect())
	default:
		fate := fates[f.random.IntN(len(fates))]
		if fate.writes && !r.Writes {
			answer(effect())
			return
		}
		f.injected[fate.name]++
		w.Log(who, "  fault: "+fate.name)
		fate.do(carried{faults: f, ctx: ctx, world: w, who: who, effect: effect, answer: answer})
	}
}

// intercept lets a removal of a pod arrive late, or hit the successor of the pod, if a fault wants that.
func (f *faults) intercept(c carried, r aimed) bool {
	switch pod := apiserver.Find[*corev1.Pod](c.world.API.Live(), r.Key.Namespace, r.Key.Name); {
	case f.replaced && pod != nil && pod.DeletionTimestamp == nil && f.random.IntN(2) == 0:
		c.world.Log("user", "deletes pod "+r.Key.Name+" by force")
		f.injected["pod replaced before its removal arrives"]++
		c.world.remove(pod, client.GracePeriodSeconds(0))
		c.later(mostLate, c.effect)
	case f.delayed && f.random.IntN(2) == 0:
		f.injected["removal late"]++
		c.world.Log(c.who, "  fault: removal late")
		c.later(mostDelayed, c.effect)
	default:
		return false
	}
	return true
}

// ask carries a request to a member out. One that cannot be reached, or is frozen, does not answer before the deadline.
func (f *faults) ask(ctx context.Context, o *operator, who, ip string, do func(*World, *members.Member) error, answer func(error)) {
	w := o.world
	var at *pod
	for _, p := range w.pods {
		if p.ip == ip {
			at = p
		}
	}
	switch {
	case o.dead:
		answer(disturb.ErrKilled)
	case ctx.Err() != nil:
		answer(ctx.Err())
	case at != nil && (at.node.silent() || f.sight != nil && f.sight != at.node || at.member != nil && at.member.Frozen):
		w.After(patienceOf(ctx), who, "gives up on "+ip, func() { answer(context.DeadlineExceeded) })
	case at == nil || at.member == nil:
		answer(errRefused)
	case ctx.Value(writesKey{}) != nil && f.random.IntN(1000) < f.rate:
		f.injected["answer of a member lost"]++
		w.Log(who, "  fault: answer of a member lost")
		w.After(time.Duration(f.random.IntN(mostLate))*time.Millisecond, who, "what was late comes", func() {
			if at.member != nil {
				_ = do(w, at.member) // its answer is lost
			}
		})
		w.After(patienceOf(ctx), who, "gives up on "+ip, func() { answer(context.DeadlineExceeded) })
	default:
		answer(do(w, at.member))
	}
}

// writesKey marks the context of a request to a member that changes something.
type writesKey struct{}

// patienceOf is how long a request to a member waits for its answer.
func patienceOf(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return 10 * time.Second
}
