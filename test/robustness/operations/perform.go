// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replacePods changes the pod template, and has the pods replaced.
func (c *Cluster) replacePods(ctx context.Context) error {
	return c.rollout(ctx, func(e *v1alpha1.Etcd) {
		e.Spec.PodUpdatePolicy = v1alpha1.RecreatePods
		e.Spec.Annotations = map[string]string{"robustness/change": fmt.Sprint(c.asked)}
	})
}

// rollout changes the pod template, and waits until there is a new revision of it.
func (c *Cluster) rollout(ctx context.Context, change func(*v1alpha1.Etcd)) error {
	c.asked++
	before, err := c.revision(ctx)
	if err != nil {
		return err
	}
	if err := c.patch(ctx, change); err != nil {
		return err
	}
	return until(ctx, "the new template is there", func(ctx context.Context) error {
		set, err := c.statefulSet(ctx)
		if err == nil && set.Status.UpdateRevision == before {
			err = errors.New("the StatefulSet has no new revision")
		}
		return err
	})
}

func (c *Cluster) revision(ctx context.Context) (string, error) {
	revision := ""
	err := until(ctx, "the StatefulSet can be read", func(ctx context.Context) error {
		set, err := c.statefulSet(ctx)
		revision = set.Status.UpdateRevision
		return err
	})
	return revision, err
}

// during records an outage for the time of something, and until the cluster has settled after it.
func (c *Cluster) during(ctx context.Context, o oracle.Outage, do func() error) error {
	o.From = c.Now()
	err := do()
	if err == nil {
		err = c.Settled(ctx)
	}
	o.To = c.Now()
	c.Outage(o)
	return err
}

// recreate changes the pod template, because there would be nothing to do otherwise, and asks for a recreation. It takes over
// from the rollout that has just begun.
func (c *Cluster) recreate(ctx context.Context) error {
	if err := c.replacePods(ctx); err != nil {
		return err
	}
	return c.during(ctx, oracle.Outage{What: "recreation"}, func() error {
		return task(v1alpha1.RecreateRollout, "")(ctx, c)
	})
}

// recreateInstead is for an Etcd whose rollouts wait for approval: it changes the pod template, and asks for a recreation instead
// of approving the rollout.
func (c *Cluster) recreateInstead(ctx context.Context) error {
	if err := c.approveRollouts(ctx, true); err != nil {
		return err
	}
	if err := c.replacePods(ctx); err != nil {
		return err
	}
	return c.during(ctx, oracle.Outage{What: "recreation"}, func() error {
		if err := task(v1alpha1.RecreateRollout, "")(ctx, c); err != nil {
			return err
		}
		return errors.Join(c.approveRollouts(ctx, false), c.dismissSuspended(ctx))
	})
}

// approveRollouts sets whether rollouts wait for approval.
func (c *Cluster) approveRollouts(ctx context.Context, manual bool) error {
	return c.patch(ctx, func(e *v1alpha1.Etcd) {
		delete(e.Annotations, v1alpha1.AnnotationRollout)
		if manual {
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationRollout, v1alpha1.RolloutManual)
		}
	})
}

// dismissSuspended deletes the tasks that wait for approval, until every pod is updated: then there will be no more.
func (c *Cluster) dismissSuspended(ctx context.Context) error {
	return until(ctx, "no task waits for approval", func(ctx context.Context) error {
		tasks := &v1alpha1.EtcdOperatorTaskList{}
		if err := c.Kube.List(ctx, tasks, client.InNamespace(c.Namespace)); err != nil {
			return err
		}
		for _, t := range tasks.Items {
			if t.Spec.Suspend && !t.Status.State.IsFinal() {
				if err := client.IgnoreNotFound(c.Kube.Delete(ctx, &t)); err != nil {
					return err
				}
			}
		}
		return c.updated(ctx)
	})
}

