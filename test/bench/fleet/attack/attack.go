// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package attack does what an administrator of one namespace can to keep the operator busy, as that user: Etcds whose members hang,
// tasks, large objects, changes without end, and a CA that takes long to check.
package attack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// user is the attacker.
const user = "mallory"

// Attacker is a user who administers one namespace, simulated.Crowd.
type Attacker struct {
	client client.Client
	fleet  *simulated.Fleet
	// first is the number of the first Etcd whose members hang, and hanging how many there are.
	first, hanging int
	size           Size

	mu      sync.Mutex
	tallies map[string]*Tally
}

// Size is how much there is of each.
type Size struct {
	// ConfigMaps of almost a megabyte, labeled as if they were the operator's, and Copies of backups that do not end.
	ConfigMaps, Copies int
	// KeyBytes is the size of the key of the CA.
	KeyBytes int
}

// Tally is what became of the requests of one means.
type Tally struct {
	Done    int `json:"done"`
	Refused int `json:"refused"`
	// Why is the last refusal.
	Why string `json:"why,omitempty"`
}

// New makes the namespace and gives the attacker the rights of its administrator.
func New(ctx context.Context, admin client.Client, config *rest.Config, scheme *runtime.Scheme, fleet *simulated.Fleet, first, hanging int, size Size) (*Attacker, error) {
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: simulated.Crowd}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: simulated.Crowd, Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		},
	} {
		if err := admin.Create(ctx, o); err != nil {
			return nil, fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	config = rest.CopyConfig(config)
	config.Impersonate, config.QPS = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}, -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of the attacker: %w", err)
	}
	return &Attacker{client: c, fleet: fleet, first: first, hanging: hanging, size: size, tallies: map[string]*Tally{}}, nil
}

// means are all of them, by name. Each creates objects, and returns how it goes on until the end; nil if it does not.
var means = map[string]func(*Attacker, context.Context) (goOn func(n int)){
	"hanging": (*Attacker).hangingEtcds, "configmaps": (*Attacker).configMaps, "statefulset": (*Attacker).statefulSet,
	"template": (*Attacker).template, "ca": (*Attacker).authority, "copies": (*Attacker).copies,
}

// Means returns the names of all means.
func Means() []string { return slices.Sorted(maps.Keys(means)) }

// Run attacks by some means at once until the context ends. It calls begun once all objects are created.
func (a *Attacker) Run(ctx context.Context, names []string, begun func()) {
	var all, creating sync.WaitGroup
	creating.Add(len(names))
	for _, name := range names {
		all.Go(func() {
			goOn := means[name](a, ctx)
			creating.Done()
			if goOn != nil {
				again(ctx, changePause, goOn)
			}
		})
	}
	creating.Wait()
	begun()
	all.Wait()
}

// Tallies says what became of the requests, by means.
func (a *Attacker) Tallies() map[string]Tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]Tally{}
	for means, t := range a.tallies {
		all[means] = *t
	}
	return all
}

// String says what became of the requests.
func (a *Attacker) String() string {
	said, all := "", a.Tallies()
	for _, means := range slices.Sorted(maps.Keys(all)) {
		t := all[means]
		said += fmt.Sprintf("  %-34s %6d done, %d refused", means, t.Done, t.Refused)
		if t.Why != "" {
			said += ": " + t.Why
		}
		said += "\n"
	}
	return said
}

// try counts a request of a means.
func (a *Attacker) try(ctx context.Context, means string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tallies[means]
	if t == nil {
		t = &Tally{}
		a.tallies[means] = t
	}
	switch {
	case ctx.Err() != nil || apierrors.IsConflict(err):
	case err != nil:
		t.Refused++
		t.Why = err.Error()[:min(len(err.Error()), 200)]
	default:
		t.Done++
	}
}

// create creates an object; one that is there already does as well.
func (a *Attacker) create(ctx context.Context, means string, o client.Object) {
	err := a.client.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	a.try(ctx, means, err)
}

// again does something with pauses until the context ends.
func again(ctx context.Context, pause time.Duration, do func(n int)) {
	for n := 0; ctx.Err() == nil; n++ {
		do(n)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// errNoKey is a CA that could not be made.
var errNoKey = errors.New("making a CA with a giant key")
