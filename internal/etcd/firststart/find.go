// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// find reads the input of a decision from the API server, as far as it is needed.
func (s Starter) find(ctx context.Context, reads state.Live, st *state.State, peerTLS component.PeerTLS) (input, error) {
	etcd, set := st.Etcd, st.StatefulSet
	f := input{members: int(members(etcd)), set: set != nil, own: component.BootstrappedID(etcd, members(etcd), peerTLS), foundings: foundings(etcd), round: round(set)}
	if err := upToDate(ctx, reads, st); err != nil {
		return f, err
	}
	claims, err := s.claims(ctx, reads, etcd)
	if err != nil {
		return f, err
	}
	for _, c := range claims {
		if foreign := ownership.OfClaim(etcd, &c); foreign != nil {
			f.foreign = append(f.foreign, foreign.String())
		}
		if c.DeletionTimestamp == nil {
			f.claims = append(f.claims, string(c.UID))
		}
	}
	if len(claims) > 0 {
		if f.adopts, f.pods, err = s.pods(ctx, reads, st); err != nil {
			return f, err
		}
	}
	config, err := memberconfig.ConfigMap(ctx, reads, etcd, st.Manager)
	if err != nil {
		return f, err
	}
	f.permit, f.recorded = written(etcd, config)
	if len(f.claims) == 0 || len(f.foreign) > 0 || !f.set || f.adopts || len(f.pods) > 0 {
		return f, nil
	}
	if f.surveyed() {
		f.jobs, err = job.AnyLeft(ctx, s.API, etcd, s.order(etcd, set).Jobs())
		return f, err
	}
	f.volumes, err = s.survey(ctx, etcd, set, claims)
	for _, key := range s.order(etcd, set).Jobs() {
		f.jobsOf = append(f.jobsOf, key.Name)
	}
	return f, err
}

// foundings returns how clusters of an Etcd may have begun, by ID: the spec may have had another size, or another peer TLS.
func foundings(etcd *v1alpha1.Etcd) map[string]founding {
	all := map[string]founding{}
	for _, n := range []int32{1, 3, 5, members(etcd)} {
		for _, stage := range []component.PeerTLS{component.PeerTLSOff, component.PeerTLSOn} {
			all[component.BootstrappedID(etcd, n, stage)] = founding{int(n), stage == component.PeerTLSOn}
		}
	}
	return all
}

// upToDate returns state.ErrBehind if the Etcd records a cluster by now, or its StatefulSet was scaled, created or deleted.
func upToDate(ctx context.Context, reads state.Live, st *state.State) error {
	etcd, err := reads.Etcd(ctx, st.Etcd)
	if err != nil {
		return err
	}
	set, err := state.StatefulSet(ctx, reads, etcd)
	if err != nil {
		return err
	}
	seen := st.StatefulSet
	switch {
	case etcd.Generation != st.Etcd.Generation || etcd.Status.ClusterID != "" || etcd.Status.Recovery != nil:
		return state.Behind(ctx, "the spec of Etcd %s has changed, or it records a cluster", client.ObjectKeyFromObject(etcd))
	case (set == nil) != (seen == nil) || set != nil && (set.UID != seen.UID || set.Generation != seen.Generation):
		return state.Behind(ctx, "StatefulSet %s was scaled, created or deleted", client.ObjectKeyFromObject(etcd))
	}
	return nil
}

// members returns how many members an Etcd asks for, or had when its cluster was recorded.
func members(etcd *v1alpha1.Etcd) int32 { return max(etcd.Spec.Replicas, etcd.Status.ClusterSize) }

// round returns the round of surveys. Results from before the StatefulSet was scaled do not count: members that a user has started since
// may have written data.
func round(set *appsv1.StatefulSet) string {
	if set == nil {
		return ""
	}
	return fmt.Sprintf("first-start/%s/%d", set.UID, set.Generation)
}

// claims returns the claims that members may use, now or after a scale-out. It omits foreign claims beyond the wanted members.
func (s Starter) claims(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (found []corev1.PersistentVolumeClaim, err error) {
	for i := range int32(survey.MaxMembers) {
		c, err := lookup.Get[corev1.PersistentVolumeClaim](ctx, reader, "claim", client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.ClaimName(i)})
		if err != nil {
			return nil, err
		} else if c != nil && (i < members(etcd) || ownership.OfClaim(etcd, c) == nil) {
			found = append(found, *c)
		}
	}
	return found, nil
}

// pods returns the member pods that have to terminate before volumes are surveyed. Without a StatefulSet, pods without a controller keep
// running: the next StatefulSet adopts them.
func (s Starter) pods(ctx context.Context, reader client.Reader, st *state.State) (adopts bool, left []string, err error) {
	selector := labels.SelectorFromSet(component.MemberSelector(st.Etcd.Name, st.PodsManagedBy))
	for i := range int32(survey.MaxMembers) {
		p, err := lookup.Get[corev1.Pod](ctx, reader, "pod", client.ObjectKey{Namespace: st.Etcd.Namespace, Name: st.Etcd.PodName(i)})
		if err != nil {
			return false, nil, err
		} else if p == nil {
			continue
		}
		if st.StatefulSet == nil && metav1.GetControllerOf(p) == nil && p.DeletionTimestamp == nil && selector.Matches(labels.Set(p.Labels)) {
			adopts = true
		}
		left = append(left, p.Name)
	}
	return adopts, left, nil
}

// written returns what the ConfigMap says: the permission that was given to this Etcd, and the ID of its cluster.
func written(etcd *v1alpha1.Etcd, config *corev1.ConfigMap) (permit *member.FirstStart, clusterID string) {
	if config == nil || ownership.Of(etcd, "ConfigMap", config) != nil {
		return nil, ""
	}
	permit = member.ParseFirstStart(config.Data[member.KeyFirstStart])
	if permit != nil && permit.Etcd != string(etcd.UID) {
		permit = nil
	}
	return permit, config.Data[member.KeyClusterID]
}

// mayHold reports whether a claim may hold data: it has a volume, or gets one that is made from a data source.
func mayHold(c *corev1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeName != "" || c.Spec.DataSource != nil || c.Spec.DataSourceRef != nil
}

// survey returns the volumes of all members that may have existed.
func (s Starter) survey(ctx context.Context, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim) ([]survey.Volume, error) {
	volumes, err := s.Surveyor().Look(ctx, s.order(etcd, set))
	if err != nil {
		return nil, err
	}
	for i := range volumes {
		v := &volumes[i]
		at := slices.IndexFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return c.UID == v.UID })
		switch {
		case at < 0:
			// There is no claim, or a foreign one beyond the wanted members.
			*v = survey.Volume{Member: v.Member, Claim: v.Claim, State: survey.Gone}
		case v.State == survey.Unseen && !mayHold(&claims[at]):
			v.State, v.Survey, v.Message = survey.Seen, member.Survey{State: member.SurveyNone}, ""
		}
	}
	return volumes, nil
}

func (s Starter) order(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) survey.Order {
	return survey.Order{
		Etcd: etcd, Owner: job.OfEtcd(etcd), Members: survey.MaxMembers, Round: round(set), Image: s.Images.EtcdAgent, Timeout: jobTimeout,
	}
}
