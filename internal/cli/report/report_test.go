// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// planted is the secret that no report may have; pem is a private key around it.
const (
	planted = "hunter2Hunter2"
	pem     = "-----BEGIN EC PRIVATE KEY-----\n" + planted + "\n-----END EC PRIVATE KEY-----\n"
)

func spec() corev1.PodSpec {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Auth", Value: planted}}}}}
	return corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: OperatorName, Image: "registry.example:5000/foreman:v0.1.0@sha256:abc", LivenessProbe: probe,
			Env:     []corev1.EnvVar{{Name: "ANYTHING", Value: planted}, {Name: "GOMEMLIMIT", Value: "900MiB"}},
			Command: []string{"run", "--db", "postgres://user:" + planted + "@db:5432/x"},
			Args:    []string{"--password=" + planted, "--auth-token", planted, "--config=/etc/config.yaml", "sh -c 'TOKEN=" + planted + " run'"},
		}},
		InitContainers: []corev1.Container{{Name: "prepare", Env: []corev1.EnvVar{{Name: "X", Value: planted}}}},
		Volumes: []corev1.Volume{
			{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "etcd-ca"}}},
			{Name: "csi", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{"accountKey": planted}}}},
		},
	}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "demo", Name: name, Labels: map[string]string{v1alpha1.LabelPartOf: "etcd-main", v1alpha1.LabelName: OperatorName},
		Annotations: map[string]string{
			lastApplied: `{"env":[{"name":"X","value":"` + planted + `"}]}`, "example.com/password": planted,
			"example.com/note": "see https://me:" + planted + "@example.com, or " + pem,
		},
	}
}

// world returns objects with the planted secret in every place where one may be.
func world() []client.Object {
	template := corev1.PodTemplateSpec{ObjectMeta: meta(""), Spec: spec()}
	pod := &corev1.Pod{ObjectMeta: meta("etcd-main-0"), Spec: spec()}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: OperatorName, RestartCount: 1, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "panic: token=" + planted}}},
	}
	task := clitest.Task("a", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateFailed, 60)
	task.Annotations = meta("").Annotations
	task.Spec.Config = "restart: true\npassword: " + planted + "\nsecretRef:\n  name: kept\n"
	task.Status.LastErrors = []v1alpha1.LastError{{Description: "GET https://store?X-Amz-Signature=" + planted + "&x=1: Authorization: Bearer " + planted}}
	other := clitest.Task("b", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStateFailed, 60)
	other.Spec.OwnerEtcdReference.Name = "other"
	raw := `{"spec":{"template":{"spec":{"containers":[{"name":"etcd","env":[{"name":"X","value":"` + planted + `"}]}]}}}}`
	event := func(name, about string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, InvolvedObject: corev1.ObjectReference{Name: about},
			Message: `secret "etcd-ca" not found; {"token":"` + planted + `"}`,
		}
	}
	return []client.Object{
		&v1alpha1.Etcd{ObjectMeta: meta("etcd-main")}, task, other, pod,
		&appsv1.StatefulSet{ObjectMeta: meta("etcd-main"), Spec: appsv1.StatefulSetSpec{Template: template}},
		&appsv1.ControllerRevision{ObjectMeta: meta("etcd-main-1"), Data: runtime.RawExtension{Raw: []byte(raw)}},
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("data-etcd-main-0")},
		&corev1.Secret{ObjectMeta: meta("etcd-ca"), Data: map[string][]byte{"tls.key": []byte(planted)}, StringData: map[string]string{"x": planted}},
		&corev1.ConfigMap{ObjectMeta: meta("etcd-main-config"), Data: map[string]string{"x": planted}},
		event("one", "etcd-main-0"), event("two", "other"),
	}
}

// readLogs returns a log as a kubelet does: it begins with the last lines that are asked for, and ends after the limit, if there is one.
func readLogs(_ context.Context, _ client.ObjectKey, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	if options.Previous {
		return nil, errors.New("previous terminated container not found")
	}
	noise := strings.Repeat(strings.Repeat("x", 511)+"\n", 2*maxLines)
	secrets := fmt.Sprintf("{\"msg\":\"started\",\"password\":\"%[1]s\"}\npassword: '%[1]s x'\nerr=\"{\\\"secretKey\\\":\\\"%[1]s\\\"}\"\nAKIA%[2]s\nauthorization: Basic %[3]s\n%[4]s\nkept\n",
		planted, strings.ToUpper(planted), base64.StdEncoding.EncodeToString([]byte(planted)), pem)
	lines := strings.SplitAfter(noise+secrets+"the last line\n", "\n")
	lines = lines[:len(lines)-1]
	if n := options.TailLines; n != nil && int64(len(lines)) > *n {
		lines = lines[int64(len(lines))-*n:]
	}
	log := strings.Join(lines, "")
	if n := options.LimitBytes; n != nil && int64(len(log)) > *n {
		log = log[:*n]
	}
	return io.NopCloser(strings.NewReader(log)), nil
}

