// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pods

import "testing"

func TestTag(t *testing.T) {
	for image, want := range map[string]string{"a:5000/b:v1@sha256:c": "v1", "a:5000/b": "", "b": "", "b:dev": "dev", "a/b@sha256:c": ""} {
		if got := Tag(image); got != want {
			t.Errorf("%s: %q", image, got)
		}
	}
}
