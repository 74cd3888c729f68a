// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import "errors"

// Config is spec.config of an OnDemandMaintenance. DEP-05 has the operations beneath maintenanceType in its types, and without it in
// its example: both are understood, one at a time.
type Config struct {
	Operations
	// MaintenanceType is nil once the config is decoded.
	MaintenanceType *Operations `json:"maintenanceType,omitempty"`
}

// Operations are what to do. At least one of the two has to be true.
type Operations struct {
	// EtcdCompaction removes what is older than the current revision from the key space.
	EtcdCompaction bool `json:"etcdCompaction,omitempty"`
	// EtcdDefragmentation rewrites the database of each member without what is free.
	EtcdDefragmentation bool `json:"etcdDefragmentation,omitempty"`
}

// Default implements taskconfig.Config.
func (c *Config) Default() {}

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	if c.MaintenanceType != nil {
		if c.Operations != (Operations{}) {
			return errors.New("etcdCompaction and etcdDefragmentation stand either beneath maintenanceType or without it, not both")
		}
		c.Operations, c.MaintenanceType = *c.MaintenanceType, nil
	}
	if c.Operations == (Operations{}) {
		return errors.New("at least one of etcdCompaction and etcdDefragmentation has to be true")
	}
	return nil
}
