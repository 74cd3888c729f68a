// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
)

func TestWithGate(t *testing.T) {
	const head = "apiVersion: operator.config.druid.gardener.cloud/v1alpha1\nkind: OperatorConfiguration\nimages: {etcdAgent: a:b}\n"
	for name, config := range map[string]string{
		"no gates":     head,
		"the gate off": head + "featureGates: {QuorumAwareUpdatesWithOnDelete: false}\n",
		"the gate on":  head + "featureGates: {QuorumAwareUpdatesWithOnDelete: true}\n",
	} {
		for _, on := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				edited, err := withGate(config, on)
				if err != nil {
					t.Fatal(err)
				}
				c, err := configv1alpha1.Decode([]byte(edited))
				if err != nil {
					t.Fatalf("%v in\n%s", err, edited)
				}
				if c.FeatureGates[gate] != on || c.Images.EtcdAgent != "a:b" {
					t.Errorf("edited to\n%s", edited)
				}
			})
		}
	}
}

func TestUntil(t *testing.T) {
	n := 0
	var noted []string
	note := func(text string) { noted = append(noted, text) }
	err := until(t.Context(), time.Minute, "it", note, func(context.Context) (string, error) {
		if n++; n == 1 {
			return "", errors.New("it is away")
		}
		return "", nil
	})
	if err != nil || len(noted) != 1 || noted[0] != "waiting: it is away" {
		t.Errorf("error %v, notes %q", err, noted)
	}
	err = until(t.Context(), 0, "it", note, func(context.Context) (string, error) { return "it is late", nil })
	if err == nil || !strings.Contains(err.Error(), "waiting for it: not within 0s: it is late") {
		t.Errorf("error is %v", err)
	}
}
