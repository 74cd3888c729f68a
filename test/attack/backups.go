// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

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

// They share an Etcd that the first one makes.
var backupAttacks = []attack{
	{20, "request seven full snapshots of an agent, by GET and POST", neighbor, "401 or 405; no snapshot is taken or removed", requestSnapshots},
	{24, "read the metrics of an agent", neighbor, "401 or 403", readAgentMetrics},
	{24, "read the metrics of the operator, by HTTP and HTTPS", neighbor, "none", readOperatorMetrics},
	{22, "copy over the Etcd's own live backups", dangerous, "Rejected", copyOverLive},
	{22, "copy to a store that nobody named", dangerous, "Rejected", copyElsewhere},
	{23, "put a delta into the bucket that decompresses to 1 GiB, and have it restored", "writer of the bucket, and " + operate, "the Job fails, in bounds, and names the object", bomb},
	{26, "name a task so that the name of its Job is cut at a dot", operate, "the task ends", cutAtDot},
}

// backups creates the Etcd with backups, and waits for its first full snapshot.
func (t *tenant) backups(ctx context.Context) error {
	a, err := t.as(ctx, author)
	if err != nil {
		return err
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: store}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if err := t.admin.Create(ctx, claim); err != nil {
		return fmt.Errorf("creating the volume for backups: %w", err)
	}
	etcd := t.etcd(backedUp, fields{"backup": fields{
		"store":                   fields{"provider": "Local", "container": store},
		"garbageCollectionPolicy": "LimitBased", "maxBackupsLimitBasedGC": int64(2), "garbageCollectionPeriod": "5s",
	}})
	if err := a.Create(ctx, etcd); err != nil {
		return fmt.Errorf("creating an Etcd: %w", err)
	}
	if err := t.awaitReady(ctx, etcd); err != nil {
		return err
	}
	return until(ctx, patience, func(ctx context.Context) (bool, error) {
		found, err := t.snapshots(ctx)
		return len(found) > 0, err
	})
}

// folder is where the volume for backups is on this machine.
func (t *tenant) folder(ctx context.Context) (string, error) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: store}}
	if err := t.refresh(ctx, claim); err != nil {
		return "", fmt.Errorf("reading the claim for backups: %w", err)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	if err := t.refresh(ctx, volume); err != nil {
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
func (t *tenant) snapshots(ctx context.Context) ([]string, error) {
	folder, err := t.folder(ctx)
	if err != nil {
		return nil, err
	}
	var files []string
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.HasPrefix(d.Name(), "Full-") || strings.HasPrefix(d.Name(), "Incr-")) {
			files = append(files, path)
		}
		return ignore(err, func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	})
	return sorted(files), err
}

func (t *tenant) address(ctx context.Context) (string, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: backedUp + "-0"}}
	err := t.refresh(ctx, pod)
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

