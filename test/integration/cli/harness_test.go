// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package cli tests the kubectl plugin against a real API server, from the command line to the exit code. No
// operator runs: the tests write the status that one would write.
package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/executor"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager()))
}

// person is a user at a prompt, in a namespace with an Etcd.
type person struct {
	*env.Cluster
	kubeconfig string
	// input is what is typed; interactive: on a terminal.
	input       string
	interactive bool
	// terminal: the output is one.
	terminal bool
}

func newPerson(t *testing.T, changes ...func(*v1alpha1.Etcd)) *person {
	t.Helper()
	p := &person{Cluster: testEnv.NewCluster(t, "main")}
	p.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	p.kubeconfig = p.writeKubeconfig(testEnv.Config, "test")
	p.CreateEtcd(3, changes...)
	return p
}

// writeKubeconfig writes a kubeconfig; the current context is given by its name, or there is none.
func (p *person) writeKubeconfig(config *rest.Config, current string) string {
	p.T.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Impersonate: config.Impersonate.UserName}
	for _, name := range []string{"test", "other"} {
		c.Contexts[name] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: p.Namespace}
	}
	c.CurrentContext = current
	path := filepath.Join(p.T.TempDir(), "kubeconfig")
	p.Expect(clientcmd.WriteToFile(*c, path)).To(Succeed())
	return path
}

// outcome is the result of a command line.
type outcome struct {
	code     int
	out, err string
}

// run runs a command line as the plugin would.
func (p *person) run(args ...string) outcome {
	p.T.Helper()
	return p.start(p.T.Context(), args...)()
}

// start starts a command line and returns a function that waits for its end.
func (p *person) start(ctx context.Context, args ...string) func() outcome {
	p.T.Helper()
	var out watched
	return p.startInto(ctx, &out, args...)
}

// startInto is start with an output that can be read before the end.
func (p *person) startInto(ctx context.Context, out *watched, args ...string) func() outcome {
	p.T.Helper()
	var errOut bytes.Buffer
	k := kube.New(genericiooptions.IOStreams{In: bytes.NewBufferString(p.input), Out: out, ErrOut: &errOut})
	k.Rule = executor.Either{}
	interactive := p.interactive
	k.Interactive = func() bool { return interactive }
	terminal := p.terminal
	k.Size = func() (int, int, bool) { return 120, 40, terminal }
	k.Location, k.Suffix = time.UTC, func() string { return "x7k2p" }
	if p.kubeconfig != "" {
		// At the end, because cobra expects the verb first; completion has none.
		args = append(slices.Clone(args), "--kubeconfig", p.kubeconfig)
	}
	code := make(chan int, 1)
	go func() { code <- cli.Run(ctx, k, args) }()
	return func() outcome {
		p.T.Helper()
		select {
		case c := <-code:
			return outcome{c, out.String(), errOut.String()}
		case <-time.After(machine.Patience()):
			p.T.Fatalf("%v does not end", args)
			return outcome{}
		}
	}
}

// task returns a task once it exists.
func (p *person) task(name string) *v1alpha1.EtcdOperatorTask {
	p.T.Helper()
	t := &v1alpha1.EtcdOperatorTask{}
	p.Eventually(func(g Gomega) { p.Get(g, name, t) }).Should(Succeed())
	return t
}

// make creates a task in a state.
func (p *person) make(name string, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	p.T.Helper()
	t := p.CreateTask(name, v1alpha1.QuorumAwareRollout, "")
	if state != "" {
		p.operate(t, state, "as the operator says")
	}
	return t
}

// operate writes the status of a task, as an operator does.
func (p *person) operate(t *v1alpha1.EtcdOperatorTask, state v1alpha1.TaskState, message string) {
	p.T.Helper()
	now := metav1.Now()
	t.Status.State = state
	t.Status.InitiatedAt = &now
	if state.IsFinal() {
		t.Status.CompletedAt = &now
	}
	t.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: string(state), Message: message, LastTransitionTime: now,
	}}
	p.Expect(testEnv.Client.Status().Update(p.T.Context(), t)).To(Succeed())
}

// impersonating returns a kubeconfig that impersonates a user with few permissions.
func (p *person) impersonating(user string) string {
	config := rest.CopyConfig(testEnv.Config)
	config.Impersonate.UserName = user
	return p.writeKubeconfig(config, "test")
}

func (o outcome) String() string {
	return fmt.Sprintf("exit %d\nout: %s\nerr: %s", o.code, o.out, o.err)
}
