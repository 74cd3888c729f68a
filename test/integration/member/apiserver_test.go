// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const inNamespace = "default"

// kubernetesOn starts a kube-apiserver whose etcd is the cluster.
func (c *cluster) kubernetesOn(g Gomega) kubernetes.Interface {
	var members []string
	for i := range c.members {
		members = append(members, c.url(i, c.client))
	}
	first, err := url.Parse(members[0])
	g.Expect(err).NotTo(HaveOccurred())
	server := &envtest.APIServer{Path: machine.Program(c.t, "kube-apiserver"), EtcdURL: first, StartTimeout: machine.Patience(), StopTimeout: machine.Patience()}
	server.Configure().Set("etcd-servers", strings.Join(members, ","))
	g.Expect(server.Start()).To(Succeed())
	c.t.Cleanup(func() { _ = server.Stop() })
	config, err := server.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{QPS: -1})
	g.Expect(err).NotTo(HaveOccurred())
	config.CAData, config.Host = server.CA, server.SecureServing.URL("https", "/").String()
	kube, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := kube.CoreV1().Namespaces().Get(c.t.Context(), inNamespace, metav1.GetOptions{})
		return err
	}).WithTimeout(machine.Patience()).Should(Succeed())
	return kube
}

// objects are the resource versions of objects, by name: two states of a history, or of two, have different ones.
type objects map[string]int64

// stored returns what etcd has of a resource.
func (c *cluster) stored(g Gomega, resource string) objects {
	prefix, all := "/registry/"+resource+"/"+inNamespace+"/", objects{}
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err == nil {
			for _, kv := range r.Kvs {
				all[strings.TrimPrefix(string(kv.Key), prefix)] = kv.ModRevision
			}
		}
		return err
	})
	return all
}

// told returns what a client was told: the objects of a resource, and the newest resource version.
func told(list runtime.Object) (objects, int64, error) {
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, 0, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, 0, err
	}
	all := objects{}
	for _, item := range items {
		o := item.(metav1.Object)
		all[o.GetName()] = version(o)
	}
	at, err := strconv.ParseInt(accessor.GetResourceVersion(), 10, 64)
	return all, at, err
}

func version(o metav1.Object) int64 {
	n, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return n
}

// apiClient is a client of one resource that has seen all that it has been told, in order.
type apiClient struct {
	lists *cache.ListWatch

	mu       sync.Mutex
	knows    objects
	newest   int64
	expired  int
	problems []string
}

func (a *apiClient) problem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// replace is told a whole list.
func (a *apiClient) replace(all objects, at int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at < a.newest {
		a.problem("a list is of version %d, after %d", at, a.newest)
	}
	a.knows, a.newest = all, at
}

// jump is more than any history here has written, and less than a restore adds to the revision.
const jump = 1_000_000

// event is told one event of a watch. It reports whether the watch goes on.
func (a *apiClient) event(e watch.Event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.Type == watch.Error {
		err := apierrors.FromObject(e.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			a.expired++
		}
		return false
	}
	o := e.Object.(metav1.Object)
	switch at := version(o); {
	case at <= a.newest:
		a.problem("%s of %s is of version %d, after %d", e.Type, o.GetName(), at, a.newest)
	case at > a.newest+jump:
		a.problem("%s of %s is of version %d, after %d without a list", e.Type, o.GetName(), at, a.newest)
	default:
		a.newest = at
	}
	if e.Type == watch.Deleted {
		delete(a.knows, o.GetName())
	} else {
		a.knows[o.GetName()] = version(o)
	}
	return true
}

func (a *apiClient) state() (objects, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.knows), a.expired
}

// follow watches from the newest version, and lists only once that is said to have expired.
func (a *apiClient) follow(ctx context.Context) {
	listed := 0
	for ctx.Err() == nil {
		_, expired := a.state()
		if listed <= expired {
			if all, at, err := a.list(ctx, metav1.ListOptions{}); err == nil {
				a.replace(all, at)
				listed = expired + 1
			}
		} else if w, err := a.lists.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatInt(a.newest, 10)}); err == nil {
			for e := range w.ResultChan() {
				if !a.event(e) {
					break
				}
			}
			w.Stop()
		} else if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			a.event(watch.Event{Type: watch.Error, Object: &metav1.Status{Reason: metav1.StatusReasonExpired}})
		}
		paced(ctx)
	}
}

// paced waits for a moment between two requests.
func paced(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// list lists, as long as a request may take.
func (a *apiClient) list(ctx context.Context, o metav1.ListOptions) (objects, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, machine.Scaled(5*time.Second))
	defer cancel()
	list, err := a.lists.ListWithContext(ctx, o)
	if err != nil {
		return nil, 0, err
	}
	return told(list)
}