func requestSnapshots(ctx context.Context, t *tenant) (finding, error) {
	if err := t.backups(ctx); err != nil {
		return finding{}, err
	}
	before, err := t.snapshots(ctx)
	if err != nil {
		return finding{}, err
	}
	address, err := t.address(ctx)
	if err != nil {
		return finding{}, err
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
	_, err = within(ctx, 10*time.Second, func(ctx context.Context) (bool, error) {
		after, err = t.snapshots(ctx)
		return !slices.Contains(after, before[0]), err
	})
	if err != nil {
		return finding{}, err
	}
	removed := 0
	for _, file := range before {
		if !slices.Contains(after, file) {
			removed++
		}
	}
	taken := len(after) + removed - len(before)
	return finding{
		fmt.Sprintf("status codes %v; at least %d snapshots taken, %d of %d older ones removed", codes, taken, removed, len(before)),
		codes[http.StatusOK] == 0 && codes[0] == 0 && taken == 0 && removed == 0,
	}, nil
}

func readAgentMetrics(ctx context.Context, t *tenant) (finding, error) {
	address, err := t.address(ctx)
	if err != nil {
		return finding{}, err
	}
	code, body := request(ctx, http.MethodGet, "http://"+address+":8080/metrics")
	return finding{fmt.Sprintf("status code %d, %d bytes", code, len(body)), code == http.StatusUnauthorized || code == http.StatusForbidden}, nil
}

func readOperatorMetrics(ctx context.Context, t *tenant) (finding, error) {
	pods := &corev1.PodList{}
	if err := t.admin.List(ctx, pods, client.InNamespace("etcd-foreman-system"), client.MatchingLabels{"app.kubernetes.io/name": "etcd-foreman"}); err != nil {
		return finding{}, err
	}
	if len(pods.Items) == 0 {
		return finding{}, errors.New("there is no pod of the operator")
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
	return finding{strings.Join(slices.Compact(sorted(said)), "; "), ok}, nil
}

func (t *tenant) copyTask(ctx context.Context, name string, source, target fields) (finding, error) {
	c, err := t.as(ctx, dangerous)
	if err != nil {
		return finding{}, err
	}
	config, err := (&unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "x", "sourceStore": source, "targetStore": target}}).MarshalJSON()
	if err != nil {
		return finding{}, err
	}
	text := strings.NewReplacer(`"apiVersion":"v1",`, "", `"kind":"x",`, "").Replace(strings.TrimSpace(string(config)))
	task := t.task(name, "CopyBackups", backedUp, fields{"config": text})
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.end(ctx, task, patience)
	return finding{said, over && state(task) == "Rejected"}, err
}

func (t *tenant) volume(container, prefix string) fields {
	return fields{"provider": "Local", "container": container, "prefix": prefix}
}

func copyOverLive(ctx context.Context, t *tenant) (finding, error) {
	own := t.namespace + "/" + backedUp
	return t.copyTask(ctx, "over", t.volume(store, own+"-other"), t.volume(store, own))
}

func copyElsewhere(ctx context.Context, t *tenant) (finding, error) {
	return t.copyTask(ctx, "elsewhere", t.volume(store, t.namespace+"/"+backedUp), t.volume("another", "loot"))
}

// bomb writes a delta that follows the newest snapshot.
func bomb(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	files, err := t.snapshots(ctx)
	if err != nil {
		return finding{}, err
	}
	newest := files[len(files)-1]
	var first, last, created int64
	if _, err := fmt.Sscanf(filepath.Base(newest), "Full-%d-%d-%d", &first, &last, &created); err != nil {
		return finding{}, fmt.Errorf("reading the name of %s: %w", newest, err)
	}
	file := filepath.Join(filepath.Dir(newest), fmt.Sprintf("Incr-%08d-%08d-%d.gz", last+1, last+1, created+1))
	size, err := writeBomb(file)
	if err != nil {
		return finding{}, fmt.Errorf("writing a delta: %w", err)
	}
	defer func() { _ = os.Remove(file) }()
	task := t.task("bomb", "OnDemandCompaction", backedUp, nil)
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	limits := "none"
	jobs := &batchv1.JobList{}
	over, err := within(ctx, patience, func(ctx context.Context) (bool, error) {
		if err := t.admin.List(ctx, jobs, client.InNamespace(t.namespace)); err != nil {
			return false, err
		}
		for _, j := range jobs.Items {
			if l := j.Spec.Template.Spec.Containers[0].Resources.Limits; len(l) > 0 {
				limits = fmt.Sprintf("memory %s, disk %s", l.Memory(), l.StorageEphemeral())
			}
		}
		err := t.refresh(ctx, task)
		return ended(task), err
	})
	if err != nil {
		return finding{}, err
	}
	code, description := lastError(task)
	return finding{
		fmt.Sprintf("a delta of %d bytes: %s, %s: %s; limits of the Job: %s", size, state(task), code, description, limits),
		over && state(task) == "Failed" && strings.Contains(description, filepath.Base(file)) && strings.Contains(description, "more than") && limits != "none",
	}, nil
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

func cutAtDot(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	task := t.task(strings.Repeat("a", 49)+".b", "OnDemandCompaction", backedUp, nil)
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.end(ctx, task, time.Minute)
	return finding{said, over}, err
}
