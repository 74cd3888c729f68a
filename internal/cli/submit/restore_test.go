// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
)

// The flags of restore make a config, or are refused before a task is created.
func TestRestoreConfig(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a time":           {[]string{"--to", "2026-11-24T14:03:00Z"}, `{"to": {"time": "2026-11-24T14:03:00Z"}}`},
		"a revision":       {[]string{"--to", "revision=42", "--confirm", "x@1"}, `{"to": {"revision": 42}, "confirm": "x@1"}`},
		"a snapshot":       {[]string{"--to", "snapshot=Full-1", "--preview", "--base", "Full-0"}, `{"to": {"snapshot": "Full-1", "base": "Full-0"}}`},
		"the latest":       {[]string{"--to", "latest", "--keep-service", "--accept-auth", "--max-writes-since", "0"}, `{"to": {"latest": true}, "keepService": true, "acceptAuth": true, "maxWritesSince": 0}`},
		"another prefix":   {[]string{"--to", "latest", "--from", "ns/copy"}, `{"to": {"latest": true}, "from": {"prefix": "ns/copy"}}`},
		"from of an undo":  {[]string{"--undo", "r1", "--from", "ns/copy"}, ""},
		"an undo":          {[]string{"--undo", "r1"}, `{"undo": "r1"}`},
		"nothing":          {nil, ""},
		"two states":       {[]string{"--to", "latest", "--to", "revision=4"}, ""},
		"two undone":       {[]string{"--undo", "r1", "--undo", "r2"}, ""},
		"two bases":        {[]string{"--to", "latest", "--base", "Full-0", "--base", "Full-1"}, ""},
		"two confirmed":    {[]string{"--to", "latest", "--confirm", "x", "--confirm", "y"}, ""},
		"both":             {[]string{"--to", "latest", "--undo", "r1"}, ""},
		"no time":          {[]string{"--to", "yesterday"}, ""},
		"no revision":      {[]string{"--to", "revision=-1"}, ""},
		"a confirmed undo": {[]string{"--undo", "r1", "--confirm", "x"}, ""},
		"both previews":    {[]string{"--to", "latest", "--preview", "--confirm", "x"}, ""},
		"a previewed undo": {[]string{"--undo", "r1", "--preview"}, ""},
		"base of an undo":  {[]string{"--undo", "r1", "--base", "Full-0"}, ""},
		"writes of undo":   {[]string{"--undo", "r1", "--max-writes-since", "7"}, ""},
		"auth of an undo":  {[]string{"--undo", "r1", "--accept-auth"}, ""},
		"negative writes":  {[]string{"--to", "latest", "--max-writes-since=-2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cmd := &cobra.Command{}
			config := restoreConfig(flagSet{cmd.Flags(), cmd})
			err := cmd.ParseFlags(c.args)
			var got any
			if err == nil {
				got, err = config()
			}
			if c.want == "" {
				g.Expect(err).To(HaveOccurred())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			text, err := json.Marshal(got)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchJSON(c.want))
		})
	}
}
