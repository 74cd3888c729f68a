// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	. "github.com/onsi/gomega"
	"gocloud.dev/blob/memblob"
)

// bucketServer is a service of S3 that refuses one of its requests.
type bucketServer struct {
	*httptest.Server
	mu      sync.Mutex
	objects map[string][]byte
	// requests so far; the one with the number refuse is refused.
	requests, refuse int
	// locks reports whether the object with a key must not be removed; nil for none.
	locks func(key string) bool
}

func newBucketServer(t *testing.T) *bucketServer {
	b := &bucketServer{objects: map[string][]byte{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *bucketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	data, ok := b.objects[key]
	b.requests++
	switch {
	case b.requests == b.refuse, r.Method == http.MethodDelete && b.locks != nil && b.locks(key):
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
	case r.Method == http.MethodGet && r.URL.Query().Has("list-type"):
		b.list(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodPut:
		b.objects[key] = body
		w.Header().Set("ETag", `"1"`)
	case r.Method == http.MethodDelete:
		delete(b.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		http.ServeContent(w, r, "", time.Now(), strings.NewReader(string(data)))
	}
}

func (b *bucketServer) list(w io.Writer, prefix string) {
	_, _ = io.WriteString(w, "<ListBucketResult>")
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		if strings.HasPrefix(key, prefix) {
			_, _ = fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>", key, len(b.objects[key]))
		}
	}
	_, _ = io.WriteString(w, "</ListBucketResult>")
}

// config of the store in the bucket.
func (b *bucketServer) config(t *testing.T) Config {
	return Config{Provider: S3, Container: "bucket", Prefix: "a/b", Credentials: secret(t, map[string]string{
		"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": b.URL, "s3ForcePathStyle": "true",
		"requestChecksumCalculation": "when_required", "responseChecksumValidation": "when_required",
	})}
}

// Whichever request a store refuses, the operation fails, and names the store's answer where that says what to do. Whatever it had done by
// then, what the store has can be used, and the operation succeeds when it is repeated.
func TestEachRequestIsRefusedOnce(t *testing.T) {
	noon := full(1).Created.Add(time.Hour)
	written := func(s *Store, revision int64) backup.Snapshot {
		list, _ := s.List(context.Background())
		return list[slices.IndexFunc(list, func(s backup.Snapshot) bool { return s.LastRevision == revision })]
	}
	for name, do := range map[string]func(ctx context.Context, s *Store) (any, error){
		"list":    func(ctx context.Context, s *Store) (any, error) { return s.List(ctx) },
		"trusted": func(ctx context.Context, s *Store) (any, error) { return s.Trusted(ctx, time.Time{}) },
		"write":   func(ctx context.Context, s *Store) (any, error) { return s.Write(ctx, full(9), content) },
		"keep":    func(ctx context.Context, s *Store) (any, error) { return s.Keep(ctx, full(1).Name()) },
		"hold":    func(ctx context.Context, s *Store) (any, error) { return s.Hold(ctx, full(1).Name(), 0, noon) },
		"begin":   func(ctx context.Context, s *Store) (any, error) { return nil, s.Begin(ctx, "uid-task", "A") },
		"delete":  func(ctx context.Context, s *Store) (any, error) { return nil, s.Delete(ctx, full(1)) },
		"sweep":   func(ctx context.Context, s *Store) (any, error) { return nil, s.Sweep(ctx, noon.AddDate(10, 0, 0)) },
		"read": func(ctx context.Context, s *Store) (any, error) {
			r, err := s.Reader(ctx, full(2))
			if err != nil {
				return nil, err
			}
			data, err := io.ReadAll(r)
			return data, errors.Join(err, r.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys := signaturetest.Keys(t)
			b := newBucketServer(t)
			config := b.config(t)
			config.SigningKeys = keys
			g := NewWithT(t)
			prepared := opened(t, config)
			for _, revision := range []int64{1, 2, 3} {
				_, err := prepared.Write(t.Context(), full(revision), content)
				g.Expect(err).NotTo(HaveOccurred())
			}
			_, err := prepared.Keep(t.Context(), full(2).Name())
			g.Expect(err).NotTo(HaveOccurred())
			_, err = prepared.Hold(t.Context(), full(2).Name(), 0, noon)
			g.Expect(err).NotTo(HaveOccurred())
			delete(b.objects, "a/b/v2/"+full(3).Name()) // its signature is a leftover
			state := maps.Clone(b.objects)
			_, err = do(t.Context(), opened(t, config))
			g.Expect(err).NotTo(HaveOccurred())
			for n := 1; ; n++ {
				b.objects, b.requests, b.refuse = maps.Clone(state), 0, n
				s := opened(t, config)
				got, err := do(t.Context(), s)
				if b.requests < n {
					g.Expect(n).To(BeNumerically(">", 1))
					return
				}
				g.Expect(err).To(MatchError(ContainSubstring("403")), "request %d", n)
				if got != nil {
					g.Expect(got).To(BeZero(), "request %d", n)
				}
				usable, err := opened(t, config).Trusted(t.Context(), time.Time{})
				g.Expect(err).NotTo(HaveOccurred(), "after request %d", n)
				g.Expect(len(usable)).To(BeNumerically(">=", 1))
				_, err = do(t.Context(), s)
				g.Expect(err).NotTo(HaveOccurred(), "again, after request %d", n)
				g.Expect(written(s, 2).Kept).To(BeTrue())
			}
		})
	}
}

// What another tool has left beside a snapshot goes with it, and so does its signature; nothing else does.
func TestDeleteLeavesNothingOfASnapshot(t *testing.T) {
	g := NewWithT(t)
	bucket := memblob.OpenBucket(nil)
	w := &writer{t: t, s: inMemory(bucket, "ns/main", signaturetest.Keys(t))}
	first, second := w.full(10, ""), w.full(20, "")
	a := attacker{g, t.Context(), bucket}
	for _, s := range []backup.Snapshot{first, second} {
		a.put(w.s.key(s)+"/chunk-1", []byte("chunk"))
	}
	g.Expect(w.s.Delete(t.Context(), first)).To(Succeed())
	g.Expect(a.keys(first.Name())).To(BeEmpty())
	g.Expect(a.keys(second.Name())).To(HaveLen(3))
	g.Expect(w.s.Close()).To(Succeed())
	_, err := w.s.List(t.Context())
	g.Expect(err).To(HaveOccurred(), "it is closed")
}

// The name of an uncompressed snapshot begins that of a compressed one, which keeps its signature.
func TestDeleteLeavesTheSignaturesOfOthers(t *testing.T) {
	g := NewWithT(t)
	s := inMemory(memblob.OpenBucket(nil), "a/b", signaturetest.Keys(t))
	plain, compressed := full(1), full(1)
	compressed.Compression = backup.Gzip
	for _, snapshot := range []backup.Snapshot{plain, compressed} {
		_, err := s.Write(t.Context(), snapshot, content)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(s.Delete(t.Context(), plain)).To(Succeed())
	g.Expect(s.Trusted(t.Context(), time.Time{})).To(HaveExactElements(HaveField("Compression", backup.Gzip)))
}

// A bucket that locks a leftover does not keep a hold from ending.
func TestHoldsEndBesideALockedLeftover(t *testing.T) {
	g := NewWithT(t)
	b := newBucketServer(t)
	config := b.config(t)
	config.SigningKeys = signaturetest.Keys(t)
	s := opened(t, config)
	for _, revision := range []int64{1, 2} {
		_, err := s.Write(t.Context(), full(revision), content)
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err := s.Hold(t.Context(), full(1).Name(), 0, full(1).Created)
	g.Expect(err).NotTo(HaveOccurred())
	delete(b.objects, "a/b/v2/"+full(2).Name()) // its signature is a leftover
	b.locks = func(key string) bool { return strings.Contains(key, "/signatures/") }
	g.Expect(s.Sweep(t.Context(), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))).To(MatchError(ContainSubstring("403")))
	g.Expect(s.List(t.Context())).To(HaveExactElements(HaveField("Kept", false)))
}

// What cannot be removed is one error, whatever its number. Once the time is over nothing more is tried, and holds, which keep snapshots, were removed first.
func TestSweepSaysHowManyAreLeft(t *testing.T) {
	g := NewWithT(t)
	b := newBucketServer(t)
	for i := range int64(5) {
		digest := strings.Repeat("a", 64)
		b.objects["a/b/signatures/"+signature.Name(backup.Reference{Name: full(i).Name(), SHA256: digest})] = nil
	}
	b.objects["a/b/kept/"+holdPrefix+backup.Hold{Since: full(1).Created, Base: full(1)}.String()] = nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var removals []string
	b.locks = func(key string) bool {
		removals = append(removals, key)
		if len(removals) == 3 {
			cancel()
		}
		return strings.Contains(key, "/signatures/")
	}
	later := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	first := "removing sig." + full(0).Name()
	g.Expect(opened(t, b.config(t)).Sweep(ctx, later)).To(MatchError(And(HavePrefix("5 of 6 are left; the first: "+first), Not(ContainSubstring(full(1).Name())))))
	g.Expect(removals).To(HaveLen(3))
	g.Expect(removals[0]).To(ContainSubstring("/kept/"))
	g.Expect(opened(t, b.config(t)).Sweep(t.Context(), later)).To(MatchError(And(HavePrefix("5 of 5 are left; the first: "+first), Not(ContainSubstring(full(1).Name())))))
}

// The error of a removal says whether the object of the snapshot was refused, or a signature; a list that fails is neither.
func TestWhatOfASnapshotIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		locks  string
		refuse int
		of     string
	}{
		"its object":    {locks: "/v2/", of: full(1).Name()},
		"its signature": {locks: "/signatures/", of: "sig." + full(1).Name()},
		"a list":        {refuse: 1},
		"another list":  {refuse: 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBucketServer(t)
			config := b.config(t)
			config.SigningKeys = signaturetest.Keys(t)
			s := opened(t, config)
			_, err := s.Write(t.Context(), full(1), content)
			g.Expect(err).NotTo(HaveOccurred())
			b.requests, b.refuse = 0, c.refuse
			b.locks = func(key string) bool { return c.locks != "" && strings.Contains(key, c.locks) }
			err = s.Delete(t.Context(), full(1))
			g.Expect(err).To(MatchError(ContainSubstring("403")))
			failed, ok := errors.AsType[*RemovalError](err)
			g.Expect(ok).To(Equal(c.of != ""))
			if ok {
				g.Expect(failed.Name).To(HavePrefix(c.of))
				g.Expect(failed.Refused()).To(BeTrue())
			}
		})
	}
}

// A hold ends with its time, and is removed then; what was marked as kept stays, and so does what is no hold.
func TestHoldsEnd(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for i := range int64(3) {
		database(g, t, s, full(i+1))
		_, err := s.Hold(t.Context(), full(i+1).Name(), 0, noon.Add(time.Duration(i)*time.Hour))
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err := s.Keep(t.Context(), full(1).Name())
	g.Expect(err).NotTo(HaveOccurred())
	folder := filepath.Join(filepath.Dir(dir), keptFolder)
	g.Expect(os.WriteFile(filepath.Join(folder, holdPrefix+"note"), nil, 0o600)).To(Succeed())
	kept := func() (all []bool) {
		list, err := s.List(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		for _, s := range list {
			all = append(all, s.Kept)
		}
		return all
	}
	g.Expect(s.Sweep(t.Context(), noon)).To(Succeed())
	g.Expect(os.ReadDir(folder)).To(HaveLen(5), "none was before noon")
	left := filepath.Join(folder, unfinished+"1")
	g.Expect(os.WriteFile(left, nil, 0o600)).To(Succeed(), "a process that died while it wrote")
	g.Expect(os.Chtimes(left, noon, noon)).To(Succeed())
	g.Expect(s.Sweep(t.Context(), noon.Add(2*time.Hour))).To(Succeed())
	g.Expect(os.ReadDir(folder)).To(HaveLen(3))
	g.Expect(kept()).To(Equal([]bool{true, false, true}))

	_, err = s.Hold(t.Context(), full(9).Name(), 0, noon)
	g.Expect(err).To(MatchError(ContainSubstring("does not have what is to be restored any more")))
	g.Expect(os.RemoveAll(folder)).To(Succeed())
	inItsPlace := filepath.Join(folder, holdPrefix+backup.Hold{Since: noon, Base: full(1)}.String())
	g.Expect(os.MkdirAll(filepath.Join(inItsPlace, "folder"), 0o700)).To(Succeed())
	_, err = s.Hold(t.Context(), full(1).Name(), 0, noon)
	g.Expect(err).To(MatchError(HavePrefix("holding snapshot " + full(1).Name())))
	g.Expect(os.RemoveAll(folder)).To(Succeed())
	g.Expect(os.WriteFile(folder, nil, 0o600)).To(Succeed(), "a file in place of the folder")
	_, err = s.Hold(t.Context(), full(1).Name(), 0, noon)
	g.Expect(err).To(MatchError(HavePrefix("listing the store: ")), "what is kept is not known")
}

// What Azure and Google answer is told like what S3 answers.
func TestOtherStoresThatRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		provider, code string
		keys           map[string]string
		status         int
		says           string
	}{
		"Azure, no right":      {ABS, "AuthorizationFailure", map[string]string{"storageAccount": "a", "storageKey": "c2VjcmV0", "domain": "HOST"}, 403, "answered 403 AuthorizationFailure: check the credentials"},
		"Azure, no container":  {ABS, "ContainerNotFound", map[string]string{"storageAccount": "a", "storageKey": "c2VjcmV0", "domain": "HOST"}, 404, "answered 404 ContainerNotFound: create the container"},
		"Google, no right":     {GCS, "", map[string]string{"emulatorEnabled": "true", "storageAPIEndpoint": "HOST/storage/v1/"}, 403, "answered 403: check the credentials"},
		"Google, no container": {GCS, "", map[string]string{"emulatorEnabled": "true", "storageAPIEndpoint": "HOST/storage/v1/"}, 404, "answered 404: create the container"},
		"another error":        {GCS, "", map[string]string{"emulatorEnabled": "true", "storageAPIEndpoint": "HOST/storage/v1/"}, 400, "listing the store: "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Ms-Error-Code", c.code)
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			keys := map[string]string{}
			for name, value := range c.keys {
				keys[name] = strings.ReplaceAll(value, "HOST", server.URL)
			}
			_, err := opened(t, Config{Provider: c.provider, Container: "bucket", Prefix: "a/b", Credentials: secret(t, keys)}).List(t.Context())
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			refused, ok := errors.AsType[*RefusedError](err)
			g.Expect(ok).To(Equal(c.status != http.StatusBadRequest))
			if ok {
				g.Expect(refused.Status).To(Equal(c.status))
				g.Expect(errors.Unwrap(refused)).NotTo(BeNil(), "its cause can be examined")
			}
		})
	}
}

