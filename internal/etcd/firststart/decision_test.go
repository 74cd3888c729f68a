// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"fmt"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

const blockedBy, looks = v1alpha1.ReasonFirstStartBlocked, v1alpha1.ReasonSurveyingVolumes

// own is the ID of the cluster that the members would bootstrap.
const own = "0123"

// recreated returns the input of an Etcd of three members beside three claims, which were surveyed and hold data of cluster cafe.
func recreated(change ...func(*input)) input {
	f := input{members: 3, set: true, own: own, round: "r"}
	for i := range 5 {
		v := survey.Volume{Member: fmt.Sprintf("m-%d", i), Claim: fmt.Sprintf("c-%d", i)}
		if i < 3 {
			v.State, v.UID = survey.Seen, types.UID(fmt.Sprint(i))
			v.Survey = member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: fmt.Sprint(i), Voters: []string{"0", "1", "2"}, LastTerm: 2, LastIndex: uint64(100 + i)}
			f.claims = append(f.claims, fmt.Sprint(i))
		}
		f.volumes, f.jobsOf = append(f.volumes, v), append(f.jobsOf, fmt.Sprintf("job-%d", i))
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func volume(i int, change func(*survey.Volume)) func(*input) {
	return func(f *input) { change(&f.volumes[i]) }
}

func content(s member.Survey) func(*survey.Volume) {
	return func(v *survey.Volume) { v.State, v.Survey = survey.Seen, s }
}

func in(state survey.State, message string) func(*survey.Volume) {
	return func(v *survey.Volume) { v.State, v.Survey, v.Message = state, member.Survey{}, message }
}

var (
	nothing    = content(member.Survey{State: member.SurveyNone})
	gone       = in(survey.Gone, "")
	damaged    = content(member.Survey{State: member.SurveyDamaged, Damage: "the log", ClusterID: "cafe"})
	unnamed    = content(member.Survey{State: member.SurveyDamaged, Damage: "the log"})
	another    = content(member.Survey{State: member.SurveyPresent, ClusterID: "beef", Voters: []string{"7"}, MemberID: "7", LastTerm: 9})
	setAside   = content(member.Survey{State: member.SurveyNone, SetAside: []string{"new.etcd.before-x"}})
	unreceived = content(member.Survey{State: member.SurveyNone, ClusterID: "cafe"})
	beginning  = content(member.Survey{State: member.SurveyPresent, ClusterID: own, MemberID: "0", Voters: []string{"0", "1", "2"}, LastTerm: 1, LastIndex: 3})
	elected    = content(member.Survey{State: member.SurveyPresent, ClusterID: own, MemberID: "0", Voters: []string{"0", "1", "2"}, LastTerm: 2, LastIndex: 4})
	onlyVoter  = content(member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: "0", Voters: []string{"0"}, LastTerm: 2, LastIndex: 9})
	removed    = content(member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: "2", Voters: []string{"0", "1"}, LastTerm: 1, LastIndex: 7, Removed: true})
	empty      = func(f *input) { volume(0, nothing)(f); volume(1, nothing)(f); volume(2, nothing)(f) }
	none       = func(f *input) { f.claims, f.volumes = nil, nil }
	permitted  = func(f *input) { f.permit = &member.FirstStart{Etcd: "e", Round: "r", Claims: []string{"0", "1", "2"}} }
	recordedAs = func(id string) func(*input) { return func(f *input) { f.recorded = id } }
	asFive     = func(f *input) {
		f.members, f.own, f.foundings = 5, "4567", map[string]founding{own: {3, true}, "4567": {5, false}}
	}
	onlyTheFirst = func(of func(*survey.Volume)) func(*input) {
		return func(f *input) { volume(0, of)(f); volume(1, gone)(f); volume(2, nothing)(f) }
	}
)

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		in     input
		step   step
		reason string
		says   string
		begins bool
		found  *Cluster
	}{
		"no claims":                                      {recreated(none), wait, "", "", true, nil},
		"no claims, nor a StatefulSet":                   {recreated(none, func(f *input) { f.set = false }), wait, "", "", true, nil},
		"no claims, permitted already":                   {recreated(none, func(f *input) { f.permit = &member.FirstStart{Etcd: "e"} }), wait, "", "", true, nil},
		"no claims, and the ConfigMap records a cluster": {recreated(none, recordedAs("cafe")), wait, looks, "the ConfigMap records cluster cafe", false, &Cluster{"cafe", 3}},

		"a foreign claim":                        {recreated(func(f *input) { f.set, f.foreign = false, []string{"claim c-1 is web's"} }), wait, blockedBy, "c-1 is web's", false, nil},
		"claims, and no StatefulSet":             {recreated(func(f *input) { f.set = false }), wait, looks, "is created without replicas", false, nil},
		"pods are left":                          {recreated(func(f *input) { f.pods = []string{"m-0", "m-1"} }), wait, looks, "pods that are left: m-0, m-1", false, nil},
		"pods are left, and claims go":           {recreated(none, func(f *input) { f.pods = []string{"m-0"} }), wait, looks, "m-0", false, nil},
		"pods that the next one adopts":          {recreated(func(f *input) { f.adopts, f.set, f.pods = true, false, []string{"m-0"} }), wait, "", "", false, nil},
		"a permission without a survey":          {recreated(func(f *input) { f.permit = &member.FirstStart{Etcd: "e"} }), withdraw, looks, "have not been surveyed", false, nil},
		"a permission of an earlier round":       {recreated(permitted, func(f *input) { f.round = "s" }), withdraw, looks, "have not been surveyed", false, nil},
		"a claim that came since":                {recreated(permitted, func(f *input) { f.claims = append(f.claims, "new") }), withdraw, looks, "have not been surveyed", false, nil},
		"a permission beside a recorded cluster": {recreated(permitted, recordedAs("cafe")), withdraw, looks, "", false, nil},
		"surveyed, Jobs are left":                {recreated(permitted, func(f *input) { f.jobs = true }), removeJobs, looks, "removing the Jobs", false, nil},
		"surveyed":                               {recreated(permitted), wait, "", "", true, nil},
		"surveyed, and a claim was deleted":      {recreated(permitted, func(f *input) { f.claims = f.claims[1:] }), wait, "", "", true, nil},

		"to be surveyed":                    {recreated(volume(1, in(survey.Unseen, "Job j"))), surveyVolumes, looks, "Job j", false, nil},
		"being surveyed":                    {recreated(volume(1, in(survey.Looking, "claim c-1 of m-1 is being surveyed"))), wait, looks, "claim c-1 of m-1", false, nil},
		"cannot be read":                    {recreated(volume(1, in(survey.Unread, "the content of claim c-1 is unknown"))), wait, blockedBy, "claim c-1 is unknown", false, nil},
		"of another":                        {recreated(volume(1, in(survey.Foreign, "claim c-1 is web's"))), wait, blockedBy, "claim c-1 is web's", false, nil},
		"unreadable, others to be surveyed": {recreated(volume(1, in(survey.Unread, "unknown")), volume(0, in(survey.Unseen, "j"))), surveyVolumes, blockedBy, "unknown", false, nil},

		"all volumes are empty":                              {recreated(empty), permit, looks, "no volume holds data", false, nil},
		"empty, and the ConfigMap records a cluster":         {recreated(empty, recordedAs("cafe")), wait, looks, "the ConfigMap records cluster cafe", false, &Cluster{"cafe", 3}},
		"empty, and data was set aside":                      {recreated(empty, volume(1, setAside)), wait, blockedBy, "claim c-1 of m-1 has new.etcd.before-x; rename it to new.etcd to use it", false, nil},
		"data was set aside, and others have it":             {recreated(volume(2, setAside)), wait, looks, "c-0, c-1", false, &Cluster{"cafe", 3}},
		"data was set aside, and others have no quorum":      {recreated(volume(0, gone), volume(2, setAside)), wait, blockedBy, "c-1 hold data of cluster cafe, but not that of a quorum, and some was set aside: claim c-2 of m-2 has new.etcd.before-x", false, nil},
		"interrupted while it began, and data was set aside": {recreated(onlyTheFirst(beginning), volume(2, setAside)), wait, blockedBy, "c-2", false, nil},
		"all data":                {recreated(), wait, looks, "claims c-0, c-1, c-2 hold data of cluster cafe", false, &Cluster{"cafe", 3}},
		"data of a quorum":        {recreated(volume(2, gone)), wait, looks, "c-0, c-1", false, &Cluster{"cafe", 3}},
		"data of less":            {recreated(onlyTheFirst(func(*survey.Volume) {})), wait, looks, "c-0 hold data", false, &Cluster{"cafe", 3}},
		"data of a single member": {recreated(onlyTheFirst(onlyVoter)), wait, looks, "cafe", false, &Cluster{"cafe", 1}},
		"data of a single member, and of one that left": {recreated(onlyTheFirst(onlyVoter), volume(2, removed)), wait, looks, "cafe", false, &Cluster{"cafe", 1}},
		"data of members that left":                     {recreated(onlyTheFirst(removed)), wait, blockedBy, "only data of members that were removed from their cluster: claim c-0 of m-0 holds data of cluster cafe", false, nil},
		"of more members":                               {recreated(func(f *input) { f.members = 1 }), wait, looks, "cafe", false, &Cluster{"cafe", 3}},
		"beyond the replicas":                           {recreated(empty, func(f *input) { f.members = 1 }, volume(4, onlyVoter)), wait, looks, "c-4", false, &Cluster{"cafe", 5}},
		"the recorded cluster":                          {recreated(recordedAs("cafe")), wait, looks, "cafe", false, &Cluster{"cafe", 3}},
		"not the recorded cluster":                      {recreated(recordedAs("dead")), wait, blockedBy, "records cluster dead", false, nil},
		"not the recorded cluster, on one volume":       {recreated(recordedAs("dead"), onlyTheFirst(func(*survey.Volume) {})), wait, blockedBy, "records cluster dead", false, nil},
		"less than a quorum of the voters that the most advanced knows, and some was set aside": {
			recreated(volume(0, onlyVoter), volume(1, func(v *survey.Volume) { v.Survey.Voters = []string{"0", "1", "2", "3", "4"} }), volume(2, setAside)),
			wait, blockedBy, "but not that of a quorum, and some was set aside", false, nil,
		},
		"of two clusters":                           {recreated(volume(1, another)), wait, blockedBy, "claim c-1 of m-1 holds data of cluster beef", false, nil},
		"of two, one damaged":                       {recreated(volume(1, another), volume(0, damaged), volume(2, gone)), wait, blockedBy, "claim c-0 of m-0 holds damaged data (the log) of cluster cafe", false, nil},
		"of two, one of which nothing was received": {recreated(volume(0, unreceived), volume(1, another), volume(2, gone)), wait, blockedBy, "delete its Job (job-0, job-1)", false, nil},
		"some is damaged":                           {recreated(volume(1, unnamed)), wait, looks, "c-0, c-1, c-2", false, &Cluster{"cafe", 3}},
		"all is damaged":                            {recreated(onlyTheFirst(damaged)), wait, looks, "c-0", false, &Cluster{"cafe", 3}},
		"all of a single member is damaged":         {recreated(onlyTheFirst(damaged), func(f *input) { f.members = 1 }), wait, looks, "c-0", false, &Cluster{"cafe", 1}},
		"damaged, of no known cluster":              {recreated(onlyTheFirst(unnamed)), wait, blockedBy, "Delete each claim whose data is not wanted", false, nil},

		"interrupted while it began":      {recreated(onlyTheFirst(beginning)), permit, looks, "acknowledged", false, nil},
		"it may have acknowledged":        {recreated(onlyTheFirst(elected)), wait, looks, "c-0", false, &Cluster{own, 3}},
		"interrupted, a quorum has begun": {recreated(volume(0, beginning), volume(1, beginning), volume(1, func(v *survey.Volume) { v.Survey.MemberID = "1" }), volume(2, gone)), wait, looks, "c-0, c-1", false, &Cluster{own, 3}},
		"another was interrupted":         {recreated(func(f *input) { f.own = "4567" }, onlyTheFirst(beginning)), wait, looks, "c-0", false, &Cluster{own, 3}},
		"interrupted, of another size": {recreated(asFive, onlyTheFirst(beginning)), wait, blockedBy,
			"begun with spec.replicas: 3 and peer TLS has had no leader, and the Etcd is to begin one with spec.replicas: 5 and no peer TLS: to continue the first, change the spec back; claim c-0 of m-0 holds data of cluster 0123. Delete each claim", false, nil},
		"interrupted, of another size, and it is the only one now": {recreated(asFive, func(f *input) { f.members = 1 }, onlyTheFirst(beginning)), wait, blockedBy, "has had no leader", false, nil},
		"of another size, a quorum has begun":                      {recreated(asFive, volume(0, beginning), volume(1, beginning), volume(1, func(v *survey.Volume) { v.Survey.MemberID = "1" }), volume(2, gone)), wait, looks, "c-0, c-1", false, &Cluster{own, 3}},
		"of another size, and it may have acknowledged":            {recreated(asFive, onlyTheFirst(elected)), wait, looks, "c-0", false, &Cluster{own, 3}},
		"of another size, and recorded":                            {recreated(asFive, recordedAs(own), onlyTheFirst(beginning)), wait, looks, "c-0", false, &Cluster{own, 3}},
		"of another size, and data was set aside":                  {recreated(asFive, onlyTheFirst(beginning), volume(2, setAside)), wait, blockedBy, "and some was set aside", false, nil},
		"interrupted, one is damaged":                              {recreated(volume(0, beginning), volume(1, unnamed), volume(2, gone)), wait, looks, "c-0, c-1", false, &Cluster{own, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decide(c.in)
			g.Expect(d.step).To(Equal(c.step), d.why)
			g.Expect(d.reason).To(Equal(c.reason), d.why)
			g.Expect(d.why).To(ContainSubstring(c.says))
			g.Expect(d.begins).To(Equal(c.begins))
			g.Expect(d.found).To(Equal(c.found))
		})
	}
}

