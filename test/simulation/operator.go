// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"slices"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	wiring "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// operator is one process of the operator, with all that it remembers.
type operator struct {
	world *World
	name  string
	actor *loop.Actor
	cache *apiserver.Cache
	// ctx ends when the process does.
	ctx  context.Context
	stop context.CancelFunc
	dead bool
	// off is how far its clock is off.
	off         time.Duration
	controllers []*controller
	// gate says which Etcds have a task whose turn in the fleet it is; nil without a fleet.
	gate <-chan event.GenericEvent
	// podsRead is, for each controller, how many changes of pods the API server had seen when it was asked for pods last.
	podsRead map[string]int
	// following are the kinds of which changes are on their way to the cache.
	following map[string]bool
}

// controller is one of its controllers, with one entry of its queue: that of an Etcd, or of the fleet.
type controller struct {
	operator *operator
	name     string
	// who it is in the trace, and etcd of whom it is asked.
	who, etcd string
	reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)
	// due is when it looks again; negative for never. again: it looks at once when it is done.
	due            time.Duration
	running, again bool
	failures       int
}

// StartOperator starts an operator, whose cache begins with what the API server had some changes ago.
func (w *World) StartOperator(t testing.TB, name string, ago func(kind string) int) *operator {
	t.Helper()
	o := &operator{world: w, name: name, actor: &loop.Actor{}, cache: w.API.NewCache(ago), following: map[string]bool{}, podsRead: map[string]int{}}
	o.ctx, o.stop = context.WithCancel(context.Background())
	now := w.faults.clock()
	o.off = now.by
	d := composition.With(dialer{o}, now)
	cached := &apiserver.Client{Server: w.API, Reads: &o.cache.Table, Through: o.through}
	d.Client, d.Live, d.Surroundings = cached, &apiserver.Client{Server: w.API, Reads: w.API.Live(), Through: o.through}, cached
	o.compose(t, d)
	w.Log(name, "starts")
	w.operators = append(w.operators, o)
	for _, kind := range w.API.Kinds() {
		o.follow(kind)
	}
	return o
}

// compose makes the controllers, each of which looks at once.
func (o *operator) compose(t testing.TB, d wiring.Dependencies) {
	d.Namespace, d.Agent = operatorNamespace, o.agents
	parts := composition.New(t, d, composition.Configured(func(c *configv1alpha1.OperatorConfiguration) {
		c.FeatureGates[string(configv1alpha1.FleetPolicies)] = o.world.fleet != nil
		c.Backup.AllowCloudIdentity = true
	}))
	add := func(name, etcd string, reconcile func(context.Context, ctrl.Request) (ctrl.Result, error)) {
		c := &controller{operator: o, name: name, who: o.name + "/" + name, etcd: etcd, reconcile: reconcile, due: -1}
		if len(o.world.judges) > 1 && etcd != "" {
			c.who += " " + etcd
		}
		o.controllers = append(o.controllers, c)
		c.wake(0)
	}
	for _, j := range o.world.judges {
		add("etcd", j.name, parts.Etcds.Reconcile)
		add("upkeep", j.name, parts.Upkeep.Reconcile)
		add("rollout", j.name, parts.Rollouts.Reconcile)
		add("membership", j.name, parts.Memberships.Reconcile)
		add("task", j.name, parts.Tasks.Reconcile)
	}
	if parts.Fleet != nil {
		add("fleet", "", parts.Fleet.Reconcile)
		o.gate = parts.Fleet.Wakes()
	}
}

// kill ends the process: what it asks for from now on is not carried out.
func (o *operator) kill() {
	o.dead, o.actor.Paused = true, false
	o.stop()
	o.world.operators = slices.DeleteFunc(o.world.operators, func(other *operator) bool { return other == o })
	o.world.Log(o.name, "is killed")
}

// pause stops the process with all its requests, until resume.
func (o *operator) pause() {
	o.actor.Paused = true
	o.world.Log(o.name, "is paused")
}

func (o *operator) resume() {
	if o.dead {
		return
	}
	o.actor.Paused = false
	o.world.Log(o.name, "is resumed")
	for _, kind := range o.world.API.Kinds() {
		o.follow(kind)
	}
	for _, c := range o.controllers {
		if c.again && !c.running {
			c.wake(0)
		}
	}
}

