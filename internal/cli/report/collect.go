// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// maxLog and maxLines limit the log of one container to its newest bytes and lines.
	maxLog   = 2 << 20
	maxLines = 5000
	// maxEvents limits the events to the newest.
	maxEvents = 1000
	// maxObjects limits the objects of a kind.
	maxObjects = 500
)

// file of a report.
type file struct {
	name string
	data []byte
}

// logs reads the log of a container or of its previous run.
type logs func(ctx context.Context, pod client.ObjectKey, options *corev1.PodLogOptions) (io.ReadCloser, error)

// collector reads the parts of a report on an Etcd.
type collector struct {
	cluster client.Reader
	logs    logs
	etcd    client.ObjectKey
	files   []file
	// missing has sentences about what could not be read.
	missing []string
}

func (c *collector) add(name string, data []byte) { c.files = append(c.files, file{name, data}) }

func (c *collector) note(what string, err error) {
	c.missing = append(c.missing, scrub(fmt.Sprintf("%s: %s", what, kube.Sentence(err))))
}

// collect reads everything. What cannot be read is noted.
func (c *collector) collect(ctx context.Context, versions Versions) {
	if raw, err := yaml.Marshal(versions); err == nil {
		c.add("versions.yaml", []byte(scrub(string(raw))))
	}
	c.missing = append(c.missing, versions.Problems...)
	here := client.InNamespace(c.etcd.Namespace)
	labeled := client.MatchingLabels{v1alpha1.LabelPartOf: c.etcd.Name}
	c.object(ctx, "etcd.yaml", v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))
	c.object(ctx, "statefulset.yaml", appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	tasks := c.list(ctx, "tasks", v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdOperatorTask), etcdtasks.Of(c.etcd))
	c.list(ctx, "controllerrevisions", appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), here, labeled)
	c.list(ctx, "leases", coordinationv1.SchemeGroupVersion.WithKind("Lease"), here, labeled)
	c.list(ctx, "persistentvolumeclaims", corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), here, labeled)
	pods := c.list(ctx, "pods", corev1.SchemeGroupVersion.WithKind("Pod"), here, labeled)
	c.events(ctx, append(slices.Clone(tasks), pods...))
	for i := range pods {
		pod := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pods[i].Object, pod); err != nil {
			c.note("logs/"+pods[i].GetName(), err)
			continue
		}
		c.logsOf(ctx, "logs", pod)
	}
	c.operator(ctx)
}

func (c *collector) operator(ctx context.Context) {
	pods, err := operatorPods(ctx, c.cluster)
	if err != nil {
		c.note("operator", err)
		return
	}
	for i := range pods {
		c.write("operator/"+pods[i].Name+".yaml", &pods[i])
		c.logsOf(ctx, "operator/logs", &pods[i])
	}
}

// object adds the object that has the name of the Etcd.
func (c *collector) object(ctx context.Context, name string, kind schema.GroupVersionKind) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := c.cluster.Get(ctx, c.etcd, object); err != nil {
		c.note(name, err)
		return
	}
	c.write(name, object)
}

// list adds objects, each as a file in a folder.
func (c *collector) list(ctx context.Context, folder string, kind schema.GroupVersionKind, options ...client.ListOption) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.cluster.List(ctx, list, append(options, client.Limit(maxObjects))...); err != nil {
		c.note(folder, err)
		return nil
	}
	if list.GetContinue() != "" {
		c.missing = append(c.missing, fmt.Sprintf("%s: only the first %d are in this report", folder, maxObjects))
	}
	for i := range list.Items {
		c.write(folder+"/"+list.Items[i].GetName()+".yaml", &list.Items[i])
	}
	return list.Items
}

func (c *collector) write(name string, object client.Object) {
	raw, err := encode(object)
	if err != nil {
		c.note(name, err)
		return
	}
	c.add(name, raw)
}

// encode returns an object as YAML, without secrets.
func encode(object client.Object) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(redact(content))
}

// events adds the events of the Etcd and of other objects, oldest first. Events of deleted objects are found by the names of the
// objects.
func (c *collector) events(ctx context.Context, others []unstructured.Unstructured) {
	list := &corev1.EventList{}
	if err := c.cluster.List(ctx, list, client.InNamespace(c.etcd.Namespace)); err != nil {
		c.note("events.yaml", err)
		return
	}
	names := map[string]bool{c.etcd.Name: true}
	for i := range others {
		names[others[i].GetName()] = true
	}
	all := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		about := e.InvolvedObject.Name
		return !names[about] && !strings.HasPrefix(about, c.etcd.Name+"-") && !strings.HasSuffix(about, "-"+c.etcd.Name)
	})
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return seen(a).Compare(seen(b)) })
	if n := len(all) - maxEvents; n > 0 {
		all = all[n:]
		c.missing = append(c.missing, fmt.Sprintf("events.yaml: only the newest %d are in this report", maxEvents))
	}
	var out bytes.Buffer
	for i := range all {
		raw, err := encode(&all[i])
		if err != nil {
			c.note("events.yaml", err)
			continue
		}
		out.WriteString("---\n")
		out.Write(raw)
	}
	c.add("events.yaml", out.Bytes())
}

// seen returns when an event was last seen.
func seen(e corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

// logsOf adds the logs of the containers of a pod, and of their previous runs.
func (c *collector) logsOf(ctx context.Context, folder string, pod *corev1.Pod) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		name := folder + "/" + pod.Name + "-" + s.Name
		if s.State.Waiting == nil || s.RestartCount > 0 {
			c.log(ctx, name+".log", client.ObjectKeyFromObject(pod), s.Name, false)
		}
		if s.RestartCount > 0 {
			c.log(ctx, name+".previous.log", client.ObjectKeyFromObject(pod), s.Name, true)
		}
	}
}

// log adds the end of a log. It sets no limit for the kubelet, which would write the oldest of the lines and then end.
func (c *collector) log(ctx context.Context, name string, pod client.ObjectKey, container string, previous bool) {
	lines := int64(maxLines)
	stream, err := c.logs(ctx, pod, &corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true, TailLines: &lines})
	if err != nil {
		c.note(name, err)
		return
	}
	defer func() { _ = stream.Close() }()
	raw, cut, err := tail(stream, maxLog)
	if err != nil {
		c.note(name, err)
	}
	if cut > 0 {
		c.missing = append(c.missing, fmt.Sprintf("%s: only the newest %s are in this report, of %s", name, text.Size(maxLog), text.Size(cut+int64(len(raw)))))
	}
	c.add(name, []byte(scrub(string(raw))))
}

// tail reads to the end, and returns the whole lines among the last bytes, limit at most, and how many bytes came before those.
func tail(r io.Reader, limit int) (last []byte, cut int64, err error) {
	buffer := make([]byte, 0, 2*limit)
	for err == nil {
		var n int
		n, err = r.Read(buffer[len(buffer):cap(buffer)])
		if buffer = buffer[:len(buffer)+n]; len(buffer) == cap(buffer) {
			cut += int64(len(buffer) - limit)
			buffer = append(buffer[:0], buffer[len(buffer)-limit:]...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	last = buffer[max(len(buffer)-limit, 0):]
	if cut += int64(len(buffer) - len(last)); cut > 0 {
		// The first line may lack its beginning, by which a secret is recognized.
		whole := last[len(last):]
		if end := bytes.IndexByte(last, '\n'); end >= 0 {
			whole = last[end+1:]
		}
		cut, last = cut+int64(len(last)-len(whole)), whole
	}
	return last, cut, err
}
