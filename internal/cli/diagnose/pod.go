// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// logsSince is how far back logs are read.
	logsSince = 15 * time.Minute
	// maxKubelet bounds what a kubelet says of all containers of its node, in bytes.
	maxKubelet = 128 << 20
)

// podFacts returns what matters of a pod.
func podFacts(pod *corev1.Pod, now time.Time) *diagnose.Pod {
	p := &diagnose.Pod{Node: pod.Spec.NodeName}
	for _, c := range pod.Spec.Containers {
		if c.Name == v1alpha1.ContainerEtcd {
			p.CPULimit, p.MemLimit = c.Resources.Limits.Cpu().AsApproximateFloat64(), c.Resources.Limits.Memory().Value()
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != v1alpha1.ContainerEtcd {
			continue
		}
		if running := s.State.Running; running != nil {
			p.Running = now.Sub(running.StartedAt.Time)
		}
		if ended := cmp.Or(s.State.Terminated, s.LastTerminationState.Terminated); ended != nil {
			p.Ended, p.EndedAgo = ended.Reason, now.Sub(ended.FinishedAt.Time)
		}
	}
	return p
}

// aheadOf returns by how much the clock of a member's node is ahead of ours. That of a member that has not answered is taken for that of
// another one: a user's clock is wrong more often than that of a node.
func aheadOf(name string, measured []Measured) (ahead time.Duration, known bool) {
	for _, m := range measured {
		if m.Ahead != nil && (!known || m.Name == name) {
			ahead, known = *m.Ahead, true
		}
	}
	return ahead, known
}

// readLogs counts what the log of etcd says, by a clock that is ahead of ours; nil if that was not asked for or is not permitted.
func (g *gatherer) readLogs(ctx context.Context, pod *corev1.Pod, ahead time.Duration) *diagnose.Logs {
	if !g.Logs {
		return nil
	}
	counted, err := g.count(ctx, pod, ahead)
	if err != nil {
		g.missOf(diagnose.SignalLogs, pod.Name, err, "the right to get pods/log in the namespace, as the ClusterRole view has it")
	}
	return counted
}

// count counts while it reads, to the end. It sets no limit: with one, a kubelet writes the oldest lines and then ends.
func (g *gatherer) count(ctx context.Context, pod *corev1.Pod, ahead time.Duration) (*diagnose.Logs, error) {
	read, err := g.cluster.Logs()
	if err != nil {
		return nil, err
	}
	stream, err := read(ctx, client.ObjectKeyFromObject(pod), &corev1.PodLogOptions{Container: v1alpha1.ContainerEtcd, SinceSeconds: ptr.To(int64(logsSince.Seconds()))})
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	return diagnose.ParseLogs(linesOf(stream), g.began.Add(ahead), g.clock.Now().Add(ahead))
}

// linesOf returns the lines of a log; of one that is too long to be judged, no more than it takes to see that. A line is valid until the next one.
func linesOf(log io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var line []byte
		for lines := bufio.NewReaderSize(log, 64<<10); ; {
			part, more, err := lines.ReadLine()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(nil, err)
				}
				return
			}
			if len(line) <= diagnose.MaxLine {
				line = append(line, part...)
			}
			if more {
				continue
			}
			if !yield(line, nil) {
				return
			}
			line = line[:0]
		}
	}
}

// kubelet returns a function that reads what the kubelet measures about a pod; nil if it is on no node.
func (g *gatherer) kubelet(pod *corev1.Pod) func(context.Context) (diagnose.Metrics, error) {
	if pod.Spec.NodeName == "" {
		return nil
	}
	proxy := "/api/v1/nodes/" + url.PathEscape(pod.Spec.NodeName) + "/proxy/metrics"
	read := func(ctx context.Context, path string, parse func(text string, labels map[string]string) (diagnose.Metrics, error), labels map[string]string) (diagnose.Metrics, error) {
		raw, err := g.cluster.Raw(ctx, path, maxKubelet)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of node %s: %w", pod.Spec.NodeName, err)
		}
		return parse(string(raw), labels)
	}
	return func(ctx context.Context) (diagnose.Metrics, error) {
		ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
		defer cancel()
		all, err := read(ctx, proxy+"/cadvisor", diagnose.ParseContainer, map[string]string{"namespace": pod.Namespace, "pod": pod.Name, "container": v1alpha1.ContainerEtcd})
		if err != nil {
			return nil, err
		}
		if claim := dataClaim(pod); claim != "" {
			volume, err := read(ctx, proxy, diagnose.ParseMetrics, map[string]string{"namespace": pod.Namespace, "persistentvolumeclaim": claim})
			if err != nil {
				return nil, err
			}
			maps.Copy(all, volume)
		}
		return all, nil
	}
}

// dataClaim returns the claim that etcd has its data on; empty if there is none. The agent may have another one, of its backups.
func dataClaim(pod *corev1.Pod) string {
	claims := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims[v.Name] = v.PersistentVolumeClaim.ClaimName
		}
	}
	for _, c := range pod.Spec.Containers {
		if c.Name != v1alpha1.ContainerEtcd {
			continue
		}
		for _, mount := range c.VolumeMounts {
			if claim := claims[mount.Name]; claim != "" {
				return claim
			}
		}
	}
	return ""
}
