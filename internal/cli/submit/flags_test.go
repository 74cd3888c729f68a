// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import "testing"

func TestSeconds(t *testing.T) {
	for value, want := range map[string]seconds{"0": 0, "60": 60, "24h": 86400, "90s": 90, "1.5s": 2, "1m30s": 90, "2147483647": 2147483647} {
		var s seconds
		if err := s.Set(value); err != nil || s != want {
			t.Errorf("%q: %d, %v", value, s, err)
		}
	}
	for _, value := range []string{"", "1 day", "-1", "-1s", "2147483648", "600000h", "24x"} {
		s := seconds(7)
		if err := s.Set(value); err == nil || s != 7 {
			t.Errorf("%q: %d, %v", value, s, err)
		}
	}
}
