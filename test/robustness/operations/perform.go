// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rollout changes the pod template.
func (c *Cluster) rollout(ctx context.Context) error {
	c.asked++
	before, err := c.revision(ctx)
	if err != nil {
		return err
	}
	err = c.patch(ctx, func(e *v1alpha1.Etcd) {
		e.Spec.Annotations = map[string]string{"robustness/change": fmt.Sprint(c.asked)}
	})
	if err != nil {
		return err
	}
	return c.until(ctx, "the new template is there", func(ctx context.Context) error {
		set, err := c.statefulSet(ctx)
		if err == nil && set.Status.UpdateRevision == before {
			err = errors.New("the StatefulSet has no new revision")
		}
		return err
	})
}

func (c *Cluster) revision(ctx context.Context) (string, error) {
	revision := ""
	err := c.until(ctx, "the StatefulSet can be read", func(ctx context.Context) error {
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

func (c *Cluster) recreate(ctx context.Context) error {
	return c.during(ctx, oracle.Outage{What: "recreation"}, func() error {
		return task(v1alpha1.RecreateRollout, "")(ctx, c)
	})
}

func (c *Cluster) hibernate(ctx context.Context) error {
	return c.during(ctx, oracle.Outage{What: "hibernation"}, func() error {
		if err := c.patch(ctx, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }); err != nil {
			return err
		}
		err := c.until(ctx, "the Etcd is hibernated", func(ctx context.Context) error {
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

// recover loses the volumes of all members but one, which has every acknowledged write, and asks for a recovery.
func (c *Cluster) recover(ctx context.Context) error {
	return c.during(ctx, oracle.Outage{What: "recovery", OnlyIfLost: true}, func() error {
		if err := c.loseQuorum(ctx); err != nil {
			return err
		}
		name, err := c.ask(ctx, v1alpha1.QuorumLossRecovery, "")
		if err != nil {
			return err
		}
		status, err := c.ended(ctx, name)
		if err == nil && status.State != v1alpha1.TaskStateSucceeded {
			err = fmt.Errorf("task %s is %s: %+v", name, status.State, status.LastErrors)
		}
		return err
	})
}

// loseQuorum freezes the first members of a minority, so that every write needs all others, and then loses their volumes
// and those of all but the last.
func (c *Cluster) loseQuorum(ctx context.Context) error {
	for i := range (c.Members - 1) / 2 {
		if err := c.freeze(ctx, c.pod(i)); err != nil {
			return err
		}
	}
	for _, list := range []client.Object{&corev1.PersistentVolumeClaim{}, &corev1.Pod{}} {
		for i := range c.Members - 1 {
			list.SetNamespace(c.Namespace)
			list.SetName(c.pod(i))
			if _, claim := list.(*corev1.PersistentVolumeClaim); claim {
				list.SetName(c.claim(i))
			}
			err := c.until(ctx, list.GetName()+" is deleted", func(ctx context.Context) error {
				return client.IgnoreNotFound(c.Kube.Delete(ctx, list))
			})
			if err != nil {
				return err
			}
		}
	}
	return c.until(ctx, "the volumes are lost", c.volumesLost)
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

func (c *Cluster) freeze(ctx context.Context, name string) error {
	return c.until(ctx, name+" is frozen", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := c.Kube.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, pod); err != nil {
			return err
		}
		p, err := node.Find(ctx, string(pod.UID), node.Etcd)
		if err != nil {
			return err
		}
		return p.Freeze(ctx)
	})
}

// gate is the feature gate with which the operator replaces the pods, and not the StatefulSet controller.
const gate = "QuorumAwareUpdatesWithOnDelete: "

// switchGate switches the gate off in the middle of a rollout, and on again in the middle of the next.
func (c *Cluster) switchGate(ctx context.Context) error {
	for _, on := range []bool{false, true} {
		if err := c.rollout(ctx); err != nil {
			return err
		}
		if err := c.setGate(ctx, on); err != nil {
			return err
		}
		err := c.until(ctx, "the update strategy follows the gate", func(ctx context.Context) error {
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

func (c *Cluster) setGate(ctx context.Context, on bool) error {
	return c.until(ctx, "the gate is set", func(ctx context.Context) error {
		config := &corev1.ConfigMap{}
		if err := c.Kube.Get(ctx, c.Operator, config); err != nil {
			return err
		}
		before := client.MergeFrom(config.DeepCopy())
		text := config.Data["config.yaml"]
		config.Data["config.yaml"] = strings.ReplaceAll(text, gate+fmt.Sprint(!on), gate+fmt.Sprint(on))
		if err := c.Kube.Patch(ctx, config, before); err != nil {
			return err
		}
		return c.RestartOperator(ctx)
	})
}

// RestartOperator does what kubectl rollout restart does.
func (c *Cluster) RestartOperator(ctx context.Context) error {
	d := &appsv1.Deployment{}
	if err := c.Kube.Get(ctx, c.Operator, d); err != nil {
		return err
	}
	before := client.MergeFrom(d.DeepCopy())
	if d.Spec.Template.Annotations == nil {
		d.Spec.Template.Annotations = map[string]string{}
	}
	d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = time.Now().Format(time.RFC3339Nano)
	return c.Kube.Patch(ctx, d, before)
}

// OperatorReady waits until the operator's pods are those of its newest template, and ready.
func (c *Cluster) OperatorReady(ctx context.Context) error {
	return c.until(ctx, "the operator is ready", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := c.Kube.Get(ctx, c.Operator, d); err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.Replicas != *d.Spec.Replicas || s.UpdatedReplicas != s.Replicas || s.ReadyReplicas != s.Replicas {
			return fmt.Errorf("status: %+v", s)
		}
		return nil
	})
}

// ThroughProxy makes the operator use another address of the API server. An empty host is the real one.
func (c *Cluster) ThroughProxy(ctx context.Context, host, port string) error {
	err := c.until(ctx, "the operator's API server is set", func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := c.Kube.Get(ctx, c.Operator, d); err != nil {
			return err
		}
		before := client.MergeFrom(d.DeepCopy())
		container := &d.Spec.Template.Spec.Containers[0]
		var kept []corev1.EnvVar
		for _, e := range container.Env {
			if !strings.HasPrefix(e.Name, "KUBERNETES_SERVICE_") {
				kept = append(kept, e)
			}
		}
		if host != "" {
			kept = append(kept, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: host}, corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: port})
		}
		container.Env = kept
		return c.Kube.Patch(ctx, d, before)
	})
	if err != nil {
		return err
	}
	return c.OperatorReady(ctx)
}