// collected returns the files of a report by their names, as they are in the archive, and all that is in it.
func collected(t *testing.T, funcs interceptor.Funcs) (map[string]string, string) {
	t.Helper()
	byEtcd := func(o client.Object) []string {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := unstructured.NestedString(content, "spec", "ownerEtcdReference", "name")
		return []string{name}
	}
	reader := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(world()...).WithInterceptorFuncs(funcs).
		WithIndex(&v1alpha1.EtcdOperatorTask{}, "spec.ownerEtcdReference.name", byEtcd).Build()
	c := &collector{cluster: reader, logs: readLogs, etcd: client.ObjectKey{Namespace: "demo", Name: "etcd-main"}}
	c.collect(t.Context(), Versions{Client: Plugin{Version: "v0.1.0"}})
	c.finish()
	var out bytes.Buffer
	if err := archive(&out, "report", c.files, clitest.Now); err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for entries := tar.NewReader(bytes.NewReader(raw)); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files, string(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "report/")] = string(data)
	}
}

// A secret is in every place where one may be, and nowhere in the report.
func TestNoSecretIsInAReport(t *testing.T) {
	files, raw := collected(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if into.GetObjectKind().GroupVersionKind().Kind == "Secret" {
				t.Error("a Secret is read")
			}
			return c.Get(ctx, key, into, options...)
		},
	})
	for name, data := range files {
		for _, secret := range []string{planted, strings.ToUpper(planted), base64.StdEncoding.EncodeToString([]byte(planted))} {
			if i := strings.Index(data, secret); i >= 0 {
				t.Errorf("%s has the secret: …%s", name, data[max(0, i-60):min(len(data), i+40)])
			}
		}
	}
	if strings.Contains(raw, planted) {
		t.Error("the archive has the secret")
	}
	want := []string{
		"controllerrevisions/etcd-main-1.yaml", "etcd.yaml", "events.yaml", "logs/etcd-main-0-etcd-foreman.log", "missing.txt", "operator/etcd-main-0.yaml",
		"operator/logs/etcd-main-0-etcd-foreman.log", "persistentvolumeclaims/data-etcd-main-0.yaml", "pods/etcd-main-0.yaml", "statefulset.yaml", "tasks/a.yaml", "versions.yaml",
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files: %v", got)
	}
	for name, has := range map[string][]string{
		"pods/etcd-main-0.yaml":                {"secretName: etcd-ca", "900MiB", "registry.example:5000/foreman:v0.1.0", "name: ANYTHING", "--config=/etc/config.yaml", "postgres://REDACTED@db:5432/x"},
		"tasks/a.yaml":                         {"restart: true", "name: kept"},
		"events.yaml":                          {"name: one"},
		"controllerrevisions/etcd-main-1.yaml": {"name: X", "value: REDACTED"},
		"logs/etcd-main-0-etcd-foreman.log":    {"\nkept\n", "started", "\nthe last line\n"},
		"missing.txt": {
			"logs/etcd-main-0-etcd-foreman.previous.log: previous terminated container not found",
			"logs/etcd-main-0-etcd-foreman.log: only the newest 2.0MiB are in this report",
		},
	} {
		for _, s := range has {
			if !strings.Contains(files[name], s) {
				t.Errorf("%s lacks %q:\n%.2000s", name, s, files[name])
			}
		}
	}
	if strings.Contains(files["events.yaml"], "name: two") {
		t.Error("an event of a foreign object is in the report")
	}
	if n := len(files["logs/etcd-main-0-etcd-foreman.log"]); n > maxLog || n < maxLog-2*512 {
		t.Errorf("the log has %d bytes", n)
	}
}

// What may not be read is named, and the rest is there.
func TestAReportWithoutRights(t *testing.T) {
	forbidden := func(kind string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("not yours"))
	}
	files, _ := collected(t, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			return forbidden(into.GetObjectKind().GroupVersionKind().Kind)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if kind := into.GetObjectKind().GroupVersionKind().Kind; kind != "EtcdOperatorTaskList" {
				return forbidden(kind)
			}
			return c.List(ctx, into, options...)
		},
	})
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, []string{"missing.txt", "tasks/a.yaml", "versions.yaml"}) {
		t.Errorf("files: %v", got)
	}
	for _, part := range []string{"etcd.yaml", "statefulset.yaml", "pods", "events.yaml", "controllerrevisions", "operator"} {
		if !strings.Contains(files["missing.txt"], part+": ") {
			t.Errorf("%s is not named:\n%s", part, files["missing.txt"])
		}
	}
}

// A log may begin in the middle of a private key.
func TestTheEndOfAKeyIsNotInAReport(t *testing.T) {
	for _, s := range []string{planted + "\n-----END EC PRIVATE KEY-----\nkept\n", "2026-11-29T12:00:00.000000000Z " + planted + "==\n2026-11-29T12:00:00.000000000Z -----END EC PRIVATE KEY-----\nkept\n"} {
		if got := scrub("before\n" + s); strings.Contains(got, planted) || !strings.Contains(got, "kept\n") {
			t.Errorf("%q", got)
		}
	}
}

func TestScrubKeepsWhatIsNoSecret(t *testing.T) {
	for _, s := range []string{
		"secretRef:\n  name: etcd-backup\n", "tokens: [a]", "Secret demo/etcd-ca has no tls.key", `{"Secret":{"name":"x"}}`, "http://10.0.0.1:2379/health", "a@b", "key: tls.crt",
		"--cert-file=/etc/tls/tls.crt", "basic auth", "https://a/b@c",
	} {
		if got := scrub(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}
