// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"errors"

	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
)

// Config is spec.config of an OnDemandMaintenance. At least one of the two has to be true.
type Config struct {
	// EtcdCompaction removes what is older than the current revision from the key space.
	EtcdCompaction bool `json:"etcdCompaction,omitempty"`
	// EtcdDefragmentation rewrites the database of each member without what is free.
	EtcdDefragmentation bool `json:"etcdDefragmentation,omitempty"`
}

// decode decodes and validates spec.config. DEP-05 has the fields beneath maintenanceType in its types, and
// without it in its example: both are understood, one at a time.
func decode(config string) (Config, error) {
	var c struct {
		Config
		MaintenanceType *Config `json:"maintenanceType,omitempty"`
	}
	if err := taskconfig.Decode(config, &c); err != nil {
		return Config{}, err
	}
	if c.MaintenanceType != nil {
		if c.Config != (Config{}) {
			return Config{}, errors.New("spec.config: etcdCompaction and etcdDefragmentation stand either beneath maintenanceType or without it, not both")
		}
		c.Config = *c.MaintenanceType
	}
	if c.Config == (Config{}) {
		return Config{}, errors.New("spec.config: at least one of etcdCompaction and etcdDefragmentation has to be true")
	}
	return c.Config, nil
}
