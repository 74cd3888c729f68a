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

// TagImage gives an image of the local Kubernetes a second name, as a release that changes nothing has.
func TagImage(ctx context.Context, image, name string) error {
	if err := command.Run(ctx, "ctr", "--address", layout.ContainerdSocket, "--namespace", "k8s.io", "images", "tag", "--force", image, name); err != nil {
		return fmt.Errorf("naming image %s %s: %w", image, name, err)
	}
	return nil
}
