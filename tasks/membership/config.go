// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import "fmt"

// Config is spec.config of a MembershipChange. Every field is optional.
type Config struct {
	// Size is the number of members that the task is for: 1, 3 or 5. The task is superseded once spec.replicas of the Etcd is another
	// number. Default: whatever spec.replicas is.
	Size int32 `json:"size,omitempty"`
	// SingleMember agrees that one member remains where a failure was tolerated, as the annotation allow-single-member of the Etcd
	// does. Default false.
	SingleMember bool `json:"singleMember,omitempty"`
}

// Default implements taskconfig.Config.
func (c *Config) Default() {}

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	switch c.Size {
	case 0, 1, 3, 5:
		return nil
	}
	return fmt.Errorf("size is %d: it must be 1, 3 or 5", c.Size)
}
