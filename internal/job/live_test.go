// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server has at most one Job, and pods. It notes by which UID a Job is deleted.
type server struct {
	client.Client
	job     *batchv1.Job
	pods    []corev1.Pod
	deleted []types.UID
	// now is the time by its clock, asked how often it was asked for it, and away why it does not answer.
	now   time.Time
	asked int
	away  error
}

func (s *server) Get(_ context.Context, key types.NamespacedName, into client.Object, _ ...client.GetOption) error {
	if s.job == nil || s.job.Name != key.Name {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	s.job.DeepCopyInto(into.(*batchv1.Job))
	return nil
}

func (s *server) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*corev1.PodList).Items = s.pods
	return nil
}

func (s *server) Delete(_ context.Context, _ client.Object, options ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(options)
	s.deleted = append(s.deleted, *o.Preconditions.UID)
	return nil
}

var etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd-main", UID: "etcd"}}

func jobOf(controller types.UID) *batchv1.Job {
	owner := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", UID: controller}}
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "j", UID: "job", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}}
}

// Only a Job of the owner is found, and only that is removed, whatever has its name.
func TestJobsOfOthersAreLeftAlone(t *testing.T) {
	going := jobOf("etcd")
	going.DeletionTimestamp = &metav1.Time{}
	orphan := jobOf("etcd")
	orphan.OwnerReferences = nil
	for name, c := range map[string]struct {
		job     *batchv1.Job
		found   bool
		foreign bool
		deleted []types.UID
	}{
		"none":             {nil, false, false, nil},
		"its own":          {jobOf("etcd"), true, false, []types.UID{"job"}},
		"going already":    {going, true, false, nil},
		"another owner's":  {jobOf("other"), false, true, nil},
		"without an owner": {orphan, false, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &server{job: c.job}
			key := client.ObjectKey{Namespace: "ns", Name: "j"}
			found, foreign, err := Find(t.Context(), s, etcd, key)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found != nil).To(Equal(c.found))
			g.Expect(foreign != nil).To(Equal(c.foreign))
			g.Expect(Remove(t.Context(), s, s, etcd, key)).To(Succeed())
			g.Expect(s.deleted).To(Equal(c.deleted))
		})
	}
}

// The pods of a Job are those that it controls.
func TestPods(t *testing.T) {
	g := NewWithT(t)
	j := jobOf("etcd")
	pod := func(name string, owners ...metav1.OwnerReference) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	}
	earlier := j.DeepCopy()
	earlier.UID = "earlier"
	kind := batchv1.SchemeGroupVersion.WithKind("Job")
	s := &server{pods: []corev1.Pod{pod("without an owner"), pod("its own", *metav1.NewControllerRef(j, kind)), pod("of an earlier one", *metav1.NewControllerRef(earlier, kind))}}
	pods, err := podsOf(t.Context(), s, j)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pods).To(ConsistOf(HaveField("Name", "its own")))
}

// Create implements client.Client: the answer to a review has the time of the API server.
func (s *server) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	s.asked++
	o.SetCreationTimestamp(metav1.Time{Time: s.now})
	return s.away
}

// Whether a Job takes too long to start is measured by the clock that its creation was, whatever the operator's says.
func TestJobsOnAClockThatIsWrong(t *testing.T) {
	const late = startDeadline + time.Second
	for name, c := range map[string]struct {
		passed, ahead time.Duration
		running       bool
		asked         int
	}{
		"right, and young": {time.Second, 0, true, 0},
		"right, and late":  {late, 0, false, 1},
		"ahead, and young": {time.Second, startDeadline, true, 1},
		"ahead, and late":  {late, time.Hour, false, 1},
		"behind, young":    {time.Second, -time.Hour, true, 1},
		"behind, late":     {late, -time.Hour, false, 1},
	} {
		g := NewWithT(t)
		s := &server{job: jobWith(), now: epoch.Add(c.passed)}
		state, err := Look(t.Context(), s, s, jobWith(), epoch.Add(c.passed+c.ahead))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(state.Running).To(Equal(c.running), name)
		g.Expect(s.asked).To(Equal(c.asked), name)
	}
	away := &server{job: jobWith(), now: epoch, away: errors.New("away")}
	_, err := Look(t.Context(), away, away, jobWith(), epoch.Add(time.Hour))
	NewWithT(t).Expect(err).To(MatchError(away.away))
}

// A pod may be counted and gone between the reading of its Job and that of the pods: before a Job counts as not started, it is read again.
func TestAJobIsReadAgainAfterItsPods(t *testing.T) {
	g := NewWithT(t)
	read := jobOf("etcd")
	read.CreationTimestamp = metav1.Time{Time: epoch}
	s := &server{job: read.DeepCopy(), now: epoch.Add(time.Hour)}
	look := func() State {
		state, err := Look(t.Context(), s, s, read, s.now)
		g.Expect(err).NotTo(HaveOccurred())
		return state
	}
	g.Expect(look().Code).To(Equal(v1alpha1.ErrJobNotStarted))
	s.job.Status.Failed = 1
	g.Expect(look()).To(And(HaveField("Running", true), HaveField("Message", ContainSubstring("no pod left"))))
	s.job.UID = "another"
	g.Expect(look()).To(And(HaveField("Running", true), HaveField("Message", "Job j is gone")))
	s.job = nil
	g.Expect(look()).To(And(HaveField("Running", true), HaveField("Message", "Job j is gone")))
}