// These promises hold for all volumes of three members, and one beyond.
func TestDecidePromises(t *testing.T) {
	kinds := []func(*survey.Volume){
		gone, nothing, setAside, damaged, unnamed, another, unreceived, beginning, onlyVoter,
		in(survey.Unseen, "unseen"), in(survey.Looking, "looking"), in(survey.Unread, "unread"), in(survey.Foreign, "foreign"),
		content(member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: "1", Voters: []string{"0", "1", "2"}, LastTerm: 2, LastIndex: 9}),
	}
	permits := []*member.FirstStart{nil, {Etcd: "e"}, {Etcd: "e", Round: "r", Claims: []string{"0", "1"}}, {Etcd: "e", Round: "q", Claims: []string{"0", "1", "2"}}}
	n := 0
	for i := range len(kinds) * len(kinds) * len(kinds) * len(permits) * 3 * 4 {
		pick := func(n int) int { r := i % n; i /= n; return r }
		f := input{members: 3, own: own, round: "r", permit: permits[pick(len(permits))], recorded: []string{"", "cafe", "dead"}[pick(3)]}
		switch pick(4) {
		case 0:
			f.set = true
		case 1:
			f.set, f.jobs = true, true
		case 2:
			f.set, f.pods = true, []string{"m-0"}
		}
		for o, kind := range []func(*survey.Volume){kinds[pick(len(kinds))], kinds[pick(len(kinds))], kinds[pick(len(kinds))]} {
			v := survey.Volume{Member: fmt.Sprintf("m-%d", o), Claim: fmt.Sprintf("c-%d", o)}
			if kind(&v); v.State != survey.Gone {
				v.UID, f.claims = types.UID(fmt.Sprint(o)), append(f.claims, fmt.Sprint(o))
			}
			f.volumes, f.jobsOf = append(f.volumes, v), append(f.jobsOf, fmt.Sprintf("job-%d", o))
		}
		n++
		check(t, f, decide(f))
	}
	t.Logf("%d worlds", n)
}

