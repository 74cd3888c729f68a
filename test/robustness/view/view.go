// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package view follows the pods of StatefulSets of etcd members, and records what each member says 20 times a second. It
// asks every member at its own address, from the node, so that no fault between the operator and a member affects it.
package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// interval is the time between two questions to a member.
	interval = 50 * time.Millisecond
	// patience is how long a member may take to answer. A frozen one is asked less often.
	patience = 500 * time.Millisecond
	// listEvery is in how many questions a member is asked for the voters too.
	listEvery = 5
)

// Pod is a pod of a StatefulSet that has an address.
type Pod struct{ Name, UID, IP string }

// Roster knows the pods of some StatefulSets.
type Roster struct {
	// Sets are their names.
	Sets []string

	mutex sync.Mutex
	pods  map[string]Pod
}

// Follow returns the roster of some StatefulSets, which follows them until the context ends.
func Follow(ctx context.Context, kube kubernetes.Interface, namespace string, sets ...string) (*Roster, error) {
	r := &Roster{Sets: sets}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace))
	handler, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.see(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { r.see(object.(*corev1.Pod)) },
		DeleteFunc: r.miss,
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return nil, fmt.Errorf("watching pods: %w", context.Cause(ctx))
	}
	return r, nil
}

// Names are those of the pods of so many ordinals of each StatefulSet, whether or not there are any.
func (r *Roster) Names(members int) (names []string) {
	for _, set := range r.Sets {
		for i := range members {
			names = append(names, fmt.Sprintf("%s-%d", set, i))
		}
	}
	return names
}

// Pods returns the pods, by name.
func (r *Roster) Pods() []Pod {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.SortedFunc(maps.Values(r.pods), func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
}

// Pod returns one of them.
func (r *Roster) Pod(name string) (Pod, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	pod, there := r.pods[name]
	return pod, there
}

func (r *Roster) see(pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "StatefulSet" || !slices.Contains(r.Sets, owner.Name) || pod.Status.PodIP == "" {
		return
	}
	r.Add(Pod{Name: pod.Name, UID: string(pod.UID), IP: pod.Status.PodIP})
}

// Add adds a pod, in place of the one of its name.
func (r *Roster) Add(pod Pod) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.pods == nil {
		r.pods = map[string]Pod{}
	}
	r.pods[pod.Name] = pod
}

func (r *Roster) miss(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.pods[pod.Name].UID == string(pod.UID) {
		delete(r.pods, pod.Name)
	}
}

// askPatience bounds a question to a member that somebody waits for.
const askPatience = 2 * time.Second

// OnAny does something through one member after another, until it succeeds.
func (r *Roster) OnAny(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	failed := []error{errors.New("no member has an address")}
	for _, pod := range r.Pods() {
		err := pod.on(ctx, do)
		if err == nil {
			return nil
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// Lag returns how many entries a member lacks that another knows to be committed; 0 if it does not answer.
func (r *Roster) Lag(ctx context.Context, member string) int {
	applied, committed := 0, 0
	for _, pod := range r.Pods() {
		_ = pod.on(context.WithoutCancel(ctx), func(ctx context.Context, etcd *clientv3.Client) error {
			status, err := etcd.Status(ctx, pod.Address())
			switch {
			case err != nil:
			case pod.Name == member:
				applied = int(status.RaftAppliedIndex)
			default:
				committed = max(committed, int(status.RaftIndex))
			}
			return err
		})
	}
	if applied == 0 {
		return 0
	}
	return committed - applied
}

// on does something with a connection of its own.
func (p Pod) on(ctx context.Context, do func(context.Context, *clientv3.Client) error) error {
	etcd, err := Dial(p.Address())
	if err != nil {
		return err
	}
	defer etcd.Close() //nolint:errcheck // it is not used any more
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return do(ctx, etcd)
}

// Dial returns a client of the members at some addresses. It connects again soon after a member has restarted.
func Dial(addresses ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: addresses, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond}, MinConnectTimeout: time.Second,
		})},
	})
}

// Address returns the client URL of a member.
func (p Pod) Address() string { return "http://" + p.IP + ":2379" }

// Recorder records samples.
type Recorder struct {
	roster *Roster
	began  time.Time

	mutex sync.Mutex
	lines *json.Encoder
	err   error
	count int
}

// NewRecorder returns a Recorder for a run that began at a time.
func NewRecorder(roster *Roster, out io.Writer, began time.Time) *Recorder {
	return &Recorder{roster: roster, began: began, lines: json.NewEncoder(out)}
}

// Run records until the context ends. It asks the pods of so many ordinals of each StatefulSet.
func (r *Recorder) Run(ctx context.Context, members int) error {
	var all sync.WaitGroup
	for _, name := range r.roster.Names(members) {
		all.Go(func() { r.follow(ctx, name) })
	}
	all.Wait()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.err != nil {
		return fmt.Errorf("recording what members say: %w", r.err)
	}
	return nil
}

// follow asks the pods of one name, one after another.
func (r *Recorder) follow(ctx context.Context, name string) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var client *clientv3.Client
	var of Pod
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			if client != nil {
				_ = client.Close()
			}
			return
		case <-ticker.C:
		}
		pod, there := r.roster.Pod(name)
		if !there {
			continue
		}
		if client == nil || pod != of {
			if client != nil {
				_ = client.Close()
			}
			var err error
			if client, err = Dial(pod.Address()); err != nil {
				continue
			}
			of = pod
		}
		r.write(r.ask(ctx, client, pod, n%listEvery == 0))
	}
}

// ask asks a member once.
func (r *Recorder) ask(ctx context.Context, client *clientv3.Client, pod Pod, list bool) oracle.Sample {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := oracle.Sample{At: time.Since(r.began), Pod: pod.Name, UID: pod.UID}
	status, err := client.Status(ctx, pod.Address())
	if err != nil {
		return s
	}
	s.Answered, s.Member, s.Leader, s.Term = true, status.Header.MemberId, status.Leader, status.RaftTerm
	s.Committed, s.Applied = status.RaftIndex, status.RaftAppliedIndex
	if !list {
		return s
	}
	if members, err := client.MemberList(ctx, clientv3.WithSerializable()); err == nil {
		for _, m := range members.Members {
			if m.IsLearner {
				s.Learners = append(s.Learners, m.ID)
			} else {
				s.Voters = append(s.Voters, m.ID)
			}
		}
	}
	return s
}

func (r *Recorder) write(s oracle.Sample) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.count++; r.err == nil {
		r.err = r.lines.Encode(s)
	}
}

// Count returns the number of samples so far.
func (r *Recorder) Count() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.count
}
