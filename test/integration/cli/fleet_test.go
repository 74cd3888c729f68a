// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A person sees how a change goes through the fleet, draws it, and resumes it as they see it.
func TestFleet(t *testing.T) {
	p := newPerson(t)
	p.Expect(p.run("fleet").err).To(HavePrefix("There is no EtcdFleetPolicy"))
	now := metav1.Now()
	policy := &v1alpha1.EtcdFleetPolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}
	p.Expect(testEnv.Client.Create(t.Context(), policy)).To(Succeed())
	t.Cleanup(func() { _ = testEnv.Client.Delete(context.Background(), policy) })
	p.Expect(p.run("fleet", policy.Name).out).To(ContainSubstring("No operator has seen its newest spec yet"))
	before := client.MergeFrom(policy.DeepCopy())
	policy.Status = v1alpha1.EtcdFleetPolicyStatus{ObservedGeneration: policy.Generation, Changes: []v1alpha1.FleetChange{{
		Change: "v1-bad", Since: now, Failed: 1, Paused: "it crashes", ResumeToken: "v1-bad.7",
		Failures: []v1alpha1.FleetFailure{{Namespace: p.Namespace, Etcd: "main", UID: "1", Reason: "it crashes", At: now}},
	}}}
	p.Expect(testEnv.Client.Status().Patch(t.Context(), policy, before)).To(Succeed())
	p.Expect(p.run("fleet").out).To(MatchRegexp(`(?m)^v1-bad +paused +0 +0 +0 +0 +1 `))

	p.Expect(p.run("timeline", "--change", "v1-bad").err).To(Equal("error: no task has change v1-bad; \"kubectl etcdtask fleet\" lists changes\n"))
	task := p.CreateTask("a", v1alpha1.QuorumAwareRollout, "")
	task.Status.Change = "v1-bad"
	p.operate(task, v1alpha1.TaskStateFailed, "it crashes")
	p.Expect(p.run("timeline", "--change", "v1-bad").out).To(And(HavePrefix("Change v1-bad\n"), ContainSubstring(p.Namespace+"/main failed: it crashes")))
	p.Expect(p.run("timeline", "--change", "v1-bad", "-o", "svg").out).To(HavePrefix("<svg"))
	p.Expect(p.run("timeline", "--change", "v1-bad", "main").code).To(Equal(2))

	p.Expect(p.run("fleet", "resume", "v1-other").err).To(Equal("error: no EtcdFleetPolicy has paused change \"v1-other\"; \"kubectl etcdtask fleet\" shows which changes are paused\n"))
	p.Expect(p.run("fleet", "resume", "v1-bad").out).To(Equal("change v1-bad of etcdfleetpolicy/" + policy.Name + " resumed\n"))
	p.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(Succeed())
	p.Expect(policy.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationResumeChange, "v1-bad.7"))
}
