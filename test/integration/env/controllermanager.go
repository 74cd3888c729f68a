// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// controllerManager is a running kube-controller-manager. A nil one can be stopped.
type controllerManager struct {
	process *os.Process
	dir     string
	log     bytes.Buffer
	// exited is closed once the process has exited with err.
	exited chan struct{}
	err    error
}

// StartControllerManager starts a kube-controller-manager with the controllers for the operator's objects: StatefulSet,
// disruption and garbage collector; and the one that aggregates ClusterRoles.
func (e *Env) StartControllerManager() error {
	dir, err := os.MkdirTemp("", "kube-controller-manager-")
	if err != nil {
		return fmt.Errorf("making a folder for the kube-controller-manager: %w", err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, e.server.KubeConfig, 0o600); err != nil {
		return errors.Join(fmt.Errorf("writing a kubeconfig: %w", err), os.RemoveAll(dir))
	}
	m := &controllerManager{dir: dir, exited: make(chan struct{})}
	cmd := exec.Command(filepath.Join(e.assets, "kube-controller-manager"),
		"--kubeconfig="+kubeconfig,
		"--controllers=statefulset-controller,disruption-controller,garbage-collector-controller,clusterrole-aggregation-controller",
		"--leader-elect=false",
		"--secure-port=0",
		"--feature-gates="+e.featureGates,
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	)
	cmd.Stdout, cmd.Stderr = &m.log, &m.log
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting kube-controller-manager: %w", err), os.RemoveAll(dir))
	}
	m.process = cmd.Process
	go func() {
		m.err = cmd.Wait()
		close(m.exited)
	}()
	e.controllerManager = m
	return nil
}

// stop kills the process, which keeps no state. If it had exited by itself, stop returns an error with its log.
func (m *controllerManager) stop() error {
	if m == nil {
		return nil
	}
	select {
	case <-m.exited:
		return errors.Join(fmt.Errorf("kube-controller-manager ended by itself: %w; its log:\n%s", m.err, m.log.String()), os.RemoveAll(m.dir))
	default:
	}
	if err := m.process.Kill(); err != nil {
		return errors.Join(fmt.Errorf("stopping kube-controller-manager: %w", err), os.RemoveAll(m.dir))
	}
	<-m.exited
	return os.RemoveAll(m.dir)
}
