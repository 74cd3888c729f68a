// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// shown runs Show over a source, and returns what it wrote to both streams.
func shown(t *testing.T, terminal bool, source Source[string], print func(string) error) (out, errOut string, err error) {
	t.Helper()
	t.Setenv("NO_COLOR", "1")
	streams, _, o, e := genericiooptions.NewTestIOStreams()
	k := kube.New(streams)
	k.Clock = testclock.NewFakeClock(clitest.Now)
	k.Size = func() (int, int, bool) { return 80, 24, terminal }
	err = Show(t.Context(), k, source, Format[string]{
		Page:  func(s string) Page { return func(time.Time, int) []string { return []string{s} } },
		Print: func(s string) error { k.Print(s); return print(s) },
	})
	return o.String(), e.String(), err
}

func accept(string) error { return nil }

// While the API server is unreachable, what is shown is not the newest state, and says so.
func TestAnOutageIsShown(t *testing.T) {
	ended := errors.New("ended")
	source := func(_ context.Context, show func(string), lost func(error)) error {
		lost(errors.New("nothing was read yet"))
		show("a")
		lost(errors.New("no answer"))
		lost(errors.New("no answer"))
		show("b")
		lost(errors.New("no answer"))
		return ended
	}
	out, errOut, err := shown(t, true, source, accept)
	const eol, last, up = "\x1b[K\n", "\x1b[J", "A\r"
	a := "a" + eol + eol + "This is not the newest state: no answer" + eol + last
	want := hideCursor + noWrap + "a" + eol + last + "\x1b[1" + up + a + "\x1b[3" + up + a +
		"\x1b[3" + up + "b" + eol + last + "\x1b[1" + up + "b" + eol + eol + "This is not the newest state: no answer" + eol + last + wrap + showCursor
	if !errors.Is(err, ended) || out != want || errOut != "" {
		t.Errorf("terminal: %v\n%q\n%q\n%q", err, out, want, errOut)
	}
	out, errOut, err = shown(t, false, source, accept)
	const why = "This is not the newest state: "
	if !errors.Is(err, ended) || out != "a\nb\n" || errOut != why+"nothing was read yet\n"+why+"no answer\n"+why+"no answer\n" {
		t.Errorf("elsewhere: %v\n%q\n%q", err, out, errOut)
	}
}

// An output that cannot be written ends the source.
func TestAFailureToPrintEndsTheSource(t *testing.T) {
	closed := errors.New("the pipe is closed")
	out, _, err := shown(t, false, func(ctx context.Context, show func(string), _ func(error)) error {
		show("a")
		show("b")
		<-ctx.Done()
		return ctx.Err()
	}, func(string) error { return closed })
	if !errors.Is(err, closed) || out != "a\n" {
		t.Errorf("%v %q", err, out)
	}
}

// The line that shows the progress of a task is gone once the task has ended.
func TestALineOfProgressIsRemoved(t *testing.T) {
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	k := kube.New(streams)
	s := newProgress(k)
	s.size = func() (int, int, bool) { return 80, 24, true }
	s.draw(func(int) []string { return []string{"1s Pending"} })
	s.close()
	if got, want := errOut.String(), hideCursor+noWrap+"1s Pending\x1b[K\n\x1b[J\x1b[1A\r\x1b[J"+wrap+showCursor; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A task is followed through an API server that fails for a while, and never to a later task of its name.
func TestATaskIsFollowedToItsEnd(t *testing.T) {
	ended, _ := clitest.Ended()
	for name, c := range map[string]struct {
		there  *v1alpha1.EtcdOperatorTask
		fails  int
		shown  int
		wanted string
	}{
		"ended":    {ended, 0, 1, ""},
		"outage":   {ended, 2, 1, ""},
		"deleted":  {nil, 1, 0, "task " + ended.Name + " was deleted before it ended"},
		"replaced": {clitest.Task(ended.Name, v1alpha1.OnDemandSnapshot, v1alpha1.TaskStateSucceeded, 1), 0, 0, "task " + ended.Name + " was deleted before it ended"},
	} {
		streams, _, _, _ := genericiooptions.NewTestIOStreams()
		k := kube.New(streams)
		clock := testclock.NewFakeClock(clitest.Now)
		k.Clock = clock
		build := fake.NewClientBuilder().WithScheme(kube.Scheme())
		if c.there != nil {
			there := c.there.DeepCopy()
			if name == "replaced" {
				there.UID = "another"
			}
			there.ResourceVersion = ""
			build = build.WithObjects(there)
		}
		reads := 0
		cluster := build.WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if reads++; reads <= c.fails {
				return errors.New("no answer")
			}
			return w.Get(ctx, key, into, options...)
		}}).Build()
		var last *v1alpha1.EtcdOperatorTask
		shown, outages := 0, 0
		ctx, cancel := context.WithCancel(t.Context())
		go stepWhileWaiting(ctx, clock)
		err := Task(k, cluster, ended, &last)(ctx, func(*v1alpha1.EtcdOperatorTask) { shown++ }, func(error) { outages++ })
		cancel()
		if got := kube.Code(err); (c.wanted == "") != (err == nil) || err != nil && (err.Error() != c.wanted || got != kube.ExitFailed) {
			t.Errorf("%s: %v, exit code %d", name, err, got)
		}
		if shown != c.shown || outages != c.fails || c.wanted == "" && last.UID != ended.UID {
			t.Errorf("%s: shown %d times, %d outages, last %v", name, shown, outages, last)
		}
	}
}

// A list that cannot be read at first is an error; later, it is an outage, unless the user has lost the permission.
func TestTasksAreListedThroughAnOutage(t *testing.T) {
	noAnswer := errors.New("no answer")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "etcdoperatortasks"}, "", nil)
	for _, c := range []struct {
		reads          []error
		shown, outages int
		wanted         string
	}{
		{[]error{noAnswer}, 0, 0, "listing tasks: no answer"},
		{[]error{nil, noAnswer, noAnswer, nil, forbidden}, 2, 2, "listing tasks: " + forbidden.Error()},
	} {
		streams, _, _, _ := genericiooptions.NewTestIOStreams()
		k := kube.New(streams)
		clock := testclock.NewFakeClock(clitest.Now)
		k.Clock = clock
		reads := 0
		cluster := &kube.Cluster{Namespace: "demo", WithWatch: fake.NewClientBuilder().WithScheme(kube.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				reads++
				return c.reads[reads-1]
			},
			Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (apiwatch.Interface, error) {
				ended := apiwatch.NewFake()
				ended.Stop()
				return ended, nil
			},
		}).Build()}
		ctx, cancel := context.WithCancel(t.Context())
		go stepWhileWaiting(ctx, clock)
		shown, outages := 0, 0
		err := TasksOf(k, cluster, "")(ctx, func(Tasks) { shown++ }, func(error) { outages++ })
		cancel()
		if err == nil || err.Error() != c.wanted || shown != c.shown || outages != c.outages || reads != len(c.reads) {
			t.Errorf("%v, shown %d times, %d outages, %d reads", err, shown, outages, reads)
		}
	}
}

// stepWhileWaiting lets time pass whenever the clock is waited for.
func stepWhileWaiting(ctx context.Context, clock *testclock.FakeClock) {
	for ctx.Err() == nil {
		if clock.HasWaiters() {
			clock.Step(retryPeriod)
		}
		runtime.Gosched()
	}
}
