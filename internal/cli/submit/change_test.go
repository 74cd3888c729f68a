// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A task changes between the moment at which abort reads it and that at which it deletes it: what counts is what it is then.
func TestATaskThatChangesBeforeItIsDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdOperatorTask)
		// changes is how often it changes.
		changes int
		gone    bool
		says    string
	}{
		"it does not":  {nil, 0, true, ""},
		"its progress": {func(t *v1alpha1.EtcdOperatorTask) { t.Status.Progress += "." }, 2, true, ""},
		"it sets data aside": {func(t *v1alpha1.EtcdOperatorTask) {
			t.Status.Recovery = &v1alpha1.RecoveryStatus{Source: v1alpha1.RecoverFromData}
		}, 1, false, "it has chosen what the cluster starts from"},
		"it ends":                  {func(t *v1alpha1.EtcdOperatorTask) { t.Status.State = v1alpha1.TaskStateSucceeded }, 1, false, "task r succeeded"},
		"it changes all the time":  {func(t *v1alpha1.EtcdOperatorTask) { t.Status.Progress += "." }, 1000, false, "try again"},
		"it makes way for another": {nil, 1, false, "was deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			task := clitest.Task("r", v1alpha1.Restore, v1alpha1.TaskStateInProgress, 60)
			task.ResourceVersion = ""
			left := c.changes
			cluster := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(task).WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(ctx context.Context, w client.WithWatch, o client.Object, options ...client.DeleteOption) error {
					if left--; left >= 0 {
						now := &v1alpha1.EtcdOperatorTask{}
						g.Expect(w.Get(ctx, client.ObjectKeyFromObject(o), now)).To(Succeed())
						if c.change == nil {
							g.Expect(w.Delete(ctx, now)).To(Succeed())
							now.ResourceVersion, now.UID = "", "another"
							g.Expect(w.Create(ctx, now)).To(Succeed())
						} else {
							c.change(now)
							g.Expect(w.Update(ctx, now)).To(Succeed())
						}
					}
					return w.Delete(ctx, o, options...)
				},
			}).Build()
			read := &v1alpha1.EtcdOperatorTask{}
			g.Expect(cluster.Get(t.Context(), client.ObjectKeyFromObject(task), read)).To(Succeed())
			err := remove(t.Context(), cluster, read)
			if c.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			}
			err = cluster.Get(t.Context(), client.ObjectKeyFromObject(task), read)
			g.Expect(kube.IsObjectNotFound(err)).To(Equal(c.gone), "%v", err)
		})
	}
}