// Google's client takes an object that may not be read or removed for one that is missing. It is neither removed nor unsigned.
func TestWhatGoogleForbidsIsNotMissing(t *testing.T) {
	g := NewWithT(t)
	status := http.StatusForbidden
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/storage/v1/b/bucket/o" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
			return
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	s := opened(t, Config{
		Provider: GCS, Container: "bucket", Prefix: "a/b", SigningKeys: signaturetest.Keys(t),
		Credentials: secret(t, map[string]string{"emulatorEnabled": "true", "storageAPIEndpoint": server.URL + "/storage/v1/"}),
	})
	keys, err := s.signatures.trustedKeys()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Delete(t.Context(), full(1))).To(MatchError(ContainSubstring("removing " + full(1).Name())))
	_, why, err := s.signatures.verify(t.Context(), keys, "name")
	g.Expect(why).To(BeEmpty())
	g.Expect(err).To(MatchError(HavePrefix("reading the signature name: ")))
	status = http.StatusNotFound
	g.Expect(s.Delete(t.Context(), full(1))).To(Succeed())
	_, why, err = s.signatures.verify(t.Context(), keys, "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(why).To(Equal(unsigned))
}

// Without a Secret, the pod has the identity that the cloud gives it.
func TestIdentityOfThePod(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_ACCESS_KEY_ID", "of-the-pod")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	g := NewWithT(t)
	config := Config{Provider: S3, Container: "bucket", Prefix: "a/b"}
	_, err := Open(t.Context(), config)
	g.Expect(err).To(MatchError(ContainSubstring("there is neither a Secret nor AWS_REGION")))
	t.Setenv("AWS_REGION", "eu")
	var client *s3.Client
	bucket, err := opened(t, config).objects.open(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bucket.As(&client)).To(BeTrue())
	g.Expect(client.Options().Region).To(Equal("eu"))
	found, err := client.Options().Credentials.Retrieve(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.AccessKeyID).To(Equal("of-the-pod"))
	t.Setenv("AWS_MAX_ATTEMPTS", "many")
	_, err = Open(t.Context(), config)
	g.Expect(err).To(MatchError(ContainSubstring("finding the identity of the pod: ")))

	config.Provider = GCS
	file := filepath.Join(t.TempDir(), "account.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	_, err = Open(t.Context(), config)
	g.Expect(err).To(MatchError(ContainSubstring("finding the identity of the pod: ")))
	g.Expect(os.WriteFile(file, []byte(workloadIdentityOfThePod), 0o600)).To(Succeed())
	_, err = Open(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
}

const workloadIdentityOfThePod = `{"type":"external_account","audience":"//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"file":"/token"}}`

// What a store cannot be opened with is named.
func TestConfigurationsThatAreRefused(t *testing.T) {
	folder := credentialsDir(t, nil)
	NewWithT(t).Expect(os.Mkdir(filepath.Join(folder, "accessKeyID"), 0o700)).To(Succeed())
	none := filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"no container":             {Config{Provider: S3}, "the container is missing"},
		"no credentials":           {Config{Provider: S3, Container: "bucket", Credentials: none}, "reading the credentials of the store: "},
		"unreadable credentials":   {Config{Provider: S3, Container: "bucket", Credentials: folder}, "reading the credentials: "},
		"credentials are a file":   {Config{Provider: S3, Container: "bucket", Credentials: "/dev/null"}, "reading the credentials"},
		"a prefix that leads away": {Config{Provider: Local, Container: t.TempDir(), Prefix: "../a"}, "opening the store: "},
		"no signing keys":          {Config{Provider: Local, Container: t.TempDir(), Prefix: "a", SigningKeys: none}, "reading the signing keys: "},
		"empty signing keys":       {Config{Provider: Local, Container: t.TempDir(), Prefix: "a", SigningKeys: t.TempDir()}, "sign"},
		"Azure without an account": {Config{Provider: ABS, Container: "bucket", Credentials: credentialsDir(t, nil)}, "lack storageAccount, storageKey"},
		"Alibaba without endpoint": {Config{Provider: S3, Container: "bucket", Credentials: credentialsDir(t, map[string]string{"accessKeyID": "a", "accessKeySecret": "s"})}, "lack storageEndpoint"},
	} {
		g := NewWithT(t)
		s, err := Open(t.Context(), c.config)
		g.Expect(err).To(MatchError(ContainSubstring(c.says)), name)
		g.Expect(s).To(BeNil(), name)
	}
	for from, to := range map[string]string{
		"urn:ietf:params:oauth:token-type:jwt": "subject_token_type", `"audience"`: "universe_domain",
	} {
		g := NewWithT(t)
		changed := strings.Replace(workloadIdentity, from, "urn:x", 1)
		if to == "universe_domain" {
			changed = strings.Replace(workloadIdentity, from, `"universe_domain":"example.com","audience"`, 1)
		}
		_, err := externalAccount([]byte(changed), "/token")
		g.Expect(err).To(MatchError(ContainSubstring(to + " of the workload identity must be ")))
	}
	account, err := externalAccount([]byte(strings.Replace(workloadIdentity, `"audience"`, `"universe_domain":"googleapis.com","audience"`, 1)), "/token")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(account).NotTo(BeEmpty())
}

// A piece that does not suit the filesystem's direct writes is still written.
func TestDirectWritesOfAnyLength(t *testing.T) {
	g := NewWithT(t)
	name := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(name)
	g.Expect(err).NotTo(HaveOccurred())
	w := newDirectWriter(file)
	w.bypass(true)
	g.Expect(w.write([]byte("any length"))).To(Succeed())
	g.Expect(file.Close()).To(Succeed())
	g.Expect(os.ReadFile(name)).To(BeEquivalentTo("any length"))
	w.bypass(true) // of a closed file, which nothing can be done about
}

// An encrypted object is complete, or there is none: what cannot be written or encrypted to its end is an error.
func TestEncryptedWritesThatFail(t *testing.T) {
	g := NewWithT(t)
	s := opened(t, sealed(t))
	failed := errors.New("etcd has ended")
	_, err := s.Write(t.Context(), full(1), func(w io.Writer) error { return errors.Join(content(w), failed) })
	g.Expect(err).To(MatchError(failed))
	g.Expect(s.List(t.Context())).To(BeEmpty())
	write := s.encrypting(full(1), content)
	g.Expect(write(brokenWriter{})).To(MatchError(io.ErrClosedPipe))
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
