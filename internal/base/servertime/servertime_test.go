// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package servertime

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// clock is an API server of which only the time is asked.
type clock struct {
	client.Client
	now   time.Time
	asked int
	// denies: the caller may not ask.
	denies bool
}

func (c *clock) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	if c.denies {
		return apierrors.NewForbidden(schema.GroupResource{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}, "", errors.New("RBAC"))
	}
	if c.asked++; c.now.IsZero() {
		return errors.New("no")
	}
	o.SetCreationTimestamp(metav1.NewTime(c.now))
	return nil
}

// Whatever the operator's clock says, a span is over when it is by that of the API server. That is asked only where it may be.
func TestLeft(t *testing.T) {
	for name, c := range map[string]struct {
		passed, byOwn time.Duration
		want          time.Duration
		asked         int
	}{
		"in the middle":                   {20 * time.Second, 20 * time.Second, 40 * time.Second, 0},
		"a clock ahead":                   {time.Second, time.Hour, 59 * time.Second, 1},
		"a clock behind":                  {time.Hour, -time.Second, time.Minute - time.Hour, 1},
		"over":                            {time.Minute, time.Minute, 0, 1},
		"at its beginning":                {0, 0, time.Minute, 0},
		"a clock behind, at its end":      {time.Minute, 59 * time.Second, time.Second, 0},
		"a clock that is a moment behind": {0, -1, time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			api := &clock{now: noon.Add(c.passed)}
			left, err := Left(t.Context(), api, noon, time.Minute, noon.Add(c.byOwn))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(left).To(Equal(c.want))
			g.Expect(api.asked).To(Equal(c.asked))
		})
	}
	_, err := Left(t.Context(), &clock{denies: true}, noon, time.Minute, noon.Add(time.Hour))
	NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("is forbidden"), ContainSubstring("ClusterRoleBinding system:basic-user"), ContainSubstring("create selfsubjectreviews"))))
	_, err = Left(t.Context(), &clock{}, noon, time.Minute, noon.Add(time.Hour))
	NewWithT(t).Expect(err).To(MatchError("asking the API server for the time: no"))
}

func TestWritten(t *testing.T) {
	g := NewWithT(t)
	at := func(minutes int, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Subresource: subresource, Time: &metav1.Time{Time: noon.Add(time.Duration(minutes) * time.Minute)}}
	}
	o := &metav1.ObjectMeta{}
	g.Expect(Written(o, "status")).To(BeZero())
	o.ManagedFields = []metav1.ManagedFieldsEntry{at(1, "status"), at(3, "status"), at(2, "status"), at(4, ""), {Subresource: "status"}}
	g.Expect(Written(o, "status")).To(Equal(noon.Add(3 * time.Minute)))
	g.Expect(Written(o, "")).To(Equal(noon.Add(4 * time.Minute)))
}
