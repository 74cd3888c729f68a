// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"k8s.io/client-go/rest"
)

// apiServer records what it is asked, and sends one event of a watch at once.
type apiServer struct {
	mu    sync.Mutex
	asked []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.mu.Unlock()
	_, _ = io.WriteString(w, "answer")
	if isWatch(r) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func (s *apiServer) has(request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.asked, request)
}

func start(t *testing.T, fate disturb.Fate) (s *apiServer, p *Proxy, writes *[]disturb.Write) {
	t.Helper()
	s, writes = &apiServer{}, &[]disturb.Write{}
	server := httptest.NewServer(s)
	p, err := Start(&rest.Config{Host: server.URL}, func(w disturb.Write) disturb.Fate {
		*writes = append(*writes, w)
		return fate
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(); server.CloseClientConnections(); server.Close() })
	return s, p, writes
}

func ask(t *testing.T, p *Proxy, method, path, body string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.Config().Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it is only read
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

const (
	pods  = "/api/v1/namespaces/ns/pods"
	tasks = "/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcdoperatortasks"
)

func TestFates(t *testing.T) {
	for fate, want := range map[disturb.Fate]struct{ carriedOut, answered, killed bool }{
		disturb.Answered:     {true, true, false},
		disturb.KilledBefore: {false, false, true},
		disturb.KilledAfter:  {true, false, true},
		disturb.AnswerLost:   {true, false, false},
		disturb.NotSent:      {false, false, false},
	} {
		t.Run(fate.String(), func(t *testing.T) {
			s, p, _ := start(t, fate)
			_, body, err := ask(t, p, http.MethodDelete, pods+"/a", "")
			if answered := err == nil && body == "answer"; answered != want.answered {
				t.Errorf("answered %q, %v", body, err)
			}
			if s.has("DELETE "+pods+"/a") != want.carriedOut || p.Killed() != want.killed {
				t.Errorf("carried out: %v, killed: %t", s.asked, p.Killed())
			}
			if _, _, err := ask(t, p, http.MethodGet, pods, ""); (err != nil) != want.killed {
				t.Errorf("a read afterwards: %v", err)
			}
		})
	}
}

func TestWrites(t *testing.T) {
	_, p, writes := start(t, disturb.Answered)
	for _, r := range [][3]string{
		{http.MethodPost, pods, `{"metadata": {"name": "a"}}`},
		{http.MethodPost, pods + "/a/eviction", `{"metadata": {"name": "a"}}`},
		{http.MethodPatch, "/apis/apps/v1/namespaces/ns/statefulsets/main/status", "{}"},
		{http.MethodPut, tasks + "/recover/status", `{"status": {"state": "InProgress", "recovery": {"phase": "Growing"}}}`},
		{http.MethodPut, tasks + "/restart/status", `{"status": {"state": "InProgress", "rollout": {"updatedReplicas": 2}}}`},
		{http.MethodPatch, tasks + "/restart", "{}"},
		{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/ns/events", "{}"},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"},
		{http.MethodGet, pods, ""},
	} {
		if _, _, err := ask(t, p, r[0], r[1], r[2]); err != nil {
			t.Fatal(err)
		}
	}
	want := []disturb.Write{
		{Verb: "create", Kind: "pods", Name: "a", Namespace: "ns"},
		{Verb: "create eviction", Kind: "pods", Name: "a", Namespace: "ns"},
		{Verb: "patch status", Kind: "statefulsets", Name: "main", Namespace: "ns"},
		{Verb: "update status", Kind: "etcdoperatortasks", Name: "recover", Namespace: "ns", Stage: "InProgress, Growing"},
		{Verb: "update status", Kind: "etcdoperatortasks", Name: "restart", Namespace: "ns", Stage: "InProgress, 2 updated"},
		{Verb: "patch", Kind: "etcdoperatortasks", Name: "restart", Namespace: "ns"},
	}
	if !slices.Equal(*writes, want) {
		t.Errorf("%v", *writes)
	}
}

// A cache that begins gets what was; what is asked of the present is not changed.
func TestThePast(t *testing.T) {
	s, p, _ := start(t, disturb.Answered)
	p.FromThePast("7")
	if code, _, err := ask(t, p, http.MethodGet, pods+"?watch=1&sendInitialEvents=true", ""); code != http.StatusUnprocessableEntity || err != nil {
		t.Errorf("%d %v", code, err)
	}
	for _, query := range []string{"?resourceVersion=0", "", "/a"} {
		if _, _, err := ask(t, p, http.MethodGet, pods+query, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, request := range []string{"GET " + pods + "?resourceVersion=7&resourceVersionMatch=Exact", "GET " + pods, "GET " + pods + "/a"} {
		if !s.has(request) {
			t.Errorf("there was no %s: %v", request, s.asked)
		}
	}
	p.FromThePast("8", "nodes")
	if _, _, err := ask(t, p, http.MethodGet, pods+"?resourceVersion=0", ""); err != nil || !s.has("GET "+pods+"?resourceVersion=0") {
		t.Errorf("lists of another kind are of the present: %v, %v", err, s.asked)
	}
}

func TestHeldWatch(t *testing.T) {
	s, p, _ := start(t, disturb.Answered)
	p.Hold("pods")
	got := make(chan string, 2)
	for _, path := range []string{pods, "/apis/apps/v1/statefulsets"} {
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Config().Host+path+"?watch=true", http.NoBody)
			if err != nil {
				got <- err.Error()
				return
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				got <- err.Error()
				return
			}
			defer answer.Body.Close() //nolint:errcheck // it is only read
			event := make([]byte, len("answer"))
			_, _ = io.ReadFull(answer.Body, event)
			got <- path + " " + string(event)
		}()
	}
	if event := <-got; event != "/apis/apps/v1/statefulsets answer" {
		t.Fatalf("got %q while pods are held; asked %v", event, s.asked)
	}
	p.Hold()
	if event := <-got; event != pods+" answer" {
		t.Errorf("got %q", event)
	}
}
