// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/pflag"
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
	ctx, cancel := f.Context(ctx)
	defer cancel()
	start, said := k.Clock.Now(), ""
	var last *v1alpha1.EtcdOperatorTask
	err := showOn(ctx, k, newProgress(k), Task(k, c, task, &last), Format[*v1alpha1.EtcdOperatorTask]{
		Page: func(t *v1alpha1.EtcdOperatorTask) Page {
			return func(now time.Time, _ int) []string {
				return []string{now.Sub(start).Truncate(time.Second).String() + " " + progress(t)}
			}
		},
		Print: func(t *v1alpha1.EtcdOperatorTask) error {
			if say := progress(t); say != said && !t.Status.State.IsFinal() {
				text.Print(k.ErrOut, say)
				said = say
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	text.Print(k.ErrOut, Ended(last))
	return last, nil
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
