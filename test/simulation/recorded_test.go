// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// ordinals is how many members a recording has.
const ordinals = 5

// With SIM_RECORD, the name of a folder, the scripts of test/temporal/testdata are run, and recorded for the model there: docs/temporal.md.
func TestRecord(t *testing.T) {
	folder := os.Getenv("SIM_RECORD")
	if folder == "" {
		t.Skip("SIM_RECORD is not set")
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.script"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, err := ParseScript(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var lines bytes.Buffer
		last := ""
		r := watch(t, script, func(w *World) {
			if now := w.judges[0].recorded(); now != last && now != "" {
				fmt.Fprintf(&lines, "%d %s\n", w.Now().Milliseconds(), now)
				last = now
			}
		})
		for _, broken := range r.Broken {
			t.Errorf("%s: %s", file, broken)
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(lines.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(strings.TrimSuffix(file, ".script")+".gz", packed.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// recorded is the world as the model of test/temporal has it: a word for each ordinal. Empty until a cluster serves.
func (j *judge) recorded() string {
	if len(j.list) == 0 {
		return ""
	}
	var words []string
	for i := range ordinals {
		words = append(words, j.recordedMember(i))
	}
	return strings.Join(words, " ")
}

func (j *judge) recordedMember(i int) string {
	name, w := fmt.Sprintf("%s-%d", j.name, i), j.world
	word := []byte("NSSEA-------")
	at := slices.IndexFunc(j.list, func(p members.Peer) bool { return podOfURL(p.PeerURL) == name })
	var disk *members.Disk
	for _, c := range apiserver.Of[*corev1.PersistentVolumeClaim](w.API.Live()) {
		if podOfClaim(c.Name) != name {
			continue
		}
		disk = w.disks[c.Spec.VolumeName]
		mark(word, 9, 'C', c.DeletionTimestamp != nil)
	}
	if at >= 0 {
		mark(word, 0, 'V', true)
		mark(word, 0, 'L', j.list[at].Learner)
		mark(word, 6, 'R', j.list[at].Started)
	}
	if disk != nil && disk.Cluster != "" && !disk.Joining {
		mark(word, 3, 'R', true)
		mark(word, 3, 'O', at >= 0 && disk.Member == j.list[at].ID)
	}
	if p := apiserver.Find[*corev1.Pod](w.API.Live(), Namespace, name); p != nil {
		_, byOperator := w.removed[p.UID]
		mark(word, 4, 'P', true)
		mark(word, 4, 'U', p.DeletionTimestamp != nil)
		mark(word, 4, 'E', p.DeletionTimestamp != nil && byOperator)
	}
	for _, m := range w.Etcd.Running() {
		if m.Name == name {
			mark(word, 1, 'R', true)
			mark(word, 1, 'F', m.Frozen)
		}
	}
	for _, p := range w.pods {
		mark(word, 2, 'C', p.name == name && p.node.silent())
	}
	leader, _ := j.leader()
	mark(word, 5, 'L', leader != nil && leader.Name == name)
	mark(word, 7, 'H', leader != nil && disk != nil && disk.Cluster == leader.Disk.Cluster && leader.Disk.Last()-disk.Last() <= mostBehind)
	set := j.set()
	mark(word, 8, 'S', set != nil && i < int(ptr.Deref(set.Spec.Replicas, 1)))
	mark(word, 10, 'W', i < int(j.asked()))
	return string(word)
}

func mark(word []byte, at int, as byte, is bool) {
	if is {
		word[at] = as
	}
}
