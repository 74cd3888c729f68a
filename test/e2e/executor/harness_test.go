//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package executor tests the operator beside etcd-druid, and in place of it, on the local Kubernetes, with a real etcd cluster that an
// imitation of etcd-druid manages. In executor mode, installed from config/executor, its rollouts are measured beside those of the same
// cluster without it. In operator mode it adopts the cluster, and hands it back, by the commands of docs/gardener.md.
// It needs root, and "make up" first; "make e2e-executor" does both. It removes the operator that "make up" has deployed.
//
// With -stock the imitation is left out: etcd-druid has to be installed and to watch the namespaces, and its own images run.
package executor

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/druid"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	root       = "../../../"
	kubeconfig = root + ".local/kubeconfig"
	own        = "etcd-foreman-system"
	operator   = "etcd-foreman"
	// containerd of the local Kubernetes.
	containerd = "/run/etcd-foreman-local/containerd.sock"
	// patience is longer than a rollout of a hanging member takes without the executor.
	patience = 10 * time.Minute
)

var (
	pairs = flag.Int("pairs", 3, "the number of rollouts with the executor, and without")
	stock = flag.Bool("stock", false, "beside an etcd-druid that is installed, instead of an imitation")
	// The images that etcd-druid would use by itself have to be pulled.
	etcdImage   = flag.String("etcd-image", "", "with -stock: image of etcd-wrapper, if not etcd-druid's own")
	backupImage = flag.String("backup-image", "", "with -stock: image of etcd-backup-restore, if not etcd-druid's own")

	restConfig *rest.Config
	kube       client.Client
)

// variants are the folders of config/executor to install from.
var variants = []string{"webhook", "policy"}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse()
	if err := begin(); err != nil {
		fmt.Fprintf(os.Stderr, "preparing the local Kubernetes: %v: run \"make up\"\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// begin connects, and replaces the operator in operator mode and its CRDs by those of etcd-druid.
func begin() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if restConfig, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	restConfig.QPS, restConfig.Burst = 100, 200
	if kube, err = client.New(restConfig, client.Options{Scheme: scheme}); err != nil || *stock {
		return err
	}
	return prepare()
}

// prepare removes the operator in operator mode, and installs the CRD of etcd-druid.
func prepare() error {
	for _, args := range [][]string{
		{"delete", "--ignore-not-found", "-k", root + "test/local/deploy/demo"},
		{"delete", "--ignore-not-found", "-k", root + "test/local/deploy"},
		{"apply", "--server-side", "-f", root + druid.Manifests},
		{"wait", "--for=condition=Established", "crd/etcds.druid.gardener.cloud"},
	} {
		if _, err := kubectl("", args...); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs a command on the local Kubernetes.
func kubectl(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, root+".local/bin/kubectl", append([]string{"--kubeconfig=" + kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return string(out), nil
}

// install installs a variant as docs/executor.md says, with the images that were built here, and waits until the operator is ready.
// It is removed after the test.
func (c *cluster) install(variant string) {
	c.t.Helper()
	manifests, err := kubectl("", "kustomize", root+"config/executor/"+variant)
	c.Expect(err).NotTo(HaveOccurred())
	c.t.Cleanup(func() { c.uninstall(variant) })
	_, err = kubectl(strings.ReplaceAll(manifests, "ghcr.io/etcd-foreman/", "localhost/"), "apply", "--server-side", "-f", "-")
	c.Expect(err).NotTo(HaveOccurred())
	c.Eventually(func(g Gomega) {
		d := &appsv1.Deployment{}
		g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: own, Name: operator}, d)).To(Succeed())
		g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
		g.Expect(d.Status.ReadyReplicas).To(Equal(int32(2)))
	}).Should(Succeed())
}

// uninstall is the last step of the uninstallation in docs/executor.md.
func (c *cluster) uninstall(variant string) {
	c.t.Helper()
	_, err := kubectl("", "delete", "--ignore-not-found", "-k", root+"config/executor/"+variant)
	c.Expect(err).NotTo(HaveOccurred())
}
