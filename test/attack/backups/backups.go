// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package backups attacks agents, metrics and buckets.
package backups

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/test/attack/engine"
	"github.com/etcd-foreman/etcd-foreman/test/attack/scene"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// backedUp is the Etcd with backups, in its volume of that name.
const (
	backedUp = "main"
	store    = "backups"
)

const neighbor = "any pod of the cluster, without an account"

// Attacks share an Etcd that the first one makes.
var Attacks = []engine.Attack{
	{Item: 20, What: "request seven full snapshots of an agent, by GET and POST", By: neighbor, Want: "401 or 405; no snapshot is taken or removed", Try: requestSnapshots},
	{Item: 24, What: "read the metrics of an agent", By: neighbor, Want: "401 or 403", Try: readAgentMetrics},
	{Item: 24, What: "read the metrics of the operator, by HTTP and HTTPS", By: neighbor, Want: "none", Try: readOperatorMetrics},
	{Item: 22, What: "copy over the Etcd's own live backups", By: scene.Dangerous, Want: "Rejected", Try: copyOverLive},
	{Item: 22, What: "copy to a store that nobody named", By: scene.Dangerous, Want: "Rejected", Try: copyElsewhere},
	{Item: 23, What: "put a delta into the bucket that decompresses to 1 GiB, and have it restored", By: "writer of the bucket, and " + scene.Operate, Want: "the Job fails, in bounds, and names the object", Try: bomb},
	{Item: 26, What: "name a task so that the name of its Job is cut at a dot", By: scene.Operate, Want: "the task ends", Try: cutAtDot},
}

// setUp creates the Etcd with backups, and waits for its first full snapshot.
func setUp(ctx context.Context, t *scene.Tenant) error {
	a := t.As(scene.Author)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: store}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if err := t.Admin.Create(ctx, claim); err != nil {
		return fmt.Errorf("creating the volume for backups: %w", err)
	}
	etcd := t.Etcd(backedUp, scene.Fields{"backup": scene.Fields{
		"store":                   scene.Fields{"provider": "Local", "container": store},
		"garbageCollectionPolicy": "LimitBased", "maxBackupsLimitBasedGC": int64(2), "garbageCollectionPeriod": "5s",
	}})
	if err := a.Create(ctx, etcd); err != nil {
		return fmt.Errorf("creating an Etcd: %w", err)
	}
	if err := t.AwaitReady(ctx, etcd); err != nil {
		return err
	}
	return scene.Until(ctx, scene.Patience, func(ctx context.Context) (bool, error) {
		found, err := snapshots(ctx, t)
		return len(found) > 0, err
	})
}

// folderOf is where the volume for backups is on this machine.
func folderOf(ctx context.Context, t *scene.Tenant) (string, error) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: store}}
	if err := t.Refresh(ctx, claim); err != nil {
		return "", fmt.Errorf("reading the claim for backups: %w", err)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	if err := t.Refresh(ctx, volume); err != nil {
		return "", fmt.Errorf("reading the volume for backups: %w", err)
	}
	switch {
	case volume.Spec.HostPath != nil:
		return volume.Spec.HostPath.Path, nil
	case volume.Spec.Local != nil:
		return volume.Spec.Local.Path, nil
	}
	return "", fmt.Errorf("volume %s is not a folder of this machine", volume.Name)
}

// snapshots returns the files of the snapshots.
func snapshots(ctx context.Context, t *scene.Tenant) ([]string, error) {
	folder, err := folderOf(ctx, t)
	if err != nil {
		return nil, err
	}
	var files []string
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			// What is being written has another name.
			if _, err := backup.ParseName(d.Name()); err == nil {
				files = append(files, path)
			}
		}
		return scene.Ignore(err, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	})
	return slices.Sorted(slices.Values(files)), err
}

func addressOf(ctx context.Context, t *scene.Tenant) (string, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: backedUp + "-0"}}
	err := t.Refresh(ctx, pod)
	return pod.Status.PodIP, err
}

// request makes a request without credentials, and returns the status code, or the error.
func request(ctx context.Context, method, url string) (int, string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	response, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return response.StatusCode, err.Error()
	}
	return response.StatusCode, string(body)
}

func requestSnapshots(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	if err := setUp(ctx, t); err != nil {
		return engine.Finding{}, err
	}
	before, err := snapshots(ctx, t)
	if err != nil {
		return engine.Finding{}, err
	}
	address, err := addressOf(ctx, t)
	if err != nil {
		return engine.Finding{}, err
	}
	codes := map[int]int{}
	for range 7 {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			code, _ := request(ctx, method, "http://"+address+":8080/snapshot/full")
			codes[code]++
		}
	}
	var after []string
	// The retention runs every five seconds.
	_, err = scene.Within(ctx, 10*time.Second, func(ctx context.Context) (bool, error) {
		found, err := snapshots(ctx, t)
		if err != nil {
			return false, err // when the time is over, too
		}
		after = found
		return !slices.Contains(after, before[0]), nil
	})
	if err != nil {
		return engine.Finding{}, err
	}
	removed := 0
	for _, file := range before {
		if !slices.Contains(after, file) {
			removed++
		}
	}
	taken := len(after) + removed - len(before)
	return engine.Found(
		fmt.Sprintf("status codes %v; at least %d snapshots taken, %d of %d older ones removed", codes, taken, removed, len(before)),
		codes[http.StatusOK] == 0 && codes[0] == 0 && taken == 0 && removed == 0,
	), nil
}

