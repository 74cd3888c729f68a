// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// installPolicies creates the admission policies in dir and waits until they are in force.
func (e *Env) installPolicies(dir string) error {
	var files []string
	for _, pattern := range []string{"*.yaml", "task/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("listing %s: %w", dir, err)
		}
		files = append(files, found...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), machine.Patience())
	defer cancel()
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if object.GetKind() == "Kustomization" {
				continue
			}
			if err := e.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return e.awaitPolicies(ctx)
}

// awaitPolicies tries to create a task that the policies must refuse: the API server compiles policies in the background.
func (e *Env) awaitPolicies(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		task := &v1alpha1.EtcdOperatorTask{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "policy-probe"},
			Spec: v1alpha1.EtcdOperatorTaskSpec{
				Type:               v1alpha1.QuorumAwareRollout,
				OwnerEtcdReference: v1alpha1.EtcdReference{Name: "probe", Namespace: metav1.NamespaceSystem},
			},
		}
		err := e.Client.Create(ctx, task, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the admission policies are in force: %w", err)
	}
	return nil
}

func readObjects(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	objects, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return objects, nil
}

// Decode decodes manifests.
func Decode(data []byte) (objects []*unstructured.Unstructured, err error) {
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, fmt.Errorf("decoding manifests: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
