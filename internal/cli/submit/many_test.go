// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	. "github.com/onsi/gomega"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Tasks run at the same time, and with a short TTL, one that has ended is gone before another one ends.
func TestTasksThatExpireWhileOthersRun(t *testing.T) {
	for name, c := range map[string]struct {
		state v1alpha1.TaskState
		say   string
	}{
		"it succeeded":           {v1alpha1.TaskStateSucceeded, ""},
		"it failed":              {v1alpha1.TaskStateFailed, "1 of 2 tasks have not succeeded: demo/b"},
		"it was deleted by hand": {v1alpha1.TaskStateInProgress, "1 of 2 tasks have not succeeded: demo/b"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, b := clitest.Task("a", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateInProgress, 60), clitest.Task("b", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateInProgress, 60)
			a.ResourceVersion, b.ResourceVersion = "", ""
			var watches atomic.Int32
			cluster := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(a, b).WithInterceptorFuncs(interceptor.Funcs{
				Watch: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) (apiwatch.Interface, error) {
					defer watches.Add(1)
					return w.Watch(ctx, list, options...)
				},
			}).Build()
			streams, _, _, errOut := genericiooptions.NewTestIOStreams()
			cmd := &command{Kube: kube.New(streams), print: kube.PrintFlags("created"), wait: watch.WaitFlags{Wait: true, Timeout: time.Minute}}
			ended := make(chan error, 1)
			go func() {
				ended <- cmd.waitForAll(t.Context(), &kube.Cluster{WithWatch: cluster}, []*v1alpha1.EtcdOperatorTask{a.DeepCopy(), b.DeepCopy()})
			}()
			g.Eventually(watches.Load, "10s").Should(BeNumerically("==", 2), "each is waited for from the beginning")
			end := func(task *v1alpha1.EtcdOperatorTask, state v1alpha1.TaskState) {
				g.Expect(cluster.Get(t.Context(), client.ObjectKeyFromObject(task), task)).To(Succeed())
				task.Status.State = state
				g.Expect(cluster.Update(t.Context(), task)).To(Succeed())
			}
			end(b, c.state)
			g.Expect(cluster.Delete(t.Context(), b)).To(Succeed())
			end(a, v1alpha1.TaskStateSucceeded)
			var err error
			g.Eventually(ended, "30s").Should(Receive(&err))
			if c.say == "" {
				g.Expect(err).NotTo(HaveOccurred(), errOut.String())
			} else {
				g.Expect(err).To(MatchError(c.say))
			}
			g.Expect(errOut.String()).To(ContainSubstring("task a succeeded"))
		})
	}
}

// What has ended is printed also if the time is over before the rest has.
func TestTasksThatDoNotEndInTime(t *testing.T) {
	g := NewWithT(t)
	a, b := clitest.Task("a", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateInProgress, 60), clitest.Task("b", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateSucceeded, 60)
	a.ResourceVersion, b.ResourceVersion = "", ""
	cluster := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(a, b).WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) (apiwatch.Interface, error) {
			events, err := w.Watch(ctx, list, options...)
			context.AfterFunc(ctx, events.Stop)
			return events, err
		},
	}).Build()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	cmd := &command{Kube: kube.New(streams), print: kube.PrintFlags("created"), wait: watch.WaitFlags{Wait: true, Timeout: 2 * time.Second}}
	*cmd.print.OutputFormat = "jsonpath={.metadata.name}"
	gone := clitest.Task("0", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateInProgress, 60)
	err := cmd.waitForAll(t.Context(), &kube.Cluster{WithWatch: cluster}, []*v1alpha1.EtcdOperatorTask{gone, a, b})
	g.Expect(kube.Code(err)).To(Equal(kube.ExitTimedOut), "%v", err)
	g.Expect(errOut.String()).To(ContainSubstring("task 0 was deleted before it ended"))
	g.Expect(err).To(MatchError(ContainSubstring("task a has not ended")))
	g.Expect(out.String()).To(Equal("b"))
	g.Expect(errOut.String()).To(ContainSubstring("task b succeeded"))
}
