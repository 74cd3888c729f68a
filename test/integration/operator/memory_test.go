// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// updates of a StatefulSet whose template has that many containers, each with its own amounts of that many resources.
	updates, containers, amounts = 25, 100, 30
	// maxGrowth is what the cache may keep of them, in bytes. A template takes about a megabyte.
	maxGrowth = 4 << 20
)

// What the cache had of a StatefulSet is free again once it has changed, however many different amounts its templates had.
func TestMemoryOfAChangingStatefulSet(t *testing.T) {
	g := NewWithT(t)
	namespace := testEnv.Namespace(t)
	options, err := composed.CacheOptions(namespace)
	g.Expect(err).NotTo(HaveOccurred())
	options.Scheme = testEnv.Scheme
	c, err := cache.New(testEnv.Config, options)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Start(ctx)
	}()
	defer func() { stop(); <-ended }()

	set := statefulSet(namespace)
	change := func(n int) {
		set.Spec.Template.Spec.Containers = withAmounts(n)
		if n == 0 {
			g.Expect(testEnv.Client.Create(ctx, set)).To(Succeed())
		} else {
			g.Expect(testEnv.Client.Update(ctx, set)).To(Succeed())
		}
		g.Eventually(func(g Gomega) {
			cached := &appsv1.StatefulSet{}
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(set), cached)).To(Succeed())
			g.Expect(cached.ResourceVersion).To(Equal(set.ResourceVersion))
		}, machine.Patience(), 20*time.Millisecond).Should(Succeed())
	}
	change(0)
	before := inUse()
	for n := range updates {
		change(n + 1)
	}
	var grown int64
	g.Eventually(func() int64 { grown = inUse() - before; return grown }, time.Minute, 200*time.Millisecond).Should(BeNumerically("<", maxGrowth))
	t.Logf("the heap has grown by %d KiB", grown>>10)
	runtime.KeepAlive(c)
}

func statefulSet(namespace string) *appsv1.StatefulSet {
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: name}
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
	}}
}

// withAmounts are containers, no two of which want the same, nor what those of another n want.
func withAmounts(n int) []corev1.Container {
	var all []corev1.Container
	for i := range containers {
		wanted := corev1.ResourceList{}
		for j := range amounts {
			wanted[corev1.ResourceName(fmt.Sprintf("example.com/%d-%d-%d-%s", n, i, j, strings.Repeat("x", 30)))] = *resource.NewQuantity(int64(n*containers+i+1), resource.DecimalSI)
		}
		all = append(all, corev1.Container{Name: fmt.Sprintf("c-%d", i), Image: "web", Resources: corev1.ResourceRequirements{Requests: wanted, Limits: wanted}})
	}
	return all
}

// inUse is the size of all objects on the heap that are in use.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
