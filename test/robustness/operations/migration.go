// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// phases is how long after the beginning of a migration its faults may begin, so that each part of it meets some.
const phases = time.Minute

// migrations move the cluster to the members of another Etcd, and the next one moves it back. A source that loses a volume is not replaced
// while others are listed: a person gives up first.
func migrations() []Operation {
	all := []Operation{
		{Name: "migration", Run: by((*Cluster).migrate), Times: 2},
		{Name: "migration given up", Run: by((*Cluster).giveUpMigration), Times: 2},
		{Name: "migration given up and resumed", Run: by((*Cluster).resumeMigration), Times: 3},
		{Name: "migration deleted", Run: by((*Cluster).deleteMigration), Times: 2},
	}
	for i := range all {
		all[i].Migrates, all[i].Spread, all[i].Not = true, phases, aloneNot
	}
	return all
}

// migrate has the members of the other Etcd join, cuts over, and removes the Etcd of before.
func (c *Cluster) migrate(ctx context.Context) error {
	m := c.migration()
	if err := c.join(ctx); err != nil {
		return err
	}
	return c.cutOver(ctx, m)
}

// giveUpMigration has the members of the other Etcd join, and leave again.
func (c *Cluster) giveUpMigration(ctx context.Context) error {
	m := c.migration()
	if err := c.join(ctx); err != nil {
		return err
	}
	if err := c.giveUp(ctx, 0); err != nil {
		return err
	}
	return c.abandon(ctx, m)
}

// deleteMigration deletes the other Etcd while its members have joined.
func (c *Cluster) deleteMigration(ctx context.Context) error {
	m := c.migration()
	if err := c.join(ctx); err != nil {
		return err
	}
	return c.abandon(ctx, m)
}

