// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WaitFlags are the flags --wait and --timeout.
type WaitFlags struct {
	Wait    bool
	Timeout time.Duration
}

// AddTo adds both flags to a verb.
func (f *WaitFlags) AddTo(flags *pflag.FlagSet) {
	f.addTimeoutTo(flags)
	flags.BoolVar(&f.Wait, "wait", false, "Wait until the task has ended, and exit with 0 if it succeeded.")
}

// addTimeoutTo adds the timeout alone, to a verb that always waits.
func (f *WaitFlags) addTimeoutTo(flags *pflag.FlagSet) {
	f.Wait = true
	flags.DurationVar(&f.Timeout, "timeout", 0, "How long to wait, such as 90s or 10m; exits with 3 after that. 0 waits without a limit.")
}

// Validate returns what is wrong with the flags.
func (f *WaitFlags) Validate() error {
	switch {
	case f.Timeout != 0 && !f.Wait:
		return kube.Usage("--timeout goes with --wait")
	case f.Timeout < 0:
		return kube.Usage("--timeout may not be negative")
	}
	return nil
}

// Context ends after the timeout.
func (f *WaitFlags) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.Timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, f.Timeout)
}

// UntilEnd waits for the end of a task. One line of the error stream shows its progress: renewed in place on a terminal,
// and otherwise printed when it changes.
func (f *WaitFlags) UntilEnd(ctx context.Context, k *kube.Kube, c client.WithWatch, task *v1alpha1.EtcdOperatorTask) (*v1alpha1.EtcdOperatorTask, error) {
	ends, err := f.UntilAllEnd(ctx, k, c, []*v1alpha1.EtcdOperatorTask{task})
	if err = cmp.Or(err, ends[0].Err); err != nil {
		return nil, err
	}
	return ends[0].Last, nil
}

// End is how the wait for a task ended: with an error, or with the last state of the task.
type End struct {
	Last *v1alpha1.EtcdOperatorTask
	Err  error
}

// UntilAllEnd waits for tasks that run at the same time, as UntilEnd does for one: for all at once, since one that has ended may expire
// before the others end. It fails if not all have ended in time, or if the output cannot be written.
func (f *WaitFlags) UntilAllEnd(ctx context.Context, k *kube.Kube, c client.WithWatch, tasks []*v1alpha1.EtcdOperatorTask) ([]End, error) {
	ctx, cancel := f.Context(ctx)
	defer cancel()
	ends, start, said := make([]End, len(tasks)), k.Clock.Now(), map[types.UID]string{}
	say := func(t *v1alpha1.EtcdOperatorTask, sentence string) {
		if said[t.UID] != sentence {
			text.Print(k.ErrOut, sentence)
			said[t.UID] = sentence
		}
	}
	err := showOn(ctx, k, newProgress(k), each(k, c, tasks, ends), Format[[]*v1alpha1.EtcdOperatorTask]{
		Page: func(now []*v1alpha1.EtcdOperatorTask) Page {
			return func(at time.Time, _ int) []string {
				return []string{at.Sub(start).Truncate(time.Second).String() + " " + progressOfAll(now)}
			}
		},
		Print: func(now []*v1alpha1.EtcdOperatorTask) error {
			for _, t := range now {
				switch {
				case t.Status.State.IsFinal():
					say(t, Ended(t))
				case len(now) > 1:
					say(t, t.Namespace+"/"+t.Name+": "+progress(t))
				default:
					say(t, progress(t))
				}
			}
			return nil
		},
	})
	var runs, unknown error // of tasks that have not ended, and of those that are gone or were never read
	for _, end := range ends {
		switch {
		case end.Err == nil && end.Last != nil:
			say(end.Last, Ended(end.Last))
		case ctx.Err() != nil && end.Last != nil:
			runs = cmp.Or(runs, end.Err)
		case ctx.Err() != nil:
			unknown = cmp.Or(unknown, end.Err)
		}
	}
	return ends, cmp.Or(err, runs, unknown)
}

// each returns a source of the states of tasks, and stores how each of them ended.
func each(k *kube.Kube, c client.WithWatch, tasks []*v1alpha1.EtcdOperatorTask, ends []End) Source[[]*v1alpha1.EtcdOperatorTask] {
	return func(ctx context.Context, show func([]*v1alpha1.EtcdOperatorTask), lost func(error)) error {
		now := slices.Clone(tasks)
		var mu sync.Mutex
		var all sync.WaitGroup
		for i, task := range tasks {
			all.Go(func() {
				ends[i].Err = Task(k, c, task, &ends[i].Last)(ctx, func(t *v1alpha1.EtcdOperatorTask) {
					mu.Lock()
					defer mu.Unlock()
					now[i] = t
					show(slices.Clone(now))
				}, func(err error) {
					mu.Lock()
					defer mu.Unlock()
					lost(err)
				})
			})
		}
		all.Wait()
		return nil
	}
}

// progressOfAll returns what tasks are doing: how many have ended, and the progress of one that has not.
func progressOfAll(all []*v1alpha1.EtcdOperatorTask) string {
	left := slices.DeleteFunc(slices.Clone(all), func(t *v1alpha1.EtcdOperatorTask) bool { return t.Status.State.IsFinal() })
	switch {
	case len(all) == 1:
		return progress(all[0])
	case len(left) == 0:
		return fmt.Sprintf("%d of %d tasks have ended", len(all), len(all))
	}
	return fmt.Sprintf("%d of %d tasks have ended; %s/%s: %s", len(all)-len(left), len(all), left[0].Namespace, left[0].Name, progress(left[0]))
}

// progress returns the state of a task and what it is doing.
func progress(t *v1alpha1.EtcdOperatorTask) string {
	say := text.State(t)
	if doing := text.Doing(t); doing != "" {
		say += ": " + doing
	}
	return say
}

// Ended returns a sentence about how a task ended.
func Ended(t *v1alpha1.EtcdOperatorTask) string {
	say := fmt.Sprintf("task %s %s", t.Name, strings.ToLower(string(t.Status.State)))
	if took, ok := text.Took(t); ok {
		say += " after " + took.String()
	}
	if message := text.Doing(t); message != "" {
		say += ": " + message
	}
	return say
}

// Outcome returns the error of a task that did not succeed.
func Outcome(t *v1alpha1.EtcdOperatorTask) error {
	if t.Status.State == v1alpha1.TaskStateSucceeded {
		return nil
	}
	return &kube.Error{Code: kube.ExitFailed, Err: fmt.Errorf("task %s has not succeeded: see \"kubectl etcdtask describe %s\"", t.Name, t.Name)}
}
