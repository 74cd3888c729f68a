// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestResultOfAJob(t *testing.T) {
	g := NewWithT(t)
	v := Volume{Member: "m-0", Claim: "c-0"}
	g.Expect(seen(v, "j", job.State{Running: true, Message: "pod runs"}).State).To(Equal(Looking))
	volume := seen(v, "j", job.State{Result: []byte(`{"state":"Present","clusterID":"cafe","lastIndex":7}`)})
	g.Expect(volume.State).To(Equal(Seen))
	g.Expect(volume.Survey.LastIndex).To(Equal(uint64(7)))
	for _, s := range []job.State{{}, {Result: []byte(`{}`)}, {Result: []byte(`{"state":"Present","clusterID":"cafe'; rm x"}`)}, {Code: v1alpha1.ErrJobFailed, Message: "input/output error"}} {
		unread := seen(v, "j", s)
		g.Expect(unread.State).To(Equal(Unread))
		g.Expect(unread.Message).To(ContainSubstring("delete claim c-0"))
		g.Expect(unread.Message).To(ContainSubstring("delete Job j to survey the claim again"))
		g.Expect(abandoned(unread).State).To(Equal(Abandoned))
	}
	g.Expect(abandoned(volume).State).To(Equal(Gone))
	g.Expect(abandoned(volume).Survey).To(BeZero())
}

// server serves claims and Jobs, and accepts new Jobs.
type server struct {
	client.Client
	claims  map[string]*corev1.PersistentVolumeClaim
	jobs    map[string]*batchv1.Job
	created []string
}

func (s *server) Get(_ context.Context, key types.NamespacedName, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.PersistentVolumeClaim:
		if c := s.claims[key.Name]; c != nil {
			c.DeepCopyInto(into)
			return nil
		}
	case *batchv1.Job:
		if j := s.jobs[key.Name]; j != nil {
			j.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (s *server) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	s.created = append(s.created, object.GetName())
	return nil
}

// Volumes that are not known to be the Etcd's are not surveyed, and the survey does not finish without them.
func TestForeignVolumesAreNotSurveyed(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 5}}
	o := Order{Etcd: etcd, Owner: job.OfEtcd(etcd), Members: 5, Image: "agent", Timeout: time.Minute}
	claim := func(i int, labels map[string]string) (string, *corev1.PersistentVolumeClaim) {
		name := fmt.Sprintf("m-m-%d", i)
		return name, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: labels}}
	}
	own := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "m"}
	s := &server{claims: map[string]*corev1.PersistentVolumeClaim{}, jobs: map[string]*batchv1.Job{
		o.jobName(1): {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: o.jobName(1), UID: "another's"}},
	}}
	for i, labels := range []map[string]string{own, own, {"app": "web"}, nil} {
		name, c := claim(i, labels)
		s.claims[name] = c
	}
	// A claim that is being deleted may still be in use.
	s.claims["m-m-3"].DeletionTimestamp = &metav1.Time{}
	surveyor := Surveyor{Client: s, Live: s, Clock: clock.RealClock{}}
	volumes, err := surveyor.Look(t.Context(), o)
	g.Expect(err).NotTo(HaveOccurred())
	states := make([]State, 0, len(volumes))
	for _, v := range volumes {
		states = append(states, v.State)
	}
	g.Expect(states).To(Equal([]State{Unseen, Foreign, Foreign, Foreign, Gone}))
	g.Expect(volumes[1].Message).To(ContainSubstring("Job ns/%s has no controller", o.jobName(1)))
	g.Expect(volumes[2].Message).To(ContainSubstring("adopted-by=etcd"))
	waits, act := Pending(volumes)
	g.Expect(waits).To(HaveLen(4))
	g.Expect(act).To(BeTrue())
	g.Expect(surveyor.Go(t.Context(), o, volumes)).To(Succeed())
	g.Expect(s.created).To(Equal([]string{o.jobName(0)}))
	_, act = Pending(volumes[1:])
	g.Expect(act).To(BeFalse())
}
