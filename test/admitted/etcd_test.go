// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"context"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/inmemory"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var etcds = sync.OnceValues(func() (*definition, error) { return read("../../config/crd/etcd/druid.gardener.cloud_etcds.yaml") })

// seeds are from a fixed sequence. Fuzzing compiles all of Kubernetes' client with instruments; many seeds find as much in less time.
var seeds = flag.Int("seeds", 10, "how many Etcds to generate, besides those that fuzzing makes")

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// shared are the kinds that are in no namespace.
var shared = []string{"Node", "PersistentVolume", "StorageClass"}

// Whatever Etcd the API server admits, its cache can hold it; and the controllers neither panic, nor ask for anything outside of its namespace, nor write
// without end.
func FuzzEtcd(f *testing.F) {
	d, err := etcds()
	if err != nil {
		f.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range *seeds {
		seed := make([]byte, 60)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	spec := d.structural.Properties["spec"]
	f.Fuzz(func(t *testing.T, bytes []byte) {
		g := &generator{bytes}
		object := map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindEtcd, "metadata": map[string]any{"namespace": inmemory.Namespace, "name": inmemory.Name},
			"spec": map[string]any{"replicas": int64(3)},
		}
		stored, err := d.admit(object)
		if err != nil {
			t.Fatal(err)
		}
		for changes := 0; changes < 8 && !g.isDone(); changes++ {
			changed := runtime.DeepCopyJSON(object)
			g.change(changed["spec"].(map[string]any), &spec)
			if admitted, err := d.admit(changed); err == nil {
				object, stored = changed, admitted
			}
		}
		content, err := json.Marshal(stored)
		if err != nil {
			t.Fatal(err)
		}
		e := &v1alpha1.Etcd{}
		if err := json.Unmarshal(content, e); err != nil {
			t.Fatalf("the API server admits what no cache can hold: %v\n%s", err, content)
		}
		if e.Spec.Replicas > 9 || e.Spec.Replicas < 0 {
			t.Fatalf("%d replicas are admitted", e.Spec.Replicas)
		}
		operate(t, e, content)
	})
}

// TestMostAreAdmitted: a generator whose Etcds are refused tests nothing.
func TestMostAreAdmitted(t *testing.T) {
	d, err := etcds()
	if err != nil {
		t.Fatal(err)
	}
	spec := d.structural.Properties["spec"]
	admitted, tried, fields := 0, 0, map[string]bool{}
	for n := range 600 {
		var seed []byte
		for i := range 60 {
			seed = append(seed, byte(n*131+i*i*17+i*n*n))
		}
		g := &generator{seed}
		object := map[string]any{"metadata": map[string]any{"name": "main"}, "spec": map[string]any{"replicas": int64(3)}}
		g.change(object["spec"].(map[string]any), &spec)
		tried++
		if _, err := d.admit(object); err == nil {
			admitted++
			collect("", object["spec"], fields)
		}
	}
	t.Logf("%d of %d admitted, with %d fields", admitted, tried, len(fields))
	if admitted*5 < tried || len(fields) < 60 {
		t.Errorf("only %d of %d are admitted, with %d fields", admitted, tried, len(fields))
	}
}

func collect(path string, value any, fields map[string]bool) {
	if o, ok := value.(map[string]any); ok {
		for k, v := range o {
			fields[path+"."+k] = true
			collect(path+"."+k, v, fields)
		}
	}
}

// rounds is how often the controllers look, and calm in how many of the last of these they may not write any more.
const rounds, calm = 24, 8

// operate has the controllers of Etcds look at one for a while.
func operate(t *testing.T, e *v1alpha1.Etcd, spec []byte) {
	t.Helper()
	ctx := context.Background()
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w, err := inmemory.New(e, now.Now)
	if err != nil {
		t.Fatal(err)
	}
	round := 0
	outside := func(what, kind, namespace string) {
		if namespace != inmemory.Namespace && !slices.Contains(shared, kind) && kind != "member" {
			t.Errorf("round %d: it %s a %s in namespace %q\n%s", round, what, kind, namespace, spec)
		}
	}
	var late []disturb.Write
	o := &inmemory.Operator{
		World: w,
		Read:  func(kind, namespace string) { outside("reads", kind, namespace) },
		Decide: func(write disturb.Write) disturb.Fate {
			outside(write.Verb+"s", write.Kind, write.Namespace)
			if round >= rounds-calm {
				late = append(late, write)
			}
			return disturb.Answered
		},
	}
	controllers := controllersOf(t, o, now)
	for round = range rounds {
		o.Deliver()
		for _, c := range controllers {
			result, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: inmemory.Namespace, Name: inmemory.Name}})
			if err == nil && result.RequeueAfter > 0 && result.RequeueAfter < 10*time.Millisecond {
				t.Errorf("it looks again after %s\n%s", result.RequeueAfter, spec)
			}
		}
		if _, err := w.Step(ctx); err != nil {
			t.Fatal(err)
		}
		now.SetTime(now.Now().Add(2 * time.Second))
	}
	if len(late) > calm {
		t.Errorf("it does not end to write: %v\n%s", late, spec)
	}
}

func controllersOf(t *testing.T, o *inmemory.Operator, now *clocktesting.FakePassiveClock) []reconcile.Reconciler {
	t.Helper()
	d := composition.With(o, now)
	d.Client, d.Live, d.Surroundings = o.Client(), o.Live(), o.Client()
	composed := composition.New(t, d)
	return []reconcile.Reconciler{composed.Etcds, composed.Rollouts, composed.Upkeep}
}
