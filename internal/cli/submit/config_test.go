// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
)

// docs/cli.md promises a flag for each field of a rollout's config except restart, which is a verb of its own. Each flag sets its field.
func TestEveryFieldOfARolloutHasAFlag(t *testing.T) {
	values := map[string]string{
		"targetRevision": "main-1", "leaderHandover": "false", "unreadyGracePeriod": "40s", "progressDeadline": "5m0s", "podRemoval": "Evict",
		"nonParticipatingPods": "AllAtOnce", "podUpdatePolicy": "Recreate", "snapshotBefore": "Always", "nonServingGracePeriod": "3s",
		"unhealthyBackupSidecarFirst": "true",
	}
	upper := regexp.MustCompile(`[A-Z]`)
	for field := range reflect.TypeFor[rollout.Config]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "restart" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			cmd := &cobra.Command{}
			config := rolloutConfig(flagSet{cmd.Flags(), cmd})
			flag := upper.ReplaceAllStringFunc(name, func(s string) string { return "-" + strings.ToLower(s) })
			if err := cmd.Flags().Set(flag, values[name]); err != nil {
				t.Fatal(err)
			}
			c, err := config()
			if err != nil {
				t.Fatal(err)
			}
			encoded, err := json.Marshal(c)
			if got := strings.ReplaceAll(string(encoded), `"`, ""); err != nil || got != "{"+name+":"+values[name]+"}" {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}