// follow has the next change of a kind reach the cache after a while.
func (o *operator) follow(kind string) {
	if !cachedKinds[kind] || o.following[kind] || o.dead || o.actor.Paused || o.cache.Behind(kind) == 0 {
		return
	}
	o.following[kind] = true
	o.world.After(o.world.faults.lag(kind), "watch of "+o.name, "", func() {
		o.following[kind] = false
		if o.dead || o.actor.Paused {
			return
		}
		change := o.cache.Deliver(kind)
		o.world.Log("watch of "+o.name, "shows "+kind+" "+change.Key.Name)
		for _, c := range o.controllers {
			if after, wakes := wakes(c.name, change); wakes && c.concerns(change) {
				c.wake(after)
			}
		}
		o.follow(kind)
	})
}

// wake has a controller look after a while, or before.
func (c *controller) wake(after time.Duration) {
	at := c.operator.world.Now() + after
	if c.due >= 0 && c.due <= at {
		return
	}
	c.due = at
	c.operator.world.After(after, c.who, "", func() {
		if c.due == at {
			c.start()
		}
	})
}

// start has a controller look. One starts at a time, and no call ends with it: until it asks for something, it is the only one that runs.
func (c *controller) start() {
	o := c.operator
	c.due, c.again = -1, c.running || o.actor.Paused
	if o.dead || c.again {
		return
	}
	c.running = true
	ctx, of := context.WithValue(o.ctx, whoKey{}, c.who), ctrl.Request{}
	if c.etcd != "" {
		of.NamespacedName = types.NamespacedName{Namespace: Namespace, Name: c.etcd}
	}
	o.world.Start(c.who, func() {
		result, err := c.reconcile(ctx, of)
		o.world.Call(o.actor, c.who, "has looked", func(release func()) {
			c.ended(result, err)
			release()
		})
	})
}

func (c *controller) ended(result ctrl.Result, err error) {
	c.running = false
	c.operator.pass()
	switch {
	case c.operator.dead:
		return
	case err != nil:
		c.operator.world.Log(c.who, "failed: "+err.Error())
		c.failures++
		c.wake(min(5*time.Millisecond<<min(c.failures, 20), 30*time.Second))
	default:
		c.failures = 0
		if result.RequeueAfter > 0 {
			c.wake(result.RequeueAfter)
		}
	}
	if c.again {
		c.wake(0)
	}
}

// pass wakes the tasks whose turn in the fleet it is, in the order of the controllers: that of the gate is one of a map.
func (o *operator) pass() {
	woken := map[string]bool{}
	for len(o.gate) > 0 {
		woken[(<-o.gate).Object.GetName()] = true
	}
	for _, c := range o.controllers {
		if c.name == "task" && woken[c.etcd] {
			c.wake(0)
		}
	}
}

type whoKey struct{}

// through carries a request of the operator out at the API server, when it is its turn. The cache answers at once: it changes only when time passes, which
// it does while no request waits, so that the turn of a read makes no difference.
func (o *operator) through(ctx context.Context, r apiserver.Request, do func() error) (err error) {
	switch {
	case !r.Cached:
	case o.dead:
		return disturb.ErrKilled
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return do()
	}
	who, _ := ctx.Value(whoKey{}).(string)
	of := aimed{r, who, o.world.Now(), o.aims(who, r)}
	if r.Kind == "Pod" && !r.Writes {
		answers := do
		do = func() error {
			o.podsRead[who] = o.world.API.Changes("Pod")
			return answers()
		}
	}
	carried := o.world.Call(o.actor, who, r.String(), func(release func()) {
		o.world.faults.carry(ctx, o, who, of, do, func(answer error) {
			err = answer
			release()
		})
	})
	if !carried {
		return disturb.ErrKilled
	}
	return err
}

// shifted is a clock that differs from the others.
type shifted struct{ by time.Duration }

func (s shifted) Now() time.Time { return time.Now().Add(s.by) }

func (s shifted) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

var _ clock.PassiveClock = shifted{}
