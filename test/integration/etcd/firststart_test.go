// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nothing is the survey of a volume without data.
var nothing = member.Survey{State: member.SurveyNone}

// config returns what the members read.
func (w *world) config(g Gomega) map[string]string {
	c := &corev1.ConfigMap{}
	w.Get(g, name+"-config", c)
	return c.Data
}

// looked ends the Jobs that survey n volumes, with what each says, and waits until they are removed.
func (w *world) looked(n int, says func(claim string) member.Survey) {
	w.T.Helper()
	jobs := w.untilJobs(v1alpha1.ComponentSurveyJob, n)
	for i := range jobs {
		w.Expect(jobs[i].Spec.Template.Spec.Containers[0].VolumeMounts[0].ReadOnly).To(BeTrue())
		w.end(&jobs[i], true, says(jobs[i].Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName))
	}
	w.Eventually(func(g Gomega) {
		w.letGo()
		g.Expect(w.Jobs(g, v1alpha1.ComponentSurveyJob)).To(BeEmpty())
	}).Should(Succeed())
}

// createAgain deletes an Etcd that has served, but keeps its claims, without those that are lost, and creates it again.
func (w *world) createAgain(lost ...int) (id string) {
	w.T.Helper()
	w.eventuallyWell()
	members := w.Etcd.Spec.Replicas
	w.bind(int(members))
	id = w.Etcd.Status.ClusterID
	w.Expect(testEnv.Client.Delete(w.T.Context(), w.Etcd)).To(Succeed())
	w.Eventually(func(g Gomega) {
		err := testEnv.Client.Get(context.Background(), w.Key(name), &appsv1.StatefulSet{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		pods := &corev1.PodList{}
		g.Expect(testEnv.Client.List(context.Background(), pods, client.InNamespace(w.Namespace))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).Should(Succeed())
	for _, i := range lost {
		w.loses(i)
	}
	w.Etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: members}}
	w.Expect(testEnv.Client.Create(w.T.Context(), w.Etcd)).To(Succeed())
	return id
}

// loses deletes the claim of an ordinal.
func (w *world) loses(i int) {
	w.T.Helper()
	claim := w.claim(w, i)
	w.Expect(testEnv.Client.Delete(w.T.Context(), claim)).To(Succeed())
	w.Eventually(func(g Gomega) {
		w.remove(g, claim.Name)
		g.Expect(apierrors.IsNotFound(testEnv.Client.Get(context.Background(), client.ObjectKeyFromObject(claim), claim))).To(BeTrue())
	}).Should(Succeed())
}

// notStarted expects that no member has been started, or may begin a cluster.
func (w *world) notStarted(g Gomega, reason string) *metav1.Condition {
	c := w.condition(g, v1alpha1.ConditionDataVolumesReady)
	g.Expect(c.Reason).To(Equal(reason), c.Message)
	g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(BeZero()))
	g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart))
	return c
}

// surveying waits until the status says that volumes are surveyed, which it does after their Jobs exist. No member has been started.
func (w *world) surveying() {
	w.T.Helper()
	w.Eventually(func(g Gomega) { w.notStarted(g, v1alpha1.ReasonSurveyingVolumes) }).Should(Succeed())
}

// An Etcd that is created again beside claims of which two were lost: no member is started before the third was looked at, and none
// may begin a cluster. A recovery can then start from the data that is there: the status has the ID of its cluster.
func TestCreatedAgainBesideLessThanAQuorum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	o := w.start()
	id := w.createAgain(1, 2)
	w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
	w.Eventually(func(g Gomega) {
		c := w.notStarted(g, v1alpha1.ReasonSurveyingVolumes)
		g.Expect(c.Message).To(ContainSubstring("claim " + w.claim(g, 0).Name))
		g.Expect(w.Etcd.Status.ClusterID).To(BeEmpty())
	}).Should(Succeed())
	// Another operator goes on where this one has stopped.
	o.stop()
	w.Kubelet.Set(pod(0), env.NotReady)
	w.start()
	w.looked(1, func(string) member.Survey { return surveyed(id, 0) })
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(3))))
		g.Expect(w.Status(g).ClusterID).To(Equal(id))
		g.Expect(w.Etcd.Status.ClusterSize).To(Equal(int32(3)))
		g.Expect(w.config(g)).To(HaveKeyWithValue(member.KeyClusterID, id))
		g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart))
	}).Should(Succeed())
}