func readAgentMetrics(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	address, err := addressOf(ctx, t)
	if err != nil {
		return engine.Finding{}, err
	}
	code, body := request(ctx, http.MethodGet, "http://"+address+":8080/metrics")
	return engine.Found(fmt.Sprintf("status code %d, %d bytes", code, len(body)), code == http.StatusUnauthorized || code == http.StatusForbidden), nil
}

func readOperatorMetrics(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	pods := &corev1.PodList{}
	if err := t.Admin.List(ctx, pods, client.InNamespace("etcd-foreman-system"), client.MatchingLabels{"app.kubernetes.io/name": "etcd-foreman"}); err != nil {
		return engine.Finding{}, err
	}
	if len(pods.Items) == 0 {
		return engine.Finding{}, errors.New("there is no pod of the operator")
	}
	var said []string
	ok := true
	for _, p := range pods.Items {
		for _, scheme := range []string{"http", "https"} {
			code, body := request(ctx, http.MethodGet, scheme+"://"+p.Status.PodIP+":8080/metrics")
			read := strings.Contains(body, "# TYPE ")
			ok = ok && !read
			said = append(said, fmt.Sprintf("%s: status code %d, metrics read: %t", scheme, code, read))
		}
	}
	return engine.Found(strings.Join(slices.Compact(slices.Sorted(slices.Values(said))), "; "), ok), nil
}

func copyTask(ctx context.Context, t *scene.Tenant, name string, source, target scene.Fields) (engine.Finding, error) {
	c := t.As(scene.Dangerous)
	config, err := (&unstructured.Unstructured{Object: scene.Fields{"apiVersion": "v1", "kind": "x", "sourceStore": source, "targetStore": target}}).MarshalJSON()
	if err != nil {
		return engine.Finding{}, err
	}
	text := strings.NewReplacer(`"apiVersion":"v1",`, "", `"kind":"x",`, "").Replace(strings.TrimSpace(string(config)))
	task := t.Task(name, "CopyBackups", backedUp, scene.Fields{"config": text})
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.End(ctx, task, scene.Patience)
	return engine.Found(said, over && scene.State(task) == "Rejected"), err
}

func volume(container, prefix string) scene.Fields {
	return scene.Fields{"provider": "Local", "container": container, "prefix": prefix}
}

func copyOverLive(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	own := t.Namespace + "/" + backedUp
	return copyTask(ctx, t, "over", volume(store, own+"-other"), volume(store, own))
}

func copyElsewhere(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	return copyTask(ctx, t, "elsewhere", volume(store, t.Namespace+"/"+backedUp), volume("another", "loot"))
}

// bomb writes a delta that follows the newest snapshot.
func bomb(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	files, err := snapshots(ctx, t)
	if err != nil {
		return engine.Finding{}, err
	}
	newest := files[len(files)-1]
	var first, last, created int64
	if _, err := fmt.Sscanf(filepath.Base(newest), "Full-%d-%d-%d", &first, &last, &created); err != nil {
		return engine.Finding{}, fmt.Errorf("reading the name of %s: %w", newest, err)
	}
	file := filepath.Join(filepath.Dir(newest), fmt.Sprintf("Incr-%08d-%08d-%d.gz", last+1, last+1, created+1))
	size, err := writeBomb(file)
	if err != nil {
		return engine.Finding{}, fmt.Errorf("writing a delta: %w", err)
	}
	defer func() { _ = os.Remove(file) }()
	task := t.Task("bomb", "OnDemandCompaction", backedUp, nil)
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	limits := "none"
	jobs := &batchv1.JobList{}
	over, err := scene.Within(ctx, scene.Patience, func(ctx context.Context) (bool, error) {
		if err := t.Admin.List(ctx, jobs, client.InNamespace(t.Namespace)); err != nil {
			return false, err
		}
		for _, j := range jobs.Items {
			if l := j.Spec.Template.Spec.Containers[0].Resources.Limits; len(l) > 0 {
				limits = fmt.Sprintf("memory %s, disk %s", l.Memory(), l.StorageEphemeral())
			}
		}
		err := t.Refresh(ctx, task)
		return scene.Ended(task), err
	})
	if err != nil {
		return engine.Finding{}, err
	}
	code, description := scene.LastError(task)
	return engine.Found(
		fmt.Sprintf("a delta of %d bytes: %s, %s: %s; limits of the Job: %s", size, scene.State(task), code, description, limits),
		over && scene.State(task) == "Failed" && strings.Contains(description, filepath.Base(file)) && strings.Contains(description, "more than") && limits != "none",
	), nil
}

func writeBomb(file string) (int64, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	z := gzip.NewWriter(f)
	for zeros, n := make([]byte, 1<<20), 0; n < 1<<10; n++ {
		if _, err := z.Write(zeros); err != nil {
			return 0, err
		}
	}
	if err := z.Close(); err != nil {
		return 0, err
	}
	if err := f.Chmod(0o644); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func cutAtDot(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	task := t.Task(strings.Repeat("a", 49)+".b", "OnDemandCompaction", backedUp, nil)
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.End(ctx, task, time.Minute)
	return engine.Found(said, over), err
}