func check(t *testing.T, f input, d decision) {
	unknown := slices.ContainsFunc(f.volumes, func(v survey.Volume) bool { return v.State != survey.Gone && v.State != survey.Seen })
	data := slices.ContainsFunc(f.volumes, func(v survey.Volume) bool {
		return v.State == survey.Seen && (v.Survey.State != member.SurveyNone || len(v.Survey.SetAside) > 0) && (v.Survey.ClusterID != own || v.Survey.LastTerm > 1)
	})
	looked := f.permit != nil && f.permit.Round == f.round && !slices.ContainsFunc(f.claims, func(uid string) bool { return !slices.Contains(f.permit.Claims, uid) })
	for promise, broken := range map[string]bool{
		"nothing begins beside a claim that was not looked at": d.begins && len(f.claims) > 0 && !looked,
		"nothing begins where a cluster is recorded":           (d.begins || d.step == permit) && f.recorded != "",
		"no permission beside data, or what is not known":      d.step == permit && (data || unknown),
		"nothing is surveyed, or found, while pods are left":   (d.step == surveyVolumes || d.step == permit) && len(f.pods) > 0,
		"a cluster is found by what all volumes say":           d.found != nil && len(f.claims) > 0 && unknown,
		"one that is found is on a volume, or recorded":        d.found != nil && d.found.ID != f.recorded && !slices.ContainsFunc(f.volumes, func(v survey.Volume) bool { return v.Survey.ClusterID == d.found.ID }),
		"one that is found is the only one":                    d.found != nil && slices.ContainsFunc(f.volumes, func(v survey.Volume) bool { return v.Survey.ClusterID != "" && v.Survey.ClusterID != d.found.ID }),
		"members start only with an answer":                    d.why == "" && !d.begins && !f.adopts,
		"a permission that rests on nothing is withdrawn":      f.set && len(f.pods) == 0 && len(f.claims) > 0 && f.permit != nil && !looked && d.step != withdraw,
		"what is waited for is said":                           (d.why == "") != (d.reason == ""),
		"no Job is removed before what it found is recorded":   d.step == removeJobs && !looked,
	} {
		if broken {
			t.Errorf("%s: %+v decides %+v", promise, f, d)
		}
	}
}