// resumeMigration gives a migration up while the first member joins, takes that back while members leave, and migrates.
func (c *Cluster) resumeMigration(ctx context.Context) error {
	m := c.migration()
	if err := c.createOther(ctx); err != nil {
		return err
	}
	err := until(ctx, "a member of the other Etcd is ready", func(ctx context.Context) error {
		set, err := c.other().statefulSet(ctx)
		if err == nil && set.Status.ReadyReplicas == 0 {
			err = errors.New("none is")
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := c.giveUp(ctx, c.Members-1); err != nil {
		return err
	}
	if err := c.other().patch(ctx, func(e *v1alpha1.Etcd) { e.Spec.Replicas = int32(c.Members) }); err != nil {
		return err
	}
	if err := c.joined(ctx); err != nil {
		return err
	}
	return c.cutOver(ctx, m)
}

func (c *Cluster) migration() oracle.Migration {
	return oracle.Migration{From: c.Now(), Source: c.Name, Target: c.Other}
}

// other is the Etcd that the members of the cluster move to, as a Cluster.
func (c *Cluster) other() *Cluster {
	o := *c
	o.Name, o.Other = c.Other, c.Name
	return &o
}

// join creates the other Etcd, and waits until its members have joined.
func (c *Cluster) join(ctx context.Context) error {
	if err := c.createOther(ctx); err != nil {
		return err
	}
	return c.joined(ctx)
}

// createOther creates the other Etcd, whose members join those of this one.
func (c *Cluster) createOther(ctx context.Context) error {
	o := c.other()
	return until(ctx, "Etcd "+o.Name+" is created", func(ctx context.Context) error {
		etcd := o.newEtcd()
		etcd.Spec.Etcd.BootstrapWithExistingCluster = c.asSource()
		err := c.Kube.Create(ctx, etcd)
		if apierrors.IsAlreadyExists(err) {
			return nil // the answer was lost
		}
		return err
	})
}

// asSource names the members of the cluster, and where they are reached.
func (c *Cluster) asSource() *v1alpha1.BootstrapWithExistingCluster {
	etcd, source := c.newEtcd(), &v1alpha1.BootstrapWithExistingCluster{}
	for i := range c.Members {
		host := etcd.MemberHost(c.pod(i))
		source.Members = append(source.Members, v1alpha1.BootstrapExistingMember{Name: c.pod(i), PeerURLs: []string{fmt.Sprintf("http://%s:2380", host)}})
		source.ClientEndpoints = append(source.ClientEndpoints, fmt.Sprintf("http://%s:2379", host))
	}
	return source
}

// joined waits until the members of the other Etcd could take over.
func (c *Cluster) joined(ctx context.Context) error {
	return until(ctx, "the members of Etcd "+c.Other+" have joined", func(ctx context.Context) error {
		etcd, err := c.other().etcd(ctx)
		if err != nil {
			return err
		}
		return ready(etcd, v1alpha1.ConditionBootstrappedWithExistingCluster)
	})
}

// ready returns nil once the operator has applied the newest spec of an Etcd, and says that all conditions of some types are true.
func ready(etcd *v1alpha1.Etcd, types ...string) error {
	if etcd.Status.ObservedGeneration < etcd.Generation {
		return errors.New("the operator has not applied the newest spec")
	}
	for _, name := range types {
		if condition := etcd.Status.Conditions.Find(name); condition == nil || condition.Status != metav1.ConditionTrue {
			return fmt.Errorf("condition %s: %+v", name, condition)
		}
	}
	return nil
}

// giveUp has the members of the other Etcd leave, and waits until so many replicas are left at most.
func (c *Cluster) giveUp(ctx context.Context, left int) error {
	o := c.other()
	if err := o.patch(ctx, func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 }); err != nil {
		return err
	}
	return until(ctx, "members of Etcd "+o.Name+" leave", func(ctx context.Context) error {
		etcd, err := o.etcd(ctx)
		if err == nil {
			err = ready(etcd)
		}
		if err != nil {
			return err
		}
		set, err := o.statefulSet(ctx)
		if err == nil && int(*set.Spec.Replicas) > left {
			err = fmt.Errorf("it has %d replicas", *set.Spec.Replicas)
		}
		return err
	})
}

// abandon deletes the other Etcd, whose members have left the list once it is gone, and with it what they had.
func (c *Cluster) abandon(ctx context.Context, m oracle.Migration) error {
	if err := c.other().remove(ctx); err != nil {
		return err
	}
	m.To = c.Now()
	c.Migrated(m)
	return nil
}

// cutOver gives the source up, waits until its members have left, and removes its Etcd. From then on the cluster is the other one.
func (c *Cluster) cutOver(ctx context.Context, m oracle.Migration) error {
	o := c.other()
	m.CutOver = c.Now()
	if err := o.patch(ctx, func(e *v1alpha1.Etcd) { e.Spec.Etcd.BootstrapWithExistingCluster = nil }); err != nil {
		return err
	}
	err := until(ctx, "the members of Etcd "+c.Name+" have left", func(ctx context.Context) error {
		etcd, err := o.etcd(ctx)
		if err != nil {
			return err
		}
		if etcd.Source() != nil {
			return errors.New("the status still names them")
		}
		return ready(etcd, v1alpha1.ConditionReady, v1alpha1.ConditionScaled, v1alpha1.ConditionAllMembersReady)
	})
	if err != nil {
		return err
	}
	if err := c.remove(ctx); err != nil {
		return err
	}
	m.To = c.Now()
	c.Migrated(m)
	c.Name, c.Other = c.Other, c.Name
	return nil
}

// remove deletes the Etcd, and what is left of it once it is gone: its volumes would be those of another cluster.
func (c *Cluster) remove(ctx context.Context) error {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	err := until(ctx, "Etcd "+c.Name+" is gone", func(ctx context.Context) error {
		err := c.Kube.Delete(ctx, etcd.DeepCopy())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it is being deleted"))
	})
	if err != nil {
		return err
	}
	for i := range c.Members {
		if err := c.gone(ctx, &corev1.Pod{}, c.pod(i), false); err != nil {
			return err
		}
		if err := c.gone(ctx, &corev1.PersistentVolumeClaim{}, c.claim(i), true); err != nil {
			return err
		}
	}
	return nil
}

// gone waits until an object is gone, and deletes it if asked to.
func (c *Cluster) gone(ctx context.Context, object client.Object, name string, deletes bool) error {
	return until(ctx, name+" is gone", func(ctx context.Context) error {
		key := types.NamespacedName{Namespace: c.Namespace, Name: name}
		err := c.Kube.Get(ctx, key, object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && deletes && object.GetDeletionTimestamp() == nil {
			err = client.IgnoreNotFound(c.Kube.Delete(ctx, object))
		}
		return cmp.Or(err, errors.New("it is still there"))
	})
}