// seen are the states that a client has seen, one after the other, by one kind of list.
type seen struct {
	states []objects
	newest int64
	back   bool
}

func (s *seen) add(all objects, at int64) {
	s.back = s.back || at < s.newest
	s.newest = max(s.newest, at)
	if len(s.states) == 0 || !maps.Equal(s.states[len(s.states)-1], all) {
		s.states = append(s.states, all)
	}
}

// listing lists again and again, and returns what it has seen once it is to end.
func (a *apiClient) listing(ctx context.Context, o metav1.ListOptions) *seen {
	s := &seen{}
	for ctx.Err() == nil {
		if all, at, err := a.list(ctx, o); err == nil {
			s.add(all, at)
		}
		paced(ctx)
	}
	return s
}

// informer is a client with a cache, and what those have heard that were told its events alone.
type informer struct {
	cache.SharedIndexInformer
	heard *sync.Map
}

func inform(ctx context.Context, g Gomega, lists *cache.ListWatch, kube kubernetes.Interface, example runtime.Object) informer {
	i := informer{cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lists, kube), example, 0, nil), &sync.Map{}}
	_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { i.heard.Store(o.(metav1.Object).GetName(), version(o.(metav1.Object))) },
		UpdateFunc: func(_, o any) { i.heard.Store(o.(metav1.Object).GetName(), version(o.(metav1.Object))) },
		DeleteFunc: func(o any) {
			name, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
			i.heard.Delete(strings.TrimPrefix(name, inNamespace+"/"))
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	go i.RunWithContext(ctx)
	return i
}

// caches returns what is in the store, and what was heard.
func (i informer) caches() (store, heard objects) {
	store, heard = objects{}, objects{}
	for _, o := range i.GetStore().List() {
		store[o.(metav1.Object).GetName()] = version(o.(metav1.Object))
	}
	i.heard.Range(func(name, at any) bool { heard[name.(string)] = at.(int64); return true })
	return store, heard
}

// change creates, changes and deletes objects of both resources, of which the API server caches one.
func change(ctx context.Context, g Gomega, kube kubernetes.Interface, value string, create, update, remove []string) {
	configs, events := kube.CoreV1().ConfigMaps(inNamespace), kube.CoreV1().Events(inNamespace)
	for _, name := range create {
		_, err := configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		of := corev1.ObjectReference{Namespace: inNamespace, Name: name, Kind: "ConfigMap"}
		_, err = events.Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: of, Message: value}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	for _, name := range update {
		_, err := configs.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}}, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	for _, name := range remove {
		g.Expect(configs.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		g.Expect(events.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	}
}

func names(what string) (all []string) {
	for i := range 10 {
		all = append(all, fmt.Sprintf("%s-%d", what, i))
	}
	return all
}

// A kube-apiserver, and clients of it that list, watch and have informers, go on while their etcd goes back: none keeps what is gone, none
// lacks what came back, and nobody is told of both histories at once.
func TestAnAPIServerOnARestoredCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3).backedUp()
	o := operate(g, c, c.startThree(g))
	kube := c.kubernetesOn(g)
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { end(); running.Wait() })

	change(ctx, g, kube, "wanted", append(append(names("stays"), names("changes")...), names("returns")...), nil, nil)
	target := c.revision(g)
	change(ctx, g, kube, "unwanted", names("goes"), names("changes"), names("returns"))
	_, err := o.taker.Delta(ctx)
	g.Expect(err).NotTo(HaveOccurred())

	clients, informers, before := map[string]*apiClient{}, map[string]informer{}, map[string]objects{}
	for resource, example := range map[string]runtime.Object{"configmaps": &corev1.ConfigMap{}, "events": &corev1.Event{}} {
		lists := cache.NewListWatchFromClient(kube.CoreV1().RESTClient(), resource, inNamespace, fields.Everything())
		clients[resource], informers[resource], before[resource] = &apiClient{lists: lists}, inform(ctx, g, lists, kube, example), c.stored(g, resource)
		running.Go(func() { clients[resource].follow(ctx) })
	}
	agree := func() { c.agree(g, clients, informers) }
	agree()
	page, err := kube.CoreV1().ConfigMaps(inNamespace).List(ctx, metav1.ListOptions{Limit: 5})
	g.Expect(err).NotTo(HaveOccurred())
	last, err := strconv.ParseInt(page.ResourceVersion, 10, 64)
	g.Expect(err).NotTo(HaveOccurred())

	preview := o.carryOut("preview", fmt.Sprintf("to: {revision: %d}", target))
	watching, enough := context.WithCancel(ctx)
	kinds := map[string]metav1.ListOptions{
		"cached": {ResourceVersion: "0"}, "consistent": {}, "not older": {ResourceVersion: page.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
	}
	saw := make(chan map[string]*seen, 1)
	running.Go(func() { saw <- clients["configmaps"].listingAll(watching, kinds) })
	back := o.carryOut("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s, maxWritesSince: 1000000}", target, preview.Status.Result["confirm"]))
	g.Expect(back.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	after := c.stored(g, "configmaps")
	g.Expect(after).To(And(HaveLen(30), HaveKey("returns-0"), Not(HaveKey("goes-0"))))
	agree()
	enough()
	for kind, s := range <-saw {
		g.Expect(s.back).To(BeFalse(), "versions of %s lists went back", kind)
		g.Expect(s.states).To(Equal([]objects{before["configmaps"], after}), "%s lists are of one history, then of the other", kind)
	}
	for resource, a := range clients {
		_, expired := a.state()
		g.Expect(expired).To(BeNumerically(">", 0), "who watched %s was told to list", resource)
	}
	g.Expect(clients["configmaps"].versionsOfBefore(ctx, last, page.Continue)).To(Succeed())
	change(ctx, g, kube, "after", nil, names("stays"), names("changes"))
	g.Expect(c.stored(g, "configmaps")).NotTo(HaveKey("changes-0"))
	agree()
}