// With data of a quorum the members are those of that cluster.
func TestCreatedAgainBesideAQuorum(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.start()
	id := w.createAgain(2)
	w.looked(2, func(claim string) member.Survey {
		w.surveying()
		return surveyed(id, map[string]int{w.claim(w, 1).Name: 1}[claim])
	})
	w.eventuallyWell()
	w.Expect(w.Etcd.Status.ClusterID).To(Equal(id))
	w.Expect(w.config(w)).NotTo(HaveKey(member.KeyFirstStart))
}

// Without any data the cluster begins, once the Jobs are gone. A claim that has no volume yet is not looked at.
func TestCreatedAgainBesideEmptyVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	o := w.start()
	w.createAgain(0)
	w.foreign(env.ForeignClaim(fmt.Sprintf("%s-%s", name, pod(0)), leftOver))
	jobs := w.untilJobs(v1alpha1.ComponentSurveyJob, 2)
	for i := range 3 {
		w.Kubelet.Set(pod(i), env.NotReady)
	}
	for i := range jobs {
		w.end(&jobs[i], true, nothing)
	}
	w.Eventually(func(g Gomega) {
		permit := member.ParseFirstStart(w.config(g)[member.KeyFirstStart])
		g.Expect(permit).NotTo(BeNil())
		g.Expect(permit.Etcd).To(Equal(string(w.Etcd.UID)))
		g.Expect(permit.Claims).To(HaveLen(3))
	}).Should(Succeed())
	w.nudge(o)
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(BeZero()), "a pod of a Job still exists")
	w.Eventually(func(g Gomega) {
		w.letGo()
		g.Expect(w.Jobs(g, v1alpha1.ComponentSurveyJob)).To(BeEmpty())
		g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(3))))
		g.Expect(w.config(g)).To(HaveKey(member.KeyFirstStart))
	}).Should(Succeed())
	for i := range 3 {
		w.Kubelet.Set(pod(i), env.Ready)
	}
	w.eventuallyWell()
	w.Eventually(func(g Gomega) { g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart)) }).Should(Succeed())
}

// Data of two clusters: nothing is started, and the condition names the claims. Once the user has deleted one, the other decides.
func TestCreatedAgainBesideTwoClusters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	o := w.start()
	id := w.createAgain(2)
	jobs := w.untilJobs(v1alpha1.ComponentSurveyJob, 2)
	w.end(&jobs[0], true, surveyed(id, 0))
	w.end(&jobs[1], true, surveyed("beef", 1))
	w.Eventually(func(g Gomega) {
		c := w.notStarted(g, v1alpha1.ReasonFirstStartBlocked)
		g.Expect(c.Message).To(And(ContainSubstring("claim %s of %s holds data of cluster %s", w.claim(g, 0).Name, pod(0), id), ContainSubstring("claim %s of %s holds data of cluster beef", w.claim(g, 1).Name, pod(1))))
	}).Should(Succeed())
	w.nudge(o)
	w.notStarted(w, v1alpha1.ReasonFirstStartBlocked)
	w.loses(1)
	w.Eventually(func(g Gomega) {
		w.letGo()
		g.Expect(w.Status(g).ClusterID).To(Equal(id))
		g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(3))))
	}).Should(Succeed())
}

