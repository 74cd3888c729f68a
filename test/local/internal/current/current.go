// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package current decides which cluster a command is for, the local one or that of the current kubectl context, and
// makes sure that the latter is never used by accident.
package current

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

// Chosen reports whether the environment asks for the current kubectl context. Only CLUSTER=current does: KUBECONFIG
// does not count.
func Chosen(getenv func(string) string) (bool, error) {
	switch value := getenv("CLUSTER"); value {
	case "":
		return false, nil
	case "current":
		return true, nil
	default:
		return false, fmt.Errorf("CLUSTER=%s is not known: leave it out for the local Kubernetes, or set CLUSTER=current for the current kubectl context", value)
	}
}

// Context is a kubectl context.
type Context struct {
	Name    string
	Cluster string
	Server  string
}

// Find returns the current context of the user's kubeconfig.
func Find() (Context, error) {
	config, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
	if err != nil {
		return Context{}, fmt.Errorf("finding the current kubectl context: %w", err)
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil {
		return Context{}, errors.New("finding the current kubectl context: none is set; choose one with kubectl config use-context")
	}
	return Context{Name: config.CurrentContext, Cluster: current.Cluster, Server: config.Clusters[current.Cluster].Server}, nil
}

// KindCluster returns the name of the kind cluster that a context belongs to, and whether it is one of kind.
func (c Context) KindCluster() (string, bool) {
	name, isKind := strings.CutPrefix(c.Cluster, "kind-")
	return name, isKind && c.Name == c.Cluster
}

// Confirm returns an error unless the user, or the variable CLUSTER_CONFIRM, agrees to an action on the cluster.
func (c Context) Confirm(action, confirmed string, terminal bool, in io.Reader, out io.Writer) error {
	_, _ = fmt.Fprintf(out, "This will %s the cluster of context %q at %s.\n", action, c.Name, c.Server)
	switch {
	case confirmed == c.Name:
		return nil
	case confirmed != "":
		return fmt.Errorf("CLUSTER_CONFIRM=%s does not name the current context %q: nothing was done", confirmed, c.Name)
	case !terminal:
		return fmt.Errorf("there is no terminal to ask at: set CLUSTER_CONFIRM=%s to agree; nothing was done", c.Name)
	}
	_, _ = fmt.Fprintf(out, "Type the name of the context to continue: ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != c.Name {
		return errors.New("not confirmed: nothing was done")
	}
	return nil
}
