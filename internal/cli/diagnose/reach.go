// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	corev1 "k8s.io/api/core/v1"
)

// target says how a member is reached.
func (g *gatherer) target(ctx context.Context, ordinal int) Target {
	o := g.snapshot.Ordinals[ordinal]
	pod := g.pods[o.Name]
	t := Target{Name: o.Name}
	config, err := g.members.TLS(ctx, o)
	if err != nil {
		g.missOf(diagnose.SignalStatus, o.Name, err, "the right to get the Secrets of clientUrlTls, with a certificate and a CA that fit this member")
	}
	t.HTTP = g.httpClient(config)
	if port := portOf(pod, v1alpha1.ContainerEtcd, metricsPort); port != 0 {
		t.Metrics = "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port)) + "/metrics"
	} else if err == nil {
		t.Metrics = o.Pod.Endpoint + "/metrics"
	}
	if t.Metrics != "" {
		t.Ping = strings.TrimSuffix(t.Metrics, "metrics") + "no-such-path"
	}
	g.reachAgent(ctx, pod, &t)
	if c, err := g.members.Dial(ctx, o); err == nil {
		t.Etcd = c
		g.closers = append(g.closers, func() { _ = c.Close() })
	}
	t.Kubelet = g.kubelet(pod)
	t.Lost = func() error { return g.lost(o.Pod.Endpoint, t) }
	return t
}

// lost returns why the way to a member has ended in the meantime, or why there was none; nil if it has not, or if that to the agent in the same pod has not: then
// etcd has closed its port.
func (g *gatherer) lost(endpoint string, t Target) error {
	at := func(from string) error {
		u, err := url.Parse(from)
		if err != nil || u.Host == "" {
			return nil
		}
		return g.members.Lost(u.Host)
	}
	if t.AgentPing != "" && at(t.AgentPing) == nil {
		return nil
	}
	return cmp.Or(at(endpoint), at(t.Metrics))
}

// httpClient reaches the pods through their port-forwards.
func (g *gatherer) httpClient(config *tls.Config) *http.Client {
	transport := transportThrough(g.members.Connect, config)
	g.closers = append(g.closers, transport.CloseIdleConnections)
	// Neither etcd nor the agent redirects.
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// transportThrough makes its connections by a function. Its errors say why a server has refused the client's certificate.
func transportThrough(connect func(ctx context.Context, address string) (net.Conn, error), config *tls.Config) *http.Transport {
	return &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := connect(ctx, address)
		if err != nil {
			return nil, err
		}
		return etcdclient.KeepRefusal(conn), nil
	}}
}

// reachAgent says how the agent of a member is reached.
func (g *gatherer) reachAgent(ctx context.Context, pod *corev1.Pod, t *Target) {
	base, config, err := g.agent(ctx, pod)
	if base == "" || err != nil {
		if err != nil {
			g.miss(diagnose.SignalAgent, err, "the right to get the Secrets of spec.backup.tls")
		}
		return
	}
	t.AgentHTTP, t.Agent, t.AgentPing, t.AgentToken = g.httpClient(config), base+"/metrics", base+"/no-such-path", g.AgentToken
}

// agent returns the URL of the agent in a pod, empty if there is none, and the configuration for TLS.
func (g *gatherer) agent(ctx context.Context, pod *corev1.Pod) (string, *tls.Config, error) {
	port := portOf(pod, v1alpha1.ContainerBackupRestore, "")
	if port == 0 {
		return "", nil, nil
	}
	at := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port))
	if g.etcd.BackupTLS() == nil {
		return "http://" + at, nil, nil
	}
	roots, err := certificates.Agents(ctx, g.cluster, g.etcd)
	return "https://" + at, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: g.etcd.ClientHost()}, err
}

// metricsPort is the name of the port on which etcd serves its metrics without a client certificate.
const metricsPort = "metrics"

// portOf returns a port of a container by its name, or its first; 0 if there is none.
func portOf(pod *corev1.Pod, container, name string) int {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if c.Name == container && (name == "" || p.Name == name) {
				return int(p.ContainerPort)
			}
		}
	}
	return 0
}
