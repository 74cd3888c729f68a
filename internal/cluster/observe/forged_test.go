// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// forger is a member that answers with any member list.
type forger struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedClusterServer
	endpoint string
	members  []*etcdserverpb.Member
}

func (f *forger) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 1, MemberId: 1, RaftTerm: 1}, Leader: 1, RaftTerm: 1}, nil
}

func (f *forger) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return &etcdserverpb.MemberListResponse{Members: f.members}, nil
}

// forge serves a member list with the given number of other members. None answers, and each has its own address.
func forge(t *testing.T, others int) *forger {
	t.Helper()
	g := NewWithT(t)
	// It accepts no connection: a client's connection is established, but gets no answer.
	hangs, err := net.Listen("tcp", "0.0.0.0:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = hangs.Close() })
	f := &forger{members: []*etcdserverpb.Member{{ID: 1, Name: "m-0"}}}
	for i := range others {
		at := fmt.Sprintf("http://127.%d.%d.%d:%d", 1+i>>16, i>>8&255, i&255, hangs.Addr().(*net.TCPAddr).Port)
		f.members = append(f.members, &etcdserverpb.Member{ID: uint64(i + 2), ClientURLs: []string{at}})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	f.endpoint = "http://" + listener.Addr().String()
	server := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	etcdserverpb.RegisterMaintenanceServer(server, f)
	etcdserverpb.RegisterClusterServer(server, f)
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(server.Stop)
	return f
}

// cost is the peak of goroutines and memory above the level before.
type cost struct {
	goroutines int
	memory     uint64
	// allocated is all that was allocated on the heap on the way, whatever the samples miss.
	allocated uint64
}

// measure runs something and samples its cost every few milliseconds. Memory is heap and stacks, including garbage not yet
// freed.
func measure(do func()) cost {
	// As in the operator, whatever collects garbage less often here.
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var m runtime.MemStats
	inUse := func() uint64 {
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	runtime.GC()
	goroutines, memory := runtime.NumGoroutine(), inUse()
	allocated := m.TotalAlloc
	var most cost
	var done atomic.Bool
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); !done.Load(); <-tick.C {
			// The sampling goroutine does not count.
			most.goroutines = max(most.goroutines, runtime.NumGoroutine()-goroutines-1)
			if now := inUse(); now > memory {
				most.memory = max(most.memory, now-memory)
			}
		}
	})
	do()
	done.Store(true)
	sampling.Wait()
	inUse()
	most.allocated = m.TotalAlloc - allocated
	return most
}

// Any answer of a member costs the operator little: members run the images of the Etcd's author.
func TestForgedMembersCostLittle(t *testing.T) {
	for _, others := range []int{10, 90, 1000, 10_000, 200_000} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			g := NewWithT(t)
			f := forge(t, others)
			o := New(etcdclient.NewPool(time.Now), clock.RealClock{})
			var s *cluster.Snapshot
			took := measure(func() {
				seen := input{ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Endpoint: f.endpoint, Ready: true}}}}
				g.Expect(o.ask(t.Context(), &v1alpha1.Etcd{}, &seen)).To(Succeed())
				s = build(seen)
			})
			t.Logf("%d forged members: %d goroutines, %.1f MiB, of %.1f MiB allocated", others, took.goroutines, float64(took.memory)/(1<<20), float64(took.allocated)/(1<<20))
			g.Expect(s.Cluster.Reachable).To(BeTrue())
			g.Expect(s.HasQuorum()).To(BeFalse(), "voters that were not asked do not serve")
			g.Expect(took.goroutines).To(BeNumerically("<", 100))
			g.Expect(took.memory).To(BeNumerically("<", 64<<20))
		})
	}
}

// The smallest entries are decoded into the most memory.
func TestForgedListOfEmptyMembersCostsLittle(t *testing.T) {
	g := NewWithT(t)
	f := forge(t, 0)
	for range 32_000 {
		f.members = append(f.members, &etcdserverpb.Member{})
	}
	o := New(etcdclient.NewPool(time.Now), clock.RealClock{})
	seen := input{ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Endpoint: f.endpoint, Ready: true}}}}
	took := measure(func() {
		for range 5 {
			g.Expect(o.ask(t.Context(), &v1alpha1.Etcd{}, &seen)).To(Succeed())
		}
	})
	t.Logf("%d goroutines, %.1f MiB, of %.1f MiB allocated", took.goroutines, float64(took.memory)/(1<<20), float64(took.allocated)/(1<<20))
	g.Expect(seen.members).To(BeEmpty())
	g.Expect(took.memory).To(BeNumerically("<", 64<<20))
}

// The names of members are shown to users.
func TestForgedNamesAreHarmless(t *testing.T) {
	g := NewWithT(t)
	f := forge(t, 0)
	f.members = append(f.members, &etcdserverpb.Member{ID: 2, Name: "m-1\x1b[2J\nall is well"})
	o := New(etcdclient.NewPool(time.Now), clock.RealClock{})
	seen := input{ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0", Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Endpoint: f.endpoint, Ready: true}}}}
	g.Expect(o.ask(t.Context(), &v1alpha1.Etcd{}, &seen)).To(Succeed())
	s := build(seen)
	g.Expect(s.Cluster.Voters).To(HaveLen(2))
	g.Expect(s.Cluster.Voters[1].Name).To(Equal("m-1 [2J all is well"))
}

// A user who may scale a StatefulSet can choose any number.
func TestStatefulSetOfManyReplicasIsNotObserved(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}}
	for replicas, observed := range map[int32]bool{100: true, 101: false, math.MaxInt32: false} {
		g := NewWithT(t)
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: "etcd", Controller: ptr.To(true)},
		}}}
		set.Spec.Replicas = &replicas
		_, err := New(nil, clock.RealClock{}).read(t.Context(), fake.NewClientBuilder().WithObjects(set).Build(), etcd)
		if observed {
			g.Expect(err).NotTo(HaveOccurred())
			continue
		}
		g.Expect(err).To(MatchError(ContainSubstring("it has %d replicas, more than 100", replicas)))
	}
}

// A StatefulSet that is not the Etcd's own is never observed, and so neither rolled nor stopped, also if it becomes foreign while a task
// runs: every look ends with ErrNoStatefulSet.
func TestForeignStatefulSetIsNotObserved(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "etcd"}}
	owner := func(uid types.UID, controller bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd, Name: "m", UID: uid, Controller: &controller}}
	}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		own    bool
	}{
		"its own":                   {owner("etcd", true), true},
		"of an earlier Etcd":        {owner("earlier", true), false},
		"owned, but not controlled": {owner("etcd", false), false},
		"of no member":              {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", OwnerReferences: c.owners}, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0)}}
			reader, o := fake.NewClientBuilder().WithObjects(set).Build(), New(nil, clock.RealClock{})
			_, err := o.Observe(t.Context(), reader, etcd)
			_, confirmed := o.Confirm(t.Context(), reader, etcd, &cluster.Snapshot{})
			if c.own {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(confirmed).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ErrNoStatefulSet))
			g.Expect(confirmed).To(MatchError(ErrNoStatefulSet))
			g.Expect(err).To(MatchError(MatchRegexp("^reading StatefulSet ns/m: the Etcd has no StatefulSet( of its own: StatefulSet ns/m .*: .*| that it controls)$")))
		})
	}
}
