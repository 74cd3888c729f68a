// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"os"
	"strings"
	"testing"
)

// The name of the etcd image is written in many manifests, so it is a constant;
// its tag has to be the version that is built.
func TestEtcdImageIsOfThePinnedVersion(t *testing.T) {
	goMod, err := os.ReadFile("../../../tools/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, tag, _ := strings.Cut(Etcd.Name, ":")
	for _, module := range []string{"server/v3", "etcdctl/v3", "etcdutl/v3"} {
		if want := "go.etcd.io/etcd/" + module + " " + tag; !strings.Contains(string(goMod), want+"\n") && !strings.Contains(string(goMod), want+" ") {
			t.Errorf("image %s, but the module does not require %s", Etcd.Name, want)
		}
	}
}
