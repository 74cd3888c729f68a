// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// server says what time it is, and counts what is deleted.
type server struct {
	client.Client
	now     time.Time
	deleted int
}

func (s *server) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	review, ok := o.(*authenticationv1.SelfSubjectReview)
	if !ok || s.now.IsZero() {
		return errors.New("no")
	}
	review.CreationTimestamp = metav1.NewTime(s.now)
	return nil
}

func (s *server) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	s.deleted++
	return nil
}

// The TTL has passed when it has by the clock of the API server, which has stamped the end, whatever clocks of operators say.
func TestTTLIsMeasuredByTheAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		// own and api are the times of the operator and of the API server, and wrote that of the operator that wrote the end.
		own, api, wrote time.Duration
		unstamped       bool
		deleted         bool
	}{
		"too early":                            {own: time.Minute, api: time.Minute},
		"over":                                 {own: 11 * time.Minute, api: 11 * time.Minute, deleted: true},
		"a clock ahead":                        {own: time.Hour, api: time.Minute},
		"a clock behind":                       {own: -time.Hour, api: 11 * time.Minute, deleted: true},
		"written by a clock behind":            {own: time.Minute, api: time.Minute, wrote: -time.Hour},
		"no stamp":                             {own: 11 * time.Minute, api: 11 * time.Minute, unstamped: true, deleted: true},
		"no stamp, and it has only just ended": {own: time.Minute, api: time.Minute, unstamped: true},
		"no stamp, and written by a clock that was": {own: 11 * time.Minute, api: 11 * time.Minute, wrote: 5 * time.Minute, unstamped: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			api := &server{now: noon.Add(c.api)}
			task := &v1alpha1.EtcdOpsTask{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), ManagedFields: []metav1.ManagedFieldsEntry{{Subresource: "status", Time: &metav1.Time{Time: noon}}}},
				Spec:       v1alpha1.EtcdOpsTaskSpec{TTLSecondsAfterFinished: ptr.To[int32](600)},
				Status:     v1alpha1.EtcdOpsTaskStatus{LastTransitionTime: &metav1.Time{Time: noon.Add(c.wrote)}},
			}
			if c.unstamped {
				task.ManagedFields = nil
			}
			r := &Reconciler{Client: api, Clock: clocktesting.NewFakePassiveClock(noon.Add(c.own))}
			result, err := r.expire(t.Context(), task)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(api.deleted == 1).To(Equal(c.deleted))
			g.Expect(result.RequeueAfter > 0).To(Equal(!c.deleted), "it is looked at again")

			api.now, r.Clock = time.Time{}, clocktesting.NewFakePassiveClock(noon.Add(time.Hour))
			_, err = r.expire(t.Context(), task)
			g.Expect(err).To(MatchError(ContainSubstring("asking the API server for the time")))
		})
	}
}

// What carries out a task expires long after the task has shown how it ended, and it does expire: the Etcd, its second owner, keeps it from
// the garbage collector.
func TestTheOwnerExpiresFirst(t *testing.T) {
	g := NewWithT(t)
	for own, wanted := range map[int32]int32{60: 60 + 30*24*3600, math.MaxInt32 - 1: math.MaxInt32} {
		task := &v1alpha1.EtcdOpsTask{Spec: v1alpha1.EtcdOpsTaskSpec{EtcdName: ptr.To("main"), TTLSecondsAfterFinished: ptr.To(own)}}
		by := operatorTask(task, "by")
		g.Expect(metav1.IsControlledBy(by, task)).To(BeTrue())
		g.Expect(by.Spec.TTLSecondsAfterFinished).To(HaveValue(Equal(wanted)))
	}
}