// An Etcd of one member is created again beside its claim, whose data is damaged: the cluster that it was is recorded, so that its member
// restores the backup, and the operator follows it. Without a permission it begins nothing.
func TestCreatedAgainBesideItsDamagedData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start()
	id := w.createAgain()
	w.Kubelet.Set(pod(0), env.NotReady)
	w.looked(1, func(string) member.Survey {
		w.surveying()
		return member.Survey{State: member.SurveyDamaged, Damage: "a torn page", ClusterID: id}
	})
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(1))))
		g.Expect(w.Status(g).ClusterID).To(Equal(id))
		g.Expect(w.Etcd.Status.ClusterSize).To(Equal(int32(1)))
		g.Expect(w.config(g)).To(HaveKeyWithValue(member.KeyClusterID, id))
		g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart))
	}).Should(Succeed())
	restored := w.shared(w).SuccessorIDs()[0]
	w.Members.Rebuild(restored)
	w.Kubelet.Set(pod(0), env.Ready)
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).ClusterID).To(Equal(restored)) }).Should(Succeed())
	w.eventuallyWell()
	w.Expect(w.Status(w).LastErrors).To(BeEmpty())
	w.Expect(w.config(w)).NotTo(HaveKey(member.KeyFirstStart))
}

// The damage does not leave the ID of its cluster: nothing is started beside it until a user has decided.
func TestCreatedAgainBesideDamagedDataOfAnUnknownCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.start()
	w.createAgain()
	jobs := w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
	w.end(&jobs[0], true, member.Survey{State: member.SurveyDamaged, Damage: "no log"})
	w.Eventually(func(g Gomega) {
		c := w.notStarted(g, v1alpha1.ReasonFirstStartBlocked)
		g.Expect(c.Message).To(And(ContainSubstring("claim %s of %s holds damaged data (no log). Delete", w.claim(g, 0).Name, pod(0)), ContainSubstring(jobs[0].Name)))
	}).Should(Succeed())
	w.nudge(o)
	w.notStarted(w, v1alpha1.ReasonFirstStartBlocked)
}

// A claim beyond the replicas is looked at as well: the Etcd had more members.
func TestCreatedAgainWithFewerMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	old := w.foreign(env.ForeignClaim(fmt.Sprintf("%s-%s", name, pod(4)), leftOver)).(*corev1.PersistentVolumeClaim)
	w.bound(old)
	w.start()
	w.looked(1, func(claim string) member.Survey {
		w.Expect(claim).To(Equal(old.Name))
		return surveyed("cafe", 1)
	})
	w.Eventually(func(g Gomega) {
		g.Expect(w.Status(g).ClusterID).To(Equal("cafe"))
		g.Expect(w.Etcd.Status.ClusterSize).To(Equal(int32(5)))
		g.Expect(w.config(g)).To(HaveKeyWithValue(member.KeyClusterID, "cafe"))
		g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart))
	}).Should(Succeed())
}

// bootstrapping returns an Etcd whose members have been started, and do not serve yet.
func bootstrapping(t *testing.T) (*world, *operator) {
	t.Helper()
	w := newWorld(t, 3)
	for i := range 3 {
		w.Kubelet.Set(pod(i), env.NotReady)
	}
	o := w.start()
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Status.Replicas).To(Equal(int32(3)))
		g.Expect(w.config(g)).To(HaveKey(member.KeyFirstStart))
	}).Should(Succeed())
	w.bind(3)
	return w, o
}

