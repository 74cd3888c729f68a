// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package kube has what all verbs of the plugin share: kubectl's flags, the cluster that they choose, its objects by name and their
// completion, printers, and errors in one sentence with an exit code.
package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"
)

// OperatorNamespace is the namespace that the manifests install the operator into.
const OperatorNamespace = "etcd-foreman-system"

// Kube is the environment of a command: its streams, kubectl's flags, clock and terminal.
type Kube struct {
	genericiooptions.IOStreams
	// Flags are the usual flags of kubectl.
	Flags *genericclioptions.ConfigFlags
	// AllNamespaces is the flag of that name, for the verbs that have it.
	AllNamespaces bool
	Clock         clock.WithTicker
	// Location is the time zone of printed times.
	Location *time.Location
	// Size of the terminal that the output goes to, in columns and rows; ok is false if it is no terminal.
	Size func() (width, height int, ok bool)
	// Interactive reports whether a user at a terminal can be asked.
	Interactive func() bool
	// Suffix makes names unique.
	Suffix func() string
	// Rule by which the operator replaces pods, as far as the plugin knows it.
	Rule replacer.Rule
}

// New makes a Kube for the process's own streams.
func New(streams genericiooptions.IOStreams) *Kube {
	k := &Kube{
		IOStreams: streams, Flags: genericclioptions.NewConfigFlags(true), Clock: clock.RealClock{}, Location: time.Local,
		Suffix: func() string { return rand.String(5) }, Rule: replacer.Operator{},
	}
	k.Interactive = func() bool { return isTerminal(streams.In) }
	k.Size = func() (int, int, bool) { return SizeOf(streams.Out) }
	k.Flags.WrapConfigFn = func(c *rest.Config) *rest.Config { return withTimeouts(c, streams.ErrOut) }
	return k
}

// Width returns the columns of the terminal; 0 if the output goes elsewhere.
func (k *Kube) Width() int {
	width, _, ok := k.Size()
	if !ok {
		return 0
	}
	return width
}

// Print prints lines, with states in color if the output has colors.
func (k *Kube) Print(lines ...string) {
	for _, line := range lines {
		line = text.Plain(line)
		if k.Color() {
			line = text.Color(line)
		}
		fmt.Fprintln(k.Out, line) //nolint:errcheck // there is nowhere to report it
	}
}

// Color reports whether the output has colors: it is a terminal, and NO_COLOR is not set (https://no-color.org).
func (k *Kube) Color() bool { return k.Width() > 0 && os.Getenv("NO_COLOR") == "" }

// Scheme returns the kinds that the plugin reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme, batchv1.AddToScheme, authenticationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			// It fails only if this list is wrong.
			panic(err)
		}
	}
	return scheme
}

// mapper has the kinds of the scheme, so that no command starts with discovery.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdOperatorTask), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdFleetPolicy), meta.RESTScopeRoot)
	m.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), meta.RESTScopeNamespace)
	m.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	m.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	m.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	for _, kind := range []string{"Pod", "Event", "Secret", "PersistentVolumeClaim"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Namespace", "Node", "PersistentVolume"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	return m
}

// config returns how to reach the API server that the flags choose.
func (k *Kube) config() (*rest.Config, error) {
	if err := k.checkContext(); err != nil {
		return nil, err
	}
	config, err := k.Flags.ToRESTConfig()
	if err != nil {
		return nil, Usage("%v", err)
	}
	if config.Host == k.unconfiguredHost() {
		return nil, Usage("no cluster is configured: there is none in %s; name a kubeconfig with --kubeconfig or KUBECONFIG, or a server with --server",
			strings.Join(k.Flags.ToRawKubeConfigLoader().ConfigAccess().GetLoadingPrecedence(), ", "))
	}
	return config, nil
}

// unconfiguredHost returns the address that client-go assumes if nothing names a server; empty if something does.
func (k *Kube) unconfiguredHost() string {
	config, err := k.Flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil || len(config.Clusters) > 0 || *k.Flags.APIServer != "" || os.Getenv("KUBERNETES_MASTER") != "" {
		return ""
	}
	return "http://localhost:8080"
}

// Namespace returns the namespace that the flags and the kubeconfig choose; empty with --all-namespaces.
func (k *Kube) Namespace() (string, error) {
	if k.AllNamespaces {
		return "", nil
	}
	namespace, _, err := k.Flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", Usage("%v", err)
	}
	return namespace, nil
}

// checkContext returns an error if the flags and the kubeconfig choose no context.
func (k *Kube) checkContext() error {
	config, err := k.Flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return Usage("reading the kubeconfig: %v", err)
	}
	name := *k.Flags.Context
	if _, ok := config.Contexts[name]; name != "" && !ok {
		return Usage("the kubeconfig has no context %q: it has %s", name, quoted(config.Contexts))
	}
	if name == "" && config.CurrentContext == "" && len(config.Contexts) > 0 && *k.Flags.APIServer == "" {
		return Usage("no context of the kubeconfig is the current one: choose one of %s with --context", quoted(config.Contexts))
	}
	return nil
}

// Printer returns the printer that the flags of a verb choose.
func Printer(flags *genericclioptions.PrintFlags) (printers.ResourcePrinter, error) {
	printer, err := flags.ToPrinter()
	if err != nil {
		return nil, Usage("%v", err)
	}
	return printer, nil
}

// AddDocumentFormat adds the flag --output to a verb that prints text by default.
func AddDocumentFormat(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "", "json or yaml (default: text).")
	CompleteValues(cmd, "output", "json", "yaml")
}

// CheckDocumentFormat returns an error if the flag --output has no value that AddDocumentFormat names.
func CheckDocumentFormat(format string) error {
	if format != "" && format != "json" && format != "yaml" {
		return Usage("--output is %q: it must be json or yaml", format)
	}
	return nil
}

// PrintDocument prints a value as JSON or YAML.
func (k *Kube) PrintDocument(value any, format string) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == "yaml" {
		raw, err = yaml.JSONToYAML(raw)
	} else {
		raw = append(raw, '\n')
	}
	if err == nil {
		_, err = k.Out.Write(raw)
	}
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// PrintFlags returns the flags of a verb that prints objects. The operation is what the verb does to them.
func PrintFlags(operation string) *genericclioptions.PrintFlags {
	return genericclioptions.NewPrintFlags(operation).WithTypeSetter(Scheme())
}
