// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// hangingPort is the least client port of members that hang.
const hangingPort = 20000

// hanging dials members, of which those at ports from hangingPort on accept requests and never answer.
type hanging struct {
	etcdclient.Dialer
	mu sync.Mutex
	// asked is how often each of those was asked.
	asked map[string]int
}

func (h *hanging) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	_, port, _ := strings.Cut(strings.TrimPrefix(endpoint, "http://"), ":")
	if n, err := strconv.Atoi(port); err != nil || n < hangingPort {
		return h.Dialer.Dial(endpoint, config)
	}
	return &hangs{all: h, at: endpoint}, nil
}

// counts returns how many that hang were asked twice, and how often all were asked.
func (h *hanging) counts() (twice, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.asked {
		if all += n; n > 1 {
			twice++
		}
	}
	return twice, all
}

// hangs is a member that never answers.
type hangs struct {
	etcdclient.Client
	all *hanging
	at  string
}

func (h *hangs) Status(ctx context.Context) (etcdclient.Status, error) {
	h.all.mu.Lock()
	h.all.asked[h.at]++
	h.all.mu.Unlock()
	<-ctx.Done()
	return etcdclient.Status{}, ctx.Err()
}

func (h *hangs) Close() error { return nil }

// A change of a healthy Etcd is carried out while others keep on hanging, more than there are workers, and before the others have had
// their turns.
func TestHealthyEtcdBesideOthersThatHang(t *testing.T) {
	const workers, others = 6, 18
	const each = 2 * time.Second // how long an answer is waited for
	w := newWorld(t, 1)
	members := &hanging{Dialer: w.Members, asked: map[string]int{}}
	w.Start([]composed.Controller{composed.Etcds},
		composition.Configured(func(c *configv1alpha1.OperatorConfiguration) { c.Controllers.Etcd.ConcurrentSyncs = workers }),
		composition.Depending(func(d *composed.Dependencies) { d.Dialer = members }))
	w.eventuallyWell()
	for i := range others {
		w.Expect(testEnv.Client.Create(t.Context(), &v1alpha1.Etcd{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: fmt.Sprintf("hangs-%d", i)},
			Spec:       v1alpha1.EtcdSpec{Replicas: 1, Etcd: v1alpha1.EtcdConfig{ClientPort: ptr.To(int32(hangingPort + i))}},
		})).To(Succeed())
	}
	w.Eventually(func() int { twice, _ := members.counts(); return twice }).Should(Equal(others), "each is known to hang")
	for round := range 5 {
		from := time.Now()
		_, before := members.counts()
		w.Change(func(e *v1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, "test/round", fmt.Sprint(round))
			e.Spec.Etcd.ClientService = &v1alpha1.ClientService{Annotations: map[string]string{"round": fmt.Sprint(round)}}
		})
		w.Eventually(func(g Gomega) { g.Expect(w.Status(g).ObservedGeneration).To(Equal(w.Etcd.Generation)) }).Should(Succeed())
		_, looks := members.counts()
		looks -= before
		took := time.Since(from)
		t.Logf("round %d: after %s; those that hang were asked %d times", round, took, looks)
		// On a busy machine a change takes longer without waiting for them. A namespace has half of the workers.
		w.Expect(looks).To(BeNumerically("<=", max(workers-1, int(workers/2*(1+took/each)))), "it waited for them")
	}
}
