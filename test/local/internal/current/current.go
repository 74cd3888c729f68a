// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package current decides which cluster is meant, the local one or that of the
// current kubectl context, and makes sure that the latter is never meant by
// accident. It imports the standard library and its siblings only.
package current

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/kubectl"
)

// Chosen tells whether the environment asks for the current kubectl context.
// Only CLUSTER=current does: that KUBECONFIG happens to be set means nothing.
func Chosen(getenv func(string) string) (bool, error) {
	switch value := getenv("CLUSTER"); value {
	case "":
		return false, nil
	case "current":
		return true, nil
	default:
		return false, fmt.Errorf("CLUSTER=%s is not known: leave it out for the local Kubernetes, or say CLUSTER=current for the current kubectl context", value)
	}
}

// Context is a kubectl context.
type Context struct {
	Name    string
	Cluster string
	Server  string
}

// Find returns the current context of the person's kubeconfig.
func Find(ctx context.Context, k kubectl.Kubectl) (Context, error) {
	out, err := k.Run(ctx, "config", "view", "--minify", "--output=json")
	if err != nil {
		return Context{}, fmt.Errorf("finding the current kubectl context: %w", err)
	}
	var view struct {
		CurrentContext string `json:"current-context"`
		Contexts       []struct {
			Context struct {
				Cluster string `json:"cluster"`
			} `json:"context"`
		} `json:"contexts"`
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil {
		return Context{}, fmt.Errorf("finding the current kubectl context: %w", err)
	}
	if view.CurrentContext == "" || len(view.Contexts) != 1 || len(view.Clusters) != 1 {
		return Context{}, errors.New("finding the current kubectl context: none is set; choose one with kubectl config use-context")
	}
	return Context{Name: view.CurrentContext, Cluster: view.Contexts[0].Context.Cluster, Server: view.Clusters[0].Cluster.Server}, nil
}

// KindCluster returns the name of the kind cluster that a context belongs to,
// or nothing when it is of another kind.
func (c Context) KindCluster() (string, bool) {
	name, isKind := strings.CutPrefix(c.Cluster, "kind-")
	return name, isKind && c.Name == c.Cluster
}

// Confirm makes sure that a person, or the variable CLUSTER_CONFIRM, agrees to
// do something to the cluster.
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
	_, _ = fmt.Fprintf(out, "Type the name of the context to go on: ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != c.Name {
		return errors.New("not confirmed: nothing was done")
	}
	return nil
}
