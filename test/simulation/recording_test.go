// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// recorded is a write to a real API server: what is kept of a line of its audit log.
type recorded struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource,omitempty"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject            json.RawMessage `json:"requestObject"`
	RequestReceivedTimestamp time.Time       `json:"requestReceivedTimestamp"`
	// StageTimestamp is when the request was answered.
	StageTimestamp time.Time `json:"stageTimestamp"`
}

// body is what a request says of the object that it is about.
type body struct {
	Metadata struct {
		UID, ResourceVersion string
		OwnerReferences      []owner
	}
	options
	DeleteOptions options
}

type options struct {
	Preconditions struct{ UID, ResourceVersion string }
	DryRun        []string
}

type owner struct{ Kind, Name, UID string }

func (r recorded) body() (b body) {
	_ = json.Unmarshal(r.RequestObject, &b) // a JSON patch is a list, and names no object
	return b
}

// uid returns the UID that the object has to have.
func (b body) uid() string {
	return cmp.Or(b.Metadata.UID, b.Preconditions.UID, b.DeleteOptions.Preconditions.UID)
}

// version returns the resourceVersion that the object has to have.
func (b body) version() string {
	return cmp.Or(b.Metadata.ResourceVersion, b.Preconditions.ResourceVersion, b.DeleteOptions.Preconditions.ResourceVersion)
}

func (r recorded) String() string {
	ref := r.ObjectRef
	return fmt.Sprintf("%s %s %s %s/%s/%s, answered with %d", r.StageTimestamp.Format("15:04:05.000"), r.User.Username, r.Verb, ref.Resource, ref.Name, ref.Subresource, r.ResponseStatus.Code)
}

func (r recorded) object() string { return r.ObjectRef.Resource + "/" + r.ObjectRef.Name }

func (r recorded) carriedOut() bool { return r.ResponseStatus.Code < 300 }

func (r recorded) creates() bool {
	return r.Verb == "create" && r.ObjectRef.Subresource == "" && r.carriedOut()
}

func (r recorded) byKubelet() bool { return strings.HasPrefix(r.User.Username, "system:node:") }

const kubeController = "system:serviceaccount:kube-system:"

func (r recorded) by(controllers ...string) bool {
	return slices.Contains(controllers, strings.TrimPrefix(r.User.Username, kubeController))
}

// patchType is how a patch is meant. The audit log does not have it: Kubernetes itself sends strategic merge patches.
func (r recorded) patchType() types.PatchType {
	switch {
	case strings.HasPrefix(string(r.RequestObject), "["):
		return types.JSONPatchType
	case strings.Contains(r.RequestURI, "force=true"):
		return types.ApplyPatchType
	case r.by("generic-garbage-collector") && !strings.Contains(string(r.RequestObject), "$patch"):
		return types.MergePatchType // of finalizers
	case r.byKubelet() || r.User.Username == "system:kube-scheduler" || strings.HasPrefix(r.User.Username, kubeController):
		return types.StrategicMergePatchType
	}
	return types.MergePatchType
}

// readRecording reads an audit log, or one that trim has made.
func readRecording(path string) (all []recorded, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening a recording: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	var content io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if content, err = gzip.NewReader(file); err != nil {
			return nil, fmt.Errorf("decompressing %s: %w", path, err)
		}
	}
	for lines := bufio.NewReader(content); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			order(all)
			begins := 0 // after the namespace of the run before was removed
			for i, r := range all {
				if r.by("namespace-controller") {
					begins = i + 1
				}
			}
			return all[begins:], nil
		}
		var r recorded
		if err := cmp.Or(err, json.Unmarshal(line, &r)); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		var object any
		_ = json.Unmarshal(r.RequestObject, &object) // there is none
		if r.RequestObject, err = json.Marshal(plain(object)); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if recordedKinds[r.ObjectRef.Resource] != nil && r.ObjectRef.Namespace == recordedNamespace && object != nil {
			all = append(all, r)
		}
	}
}

// order orders writes by when they were answered. What was asked of a new object before its creation was answered comes after that.
func order(all []recorded) {
	slices.SortStableFunc(all, func(a, b recorded) int { return a.StageTimestamp.Compare(b.StageTimestamp) })
	for i, r := range all {
		if !r.creates() {
			continue
		}
		first := slices.IndexFunc(all[:i], func(o recorded) bool {
			return o.object() == r.object() && o.StageTimestamp.After(r.RequestReceivedTimestamp) && o.Verb != "delete" && o.carriedOut()
		})
		if first >= 0 {
			r.StageTimestamp = all[first].StageTimestamp
			copy(all[first+1:i+1], all[first:i])
			all[first] = r
		}
	}
}

// recordedNamespace is that of test/robustness.
const recordedNamespace = "robustness"

// trim writes a recording with no more than what is replayed, and without what agents write all the time.
func trim(all []recorded, path string) error {
	var trimmed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&trimmed, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compressing a recording: %w", err)
	}
	lines := json.NewEncoder(compressed)
	for _, r := range all {
		if r.ObjectRef.Resource == "leases" && r.Verb == "patch" && r.carriedOut() {
			continue
		}
		if err := lines.Encode(r); err != nil {
			return fmt.Errorf("encoding a recorded write: %w", err)
		}
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("compressing a recording: %w", err)
	}
	return os.WriteFile(path, trimmed.Bytes(), 0o644)
}

// noise is what no model reads.
var noise = []string{"managedFields", "containerID", "imageID", "message", "startedAt", "finishedAt", "lastTransitionTime", "lastProbeTime", "allocatedResources"}

// defaults are those of Kubernetes, which the model of the API server does not have: it makes two templates of one with them and one without.
var defaults = map[string]any{
	"apiVersion": "v1", "defaultMode": 420., "dnsPolicy": "ClusterFirst", "imagePullPolicy": "IfNotPresent", "kind": "PersistentVolumeClaim", "restartPolicy": "Always",
	"revisionHistoryLimit": 10., "schedulerName": "default-scheduler", "scheme": "HTTP", "successThreshold": 1., "terminationMessagePath": "/dev/termination-log", "volumeMode": "Filesystem",
}

// plain takes noise and defaults out of a JSON value.
func plain(value any) any {
	switch of := value.(type) {
	case map[string]any:
		for key, v := range of {
			if slices.Contains(noise, key) || key == "serviceAccount" || v != nil && v == defaults[key] {
				delete(of, key)
				continue
			}
			of[key] = plain(v)
		}
	case []any:
		for i, v := range of {
			of[i] = plain(v)
		}
	}
	return value
}