// withdraw removes the permission, as if none had been given.
func (w *world) withdraw() {
	w.T.Helper()
	config := &corev1.ConfigMap{}
	w.Get(w, name+"-config", config)
	patch := fmt.Appendf(nil, `{"data":{%q:null}}`, member.KeyFirstStart)
	w.Expect(testEnv.Client.Patch(w.T.Context(), config, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// The operator is upgraded while a cluster begins: an earlier one has given no permission. Each claim was made for this StatefulSet.
func TestUpgradeWhileAClusterBegins(t *testing.T) {
	t.Parallel()
	w, o := bootstrapping(t)
	o.stop()
	w.withdraw()
	w.start()
	w.Eventually(func(g Gomega) { g.Expect(w.config(g)).To(HaveKey(member.KeyFirstStart)) }).Should(Succeed())
	for i := range 3 {
		w.Kubelet.Set(pod(i), env.Ready)
	}
	w.eventuallyWell()
	w.Eventually(func(g Gomega) { g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart)) }).Should(Succeed())
}

// What has served does not begin a second time, whatever was erased: a lease that was renewed says so, or the ConfigMap.
func TestNothingBeginsASecondTime(t *testing.T) {
	t.Parallel()
	for what, served := range map[string]func(*world){
		"a lease was renewed": func(w *world) {
			lease := &coordinationv1.Lease{}
			w.Get(w, pod(1), lease)
			lease.Spec.HolderIdentity = ptr.To("2:cafe:Member")
			w.Expect(testEnv.Client.Update(w.T.Context(), lease)).To(Succeed())
		},
		"the ConfigMap records the cluster": func(w *world) {
			config := &corev1.ConfigMap{}
			w.Get(w, name+"-config", config)
			config.Data[member.KeyClusterID] = "cafe"
			w.Expect(testEnv.Client.Update(w.T.Context(), config)).To(Succeed())
		},
		"the size is recorded": func(w *world) {
			w.Get(w, name, w.Etcd)
			w.Etcd.Status.ClusterSize = 3
			w.Expect(testEnv.Client.Status().Update(w.T.Context(), w.Etcd)).To(Succeed())
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w, o := bootstrapping(t)
			o.stop()
			served(w)
			w.withdraw()
			o = w.start()
			w.nudge(o)
			w.Consistently(func(g Gomega) { g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart)) }).WithTimeout(3 * time.Second).Should(Succeed())
		})
	}
}

// The user stops a cluster that did not begin, and starts it again: the volumes are looked at first.
func TestStoppedWhileItBegins(t *testing.T) {
	t.Parallel()
	w, _ := bootstrapping(t)
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	w.Eventually(func(g Gomega) {
		set := w.StatefulSet(g)
		g.Expect(set.Spec.Replicas).To(HaveValue(BeZero()))
		g.Expect(set.Status.Replicas).To(BeZero())
	}).Should(Succeed())
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	w.looked(3, func(string) member.Survey {
		w.surveying()
		return nothing
	})
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(3))))
		g.Expect(w.config(g)).To(HaveKey(member.KeyFirstStart))
	}).Should(Succeed())
}

// Its StatefulSet is deleted without the pods: the next one adopts them, and no volume is looked at beside a member that runs.
func TestOrphanedWhileItBegins(t *testing.T) {
	t.Parallel()
	w, _ := bootstrapping(t)
	before := w.StatefulSet(w)
	w.Expect(testEnv.Client.Delete(t.Context(), before, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func(g Gomega) {
		set := w.StatefulSet(g)
		g.Expect(set.UID).NotTo(Equal(before.UID))
		g.Expect(set.Spec.Replicas).To(HaveValue(Equal(int32(3))))
		g.Expect(w.config(g)).To(HaveKey(member.KeyFirstStart))
	}).Should(Succeed())
	w.Expect(w.Jobs(w, v1alpha1.ComponentSurveyJob)).To(BeEmpty())
	for i := range 3 {
		w.Kubelet.Set(pod(i), env.Ready)
	}
	w.eventuallyWell()
}

// The cache is late: another operator has recorded a cluster, which this one does not see. It permits nothing.
func TestALateCachePermitsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	o := w.start()
	w.createAgain()
	jobs := w.untilJobs(v1alpha1.ComponentSurveyJob, 3)
	o.stop()
	behind := testEnv.Lag(t, w.Namespace, &v1alpha1.EtcdList{})
	w.Get(w, name, w.Etcd)
	w.Etcd.Status.ClusterID, w.Etcd.Status.ClusterSize = "cafe", 3
	w.Expect(testEnv.Client.Status().Update(t.Context(), w.Etcd)).To(Succeed())
	for i := range jobs {
		w.end(&jobs[i], true, nothing)
	}
	w.start(reading(func(client.Client) client.Client { return behind }))
	w.Consistently(func(g Gomega) { g.Expect(w.config(g)).NotTo(HaveKey(member.KeyFirstStart)) }).WithTimeout(3 * time.Second).Should(Succeed())
}