// agree expects that each cache has what etcd has, and that nobody was told anything wrong.
func (c *cluster) agree(g Gomega, clients map[string]*apiClient, informers map[string]informer) {
	c.t.Helper()
	for resource, a := range clients {
		g.Eventually(func(g Gomega) {
			stored := c.stored(g, resource)
			list, _, err := a.list(c.t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list).To(Equal(stored), "a consistent list of %s", resource)
			cached, _, err := a.list(c.t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(cached).To(Equal(stored), "a list of %s from the API server's cache", resource)
			followed, _ := a.state()
			g.Expect(followed).To(Equal(stored), "who watched %s", resource)
			store, heard := informers[resource].caches()
			g.Expect(store).To(Equal(stored), "the informer of %s", resource)
			g.Expect(heard).To(Equal(stored), "who heard of events of %s alone", resource)
		}).WithTimeout(machine.Patience()).Should(Succeed())
		a.mu.Lock()
		g.Expect(a.problems).To(BeEmpty(), resource)
		a.mu.Unlock()
	}
}

// listingAll lists in several ways at once.
func (a *apiClient) listingAll(ctx context.Context, kinds map[string]metav1.ListOptions) map[string]*seen {
	all := map[string]*seen{}
	var mu sync.Mutex
	var done sync.WaitGroup
	for kind, o := range kinds {
		done.Go(func() {
			s := a.listing(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			all[kind] = s
		})
	}
	done.Wait()
	return all
}

// versionsOfBefore returns an error unless everything that refers to a version of the history that was left is refused, or answered with what is
// newer.
func (a *apiClient) versionsOfBefore(ctx context.Context, last int64, token string) error {
	for _, at := range []int64{1, last - 1, last} {
		v := strconv.FormatInt(at, 10)
		if _, _, err := a.list(ctx, metav1.ListOptions{ResourceVersion: v, ResourceVersionMatch: metav1.ResourceVersionMatchExact}); !apierrors.IsResourceExpired(err) {
			return fmt.Errorf("a list at exactly version %d, which is compacted: %w", at, err)
		}
		if _, now, err := a.list(ctx, metav1.ListOptions{ResourceVersion: v, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}); err != nil || now < last+jump {
			return fmt.Errorf("a list of version %d or newer is of version %d: %w", at, now, err)
		}
		if err := a.watchFrom(ctx, v); err != nil {
			return err
		}
	}
	if _, _, err := a.list(ctx, metav1.ListOptions{Limit: 5, Continue: token}); !apierrors.IsResourceExpired(err) {
		return fmt.Errorf("the next page of a list that began before: %w", err)
	}
	return nil
}

// watchFrom returns an error unless a watch from a version ends, since that has expired.
func (a *apiClient) watchFrom(ctx context.Context, v string) error {
	ctx, cancel := context.WithTimeout(ctx, machine.Scaled(10*time.Second))
	defer cancel()
	w, err := a.lists.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: v})
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	e := <-w.ResultChan()
	if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		return fmt.Errorf("a watch from version %s got %s %v", v, e.Type, e.Object)
	}
	return nil
}
