// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/command"
	"github.com/etcd-foreman/etcd-foreman/test/local/internal/layout"
)

// NameImage gives an image of the container runtime another name, so that a pod can change its image without a change of its programs.
func NameImage(ctx context.Context, image, name string) error {
	if err := command.Run(ctx, "ctr", "--address", layout.ContainerdSocket, "--namespace", "k8s.io", "images", "tag", "--force", image, name); err != nil {
		return fmt.Errorf("naming image %s: %w", image, err)
	}
	return nil
}
