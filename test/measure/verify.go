// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// verifyDeadline bounds the verification of one member.
	verifyDeadline = 30 * time.Second
	// pageSize is how many keys are read at once.
	pageSize = 1000
	// shownLosses is how many lost writes an error names.
	shownLosses = 10
)

// Verify reads every acknowledged write back through each member: a linearizable read waits until the member has applied
// what the cluster has committed, and is answered from the member's own data. It fails if a write is missing or has another
// value, if a member does not answer, or if there is no member. The Writer must be stopped.
func (w *Writer) Verify(ctx context.Context) error {
	writes := w.Stop().Writes
	return w.eachMember(ctx, func(ctx context.Context, etcd *clientv3.Client, pod string) error {
		stored, err := readAll(ctx, etcd, w.writes.prefix)
		if err != nil {
			return fmt.Errorf("reading the writes back through %s: %w", pod, err)
		}
		if lost := w.losses(writes, stored); len(lost) > 0 {
			return fmt.Errorf("reading the writes back through %s: %d of %d acknowledged writes are lost: %s",
				pod, len(lost), len(writes), strings.Join(lost[:min(len(lost), shownLosses)], "; "))
		}
		return nil
	})
}

// Lost returns the acknowledged writes that are missing, in the order of their acknowledgement: a cluster restored from a
// backup lacks later writes. The Writer must be stopped.
func (w *Writer) Lost(ctx context.Context) ([]Write, error) {
	var lost []Write
	err := w.eachMember(ctx, func(ctx context.Context, etcd *clientv3.Client, pod string) error {
		stored, err := readAll(ctx, etcd, w.writes.prefix)
		if err != nil {
			return fmt.Errorf("reading the writes back through %s: %w", pod, err)
		}
		lost = nil
		for _, write := range w.Stop().Writes {
			if stored[w.writes.key(write.Number)] != value(write.Number, write.Member) {
				lost = append(lost, write)
			}
		}
		return nil
	})
	return lost, err
}

// Clean removes what was written.
func (w *Writer) Clean(ctx context.Context) error {
	removed := false
	return w.eachMember(ctx, func(ctx context.Context, etcd *clientv3.Client, pod string) error {
		if removed {
			return nil
		}
		if _, err := etcd.Delete(ctx, w.writes.prefix, clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("removing the writes through %s: %w", pod, err)
		}
		removed = true
		return nil
	})
}

// losses returns the acknowledged writes that are not among the stored ones.
func (w *Writer) losses(writes []Write, stored map[string]string) []string {
	var lost []string
	for _, write := range writes {
		key, want := w.writes.key(write.Number), value(write.Number, write.Member)
		switch got, ok := stored[key]; {
		case !ok:
			lost = append(lost, key+" is missing, acknowledged by "+write.Member)
		case got != want:
			lost = append(lost, fmt.Sprintf("%s is %q instead of %q", key, got, want))
		}
	}
	return lost
}

// eachMember calls do with a client of each member, and joins the errors.
func (w *Writer) eachMember(ctx context.Context, do func(context.Context, *clientv3.Client, string) error) error {
	pods, err := w.kube.CoreV1().Pods(w.options.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	members := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !w.isMember(&p) })
	if len(members) == 0 {
		return fmt.Errorf("listing pods: StatefulSet %s/%s has none", w.options.Namespace, w.options.StatefulSet)
	}
	var failures []error
	for _, pod := range members {
		failures = append(failures, w.withMember(ctx, pod, do))
	}
	return errors.Join(failures...)
}

func (w *Writer) withMember(ctx context.Context, pod corev1.Pod, do func(context.Context, *clientv3.Client, string) error) error {
	etcd, err := w.dial(w.member(&pod))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyDeadline)
	defer cancel()
	return errors.Join(do(ctx, etcd, pod.Name), etcd.Close())
}

// readAll reads all keys with a prefix, linearizably.
func readAll(ctx context.Context, etcd *clientv3.Client, prefix string) (map[string]string, error) {
	all := map[string]string{}
	for from, end := prefix, clientv3.GetPrefixRangeEnd(prefix); ; {
		page, err := etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return nil, err
		}
		for _, pair := range page.Kvs {
			all[string(pair.Key)] = string(pair.Value)
			from = string(pair.Key) + "\x00"
		}
		if !page.More {
			return all, nil
		}
	}
}
