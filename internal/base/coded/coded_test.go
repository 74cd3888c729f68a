// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package coded

import (
	"errors"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

func TestError(t *testing.T) {
	g := NewWithT(t)
	away := errors.New("the API server is away")
	err := Error(v1alpha1.ErrJob, away)
	g.Expect(err).To(MatchError("the API server is away"))
	g.Expect(err).To(MatchError(away))
	g.Expect(Of(fmt.Errorf("creating: %w", err), v1alpha1.ErrInternal)).To(Equal(v1alpha1.ErrJob))
	g.Expect(Of(errors.Join(away, err), v1alpha1.ErrInternal)).To(Equal(v1alpha1.ErrJob))
	g.Expect(Of(Error(v1alpha1.ErrObserve, err), v1alpha1.ErrInternal)).To(Equal(v1alpha1.ErrObserve), "the outermost")
	g.Expect(Of(away, v1alpha1.ErrInternal)).To(Equal(v1alpha1.ErrInternal))
	g.Expect(Of(nil, v1alpha1.ErrInternal)).To(Equal(v1alpha1.ErrInternal))
	g.Expect(Error(v1alpha1.ErrJob, nil)).To(Succeed())
}