func (c *Cluster) hibernate(ctx context.Context) error {
	return c.during(ctx, oracle.Outage{What: "hibernation"}, func() error {
		if err := c.patch(ctx, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }); err != nil {
			return err
		}
		err := until(ctx, "the Etcd is hibernated", func(ctx context.Context) error {
			etcd, err := c.etcd(ctx)
			if err != nil {
				return err
			}
			if condition := etcd.Status.Conditions.Find(v1alpha1.ConditionHibernated); condition == nil || condition.Status != metav1.ConditionTrue {
				return fmt.Errorf("condition: %+v", condition)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return c.patch(ctx, func(e *v1alpha1.Etcd) { e.Spec.Replicas = int32(c.Members) })
	})
}

// needlessRecovery asks for a recovery although nothing is lost. Members may be down by a fault.
func (c *Cluster) needlessRecovery(ctx context.Context) error {
	return c.during(ctx, oracle.Outage{What: "recovery", OnlyIfLost: true}, func() error {
		return task(v1alpha1.QuorumLossRecovery, "")(ctx, c)
	})
}

// recover loses the volumes of a quorum, and asks for a recovery.
func (c *Cluster) recover(ctx context.Context) error {
	return c.during(ctx, oracle.Outage{What: "recovery", OnlyIfLost: true}, func() error {
		if err := c.loseQuorum(ctx); err != nil {
			return err
		}
		return c.askForRecovery(ctx)
	})
}

// askForRecovery asks for a recovery until it is admitted: a leader that has lost its followers takes a moment to know.
func (c *Cluster) askForRecovery(ctx context.Context) error {
	for {
		name, err := c.ask(ctx, v1alpha1.QuorumLossRecovery, "")
		if err != nil {
			return err
		}
		status, err := c.ended(ctx, name)
		if err != nil || status.State == v1alpha1.TaskStateSucceeded {
			return err
		}
		notLost := func(e v1alpha1.LastError) bool { return e.Code == v1alpha1.ErrQuorumNotLost }
		if status.State != v1alpha1.TaskStateRejected || !slices.ContainsFunc(status.LastErrors, notLost) {
			return fmt.Errorf("task %s is %s: %+v", name, status.State, status.LastErrors)
		}
	}
}

// minority is how many members can be missed. A recovery freezes so many, the first ones.
func minority(members int) int { return (members - 1) / 2 }

// lost are the members whose volumes are lost before a recovery. The last one survives, which has every acknowledged write. Where
// two survivors are no quorum, the last of the frozen ones does too, which is behind. It is before the other, so that a recovery
// that does not compare their data is likely to take the wrong one.
func lost(members int) []int {
	last, behind := members-1, -1
	if members/2 >= 2 {
		behind = minority(members) - 1
	}
	var lost []int
	for i := range members {
		if i != last && i != behind {
			lost = append(lost, i)
		}
	}
	return lost
}

// loseQuorum loses the volumes of a quorum, once a survivor has every acknowledged write. The one that is behind stays frozen until
// its pod ends, which kills its process. If a fault ends that pod before the others are gone, it may catch up, and writes may do
// without the last member. They still need one of the two, so the more advanced one has them all.
func (c *Cluster) loseQuorum(ctx context.Context) error {
	if err := c.catchUpLast(ctx); err != nil {
		return err
	}
	if err := c.loseVolumes(ctx, lost(c.Members)); err != nil {
		return err
	}
	return until(ctx, "the volumes are lost", c.volumesLost)
}

// loseVolumes deletes the claims of members, and then their pods.
func (c *Cluster) loseVolumes(ctx context.Context, members []int) error {
	for _, list := range []client.Object{&corev1.PersistentVolumeClaim{}, &corev1.Pod{}} {
		for _, i := range members {
			list.SetNamespace(c.Namespace)
			list.SetName(c.pod(i))
			if _, claim := list.(*corev1.PersistentVolumeClaim); claim {
				list.SetName(c.claim(i))
			}
			err := until(ctx, list.GetName()+" is deleted", func(ctx context.Context) error {
				return client.IgnoreNotFound(c.Kube.Delete(ctx, list))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// volumesLost returns nil once the pods are told that their data is lost.
func (c *Cluster) volumesLost(ctx context.Context) error {
	etcd, err := c.etcd(ctx)
	if err != nil {
		return err
	}
	if condition := etcd.Status.Conditions.Find(v1alpha1.ConditionReady); condition == nil || condition.Reason != v1alpha1.ReasonQuorumLost {
		return fmt.Errorf("condition: %+v", condition)
	}
	return nil
}

func (c *Cluster) pod(i int) string   { return fmt.Sprintf("%s-%d", c.Name, i) }
func (c *Cluster) claim(i int) string { return fmt.Sprintf("%s-%s", c.Name, c.pod(i)) }

// catchUpLast freezes the first members of a minority, so that every write needs all others, and waits for one: then the last
// member has all that were acknowledged before, and until the others go, and each of the frozen ones lacks that write.
func (c *Cluster) catchUpLast(ctx context.Context) error {
	for {
		var frozen []node.Process
		for i := range minority(c.Members) {
			p, err := c.freeze(ctx, c.pod(i))
			if err != nil {
				return err
			}
			frozen = append(frozen, p)
		}
		if err := c.Written(ctx); err != nil {
			return fmt.Errorf("waiting for a write: %w", err)
		}
		if !slices.ContainsFunc(frozen, func(p node.Process) bool { return !p.Stopped() }) {
			return nil
		}
	}
}

// freeze freezes a member for good.
func (c *Cluster) freeze(ctx context.Context, name string) (node.Process, error) {
	var p node.Process
	err := until(ctx, name+" is frozen", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := c.Kube.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, pod)
		if err == nil {
			p, err = node.Find(ctx, string(pod.UID), node.Etcd)
		}
		if err == nil {
			err = p.Freeze(ctx)
		}
		return err
	})
	return p, err
}

// switchGate switches the gate off in the middle of a rollout, and on again in the middle of the next.
func (c *Cluster) switchGate(ctx context.Context) error {
	for _, on := range []bool{false, true} {
		if err := c.replacePods(ctx); err != nil {
			return err
		}
		if err := c.Operator.setGate(ctx, on); err != nil {
			return err
		}
		err := until(ctx, "the update strategy follows the gate", func(ctx context.Context) error {
			set, err := c.statefulSet(ctx)
			if err == nil && (set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType) != on {
				err = fmt.Errorf("it is %s", set.Spec.UpdateStrategy.Type)
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := c.Settled(ctx); err != nil {
			return err
		}
	}
	return nil
}
