// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"strings"
	"testing"
)

func update(at float64, effect Effect, pod string) Act {
	a := act(at, UpdatePod, pod)
	a.Effect, a.UID = effect, "uid-"+strings.TrimPrefix(pod, "main-")
	return a
}

// restarting is a member whose etcd restarts in its pod: it keeps its UID.
func restarting(at, back float64) []life { return []life{serving(0), silent(at), serving(back)} }

func TestJudgeUpdatesInPlace(t *testing.T) {
	down := [][]life{{serving(0), silent(10)}, {serving(0)}, {serving(0)}}
	for name, test := range map[string]struct {
		lives [][]life
		acts  []Act
		want  []Verdict
		// log is what the kubelet reports.
		log string
	}{
		"a raise": {lives: always(), acts: []Act{update(20, Keeps, "main-0")}, want: []Verdict{Safe}},
		"a raise of all at once": {
			lives: always(), acts: []Act{update(20, Keeps, "main-0"), update(20.1, Keeps, "main-1"), update(20.2, Keeps, "main-2")}, want: []Verdict{Safe, Safe, Safe},
		},
		"a raise while another is down":        {lives: down, acts: []Act{update(20, Keeps, "main-1")}, want: []Verdict{Safe}},
		"a deletion just after a raise":        {lives: always(), acts: []Act{update(20, Keeps, "main-0"), act(20.1, DeletePod, "main-1")}, want: []Verdict{Safe, Safe}},
		"a lowering":                           {lives: always(), acts: []Act{update(20, Lowers, "main-0")}, want: []Verdict{Safe}},
		"a lowering while another is down":     {lives: down, acts: []Act{update(20, Lowers, "main-1")}, want: []Verdict{Unsafe}},
		"a lowering of the one that is down":   {lives: down, acts: []Act{update(20, Lowers, "main-0")}, want: []Verdict{Safe}},
		"a second lowering too soon":           {lives: always(), acts: []Act{update(20, Lowers, "main-0"), update(40, Lowers, "main-1")}, want: []Verdict{Safe, Unsafe}},
		"a second lowering":                    {lives: always(), acts: []Act{update(20, Lowers, "main-0"), update(51, Lowers, "main-1")}, want: []Verdict{Safe, Safe}},
		"a deletion too soon after a lowering": {lives: always(), acts: []Act{update(20, Lowers, "main-0"), act(30, DeletePod, "main-1")}, want: []Verdict{Safe, Unsafe}},
		"a lowered one that fails":             {lives: [][]life{restarting(24, 59), {serving(0)}, {serving(0)}}, acts: []Act{update(20, Lowers, "main-0"), update(51, Lowers, "main-1")}, want: []Verdict{Safe, Unsafe}},
		"a restart":                            {lives: [][]life{restarting(22, 25), {serving(0)}, {serving(0)}}, acts: []Act{update(20, Restarts, "main-0")}, want: []Verdict{Safe}},
		"a restart while another is down":      {lives: down, acts: []Act{update(20, Restarts, "main-1")}, want: []Verdict{Unsafe}},
		"a second restart before the first has begun": {
			lives: always(), acts: []Act{update(20, Restarts, "main-0"), update(21, Restarts, "main-1")}, want: []Verdict{Safe, Unsafe},
		},
		"a second restart before the first is over": {
			lives: [][]life{restarting(22, 27), {serving(0)}, {serving(0)}}, acts: []Act{update(20, Restarts, "main-0"), update(26, Restarts, "main-1")}, want: []Verdict{Safe, Unsafe},
		},
		"one restart after another": {
			lives: [][]life{restarting(22, 25), restarting(28, 30), {serving(0)}},
			acts:  []Act{update(20, Restarts, "main-0"), update(26, Restarts, "main-1"), act(31, DeletePod, "main-2")}, want: []Verdict{Safe, Safe, Safe},
			log: running() + status(23, "main-0", "uid-0", "ended at 22") + status(29, "main-1", "uid-1", "ended at 28"),
		},
		"one answer is missed before the restart has begun": {
			lives: [][]life{restarting(20.2, 20.3), {serving(0)}, {serving(0)}},
			acts:  []Act{update(20, Restarts, "main-0"), act(22, DeletePod, "main-1")}, want: []Verdict{Safe, Unsafe}, log: running(),
		},
		"the kubelet reports that the etcd of another has ended": {
			lives: [][]life{restarting(22, 25), {serving(0)}, {serving(0)}},
			acts:  []Act{update(20, Restarts, "main-0"), update(26, Restarts, "main-1")}, want: []Verdict{Safe, Unsafe},
			log: running() + status(23, "main-2", "uid-2", "ended at 22"),
		},
		"silent long before its restart": {
			lives: [][]life{restarting(5, 7), {serving(0)}, {serving(0)}}, acts: []Act{update(20, Restarts, "main-0"), act(21, DeletePod, "main-1")}, want: []Verdict{Safe, Unsafe},
		},
		"by somebody else, a moment before": {lives: always(), acts: []Act{byOther(update(19, Restarts, "main-0")), act(20, DeletePod, "main-1")}, want: []Verdict{Race}},
		"a raise by somebody else":          {lives: always(), acts: []Act{byOther(update(10, Keeps, "main-0")), act(20, DeletePod, "main-1")}, want: []Verdict{Safe}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Verdict
			cluster := cluster
			cluster.Members = len(test.lives)
			_, containers, err := Read(strings.NewReader(test.log), cluster)
			if err != nil {
				t.Fatal(err)
			}
			judged := Judge(cluster, test.acts, containers, record(test.lives), nil)
			for _, j := range judged {
				got = append(got, j.Verdict)
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("judged %v, want %v", judged, test.want)
			}
		})
	}
}

const created = `{"metadata":{"name":"main-1"},"spec":{"initContainers":[{"name":"prepare","image":"agent:1"}],"containers":[
	{"name":"etcd","image":"etcd:1","resources":{"requests":{"cpu":"500m","memory":"1Gi"},"limits":{"memory":"2Gi"}}},
	{"name":"backup-restore","image":"agent:1","resources":{"requests":{"cpu":1}},"resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"}]}]}}`

func TestWhatAnUpdateDoes(t *testing.T) {
	restartsForCPU := strings.Replace(created, `"image":"etcd:1",`, `"image":"etcd:1","resizePolicy":[{"resourceName":"cpu","restartPolicy":"RestartContainer"},{"resourceName":"memory","restartPolicy":"NotRequired"}],`, 1)
	resize := func(container, resources string) string {
		return line("patch", "pods/resize", "main-1", strings.ReplaceAll(fmt.Sprintf(`{"metadata":{"uid":"u","resourceVersion":"1"},"spec":{"containers":[{"name":%q,"resources":%s}]}}`, container, resources), "\n", ""), 200)
	}
	patch := func(spec string) string {
		return line("patch", "pods", "main-1", fmt.Sprintf(`{"metadata":{"uid":"u"},"spec":{%s}}`, spec), 200)
	}
	create := line("create", "pods", "main-1", strings.Join(strings.Fields(created), ""), 201)
	for name, test := range map[string]struct {
		log  string
		want []Effect
	}{
		"a raise":                               {create + resize("etcd", `{"requests":{"cpu":"0.6","memory":"1200Mi"}}`), []Effect{Keeps}},
		"a lower CPU":                           {create + resize("etcd", `{"requests":{"cpu":"499m"}}`), []Effect{Lowers}},
		"a lower memory, and a higher CPU":      {create + resize("etcd", `{"requests":{"cpu":"1","memory":"1023Mi"}}`), []Effect{Lowers}},
		"a lower limit":                         {create + resize("etcd", `{"limits":{"memory":"2000Mi"}}`), []Effect{Lowers}},
		"a limit where there was none":          {create + resize("etcd", `{"limits":{"cpu":"9"}}`), []Effect{Lowers}},
		"a request where there was none":        {create + resize("etcd", `{"requests":{"ephemeral-storage":"1Gi"}}`), []Effect{Keeps}},
		"a request that is removed":             {create + resize("etcd", `{"requests":{"cpu":null}}`), []Effect{Lowers}},
		"no quantity":                           {create + resize("etcd", `{"requests":{"cpu":"much"}}`), []Effect{Restarts}},
		"the same in other units":               {create + resize("etcd", `{"requests":{"cpu":"0.5","memory":1073741824}}`), []Effect{Keeps}},
		"a lower one of the agent":              {create + resize("backup-restore", `{"requests":{"cpu":"900m"}}`), []Effect{Lowers}},
		"one of the agent that restarts it":     {create + resize("backup-restore", `{"requests":{"cpu":2}}`), []Effect{Keeps}},
		"lower than the one before":             {create + resize("etcd", `{"requests":{"cpu":"900m"}}`) + resize("etcd", `{"requests":{"cpu":"800m"}}`), []Effect{Keeps, Lowers}},
		"a raise that restarts etcd":            {line("create", "pods", "main-1", strings.Join(strings.Fields(restartsForCPU), ""), 201) + resize("etcd", `{"requests":{"cpu":"600m"}}`), []Effect{Restarts}},
		"a raise of what does not restart etcd": {line("create", "pods", "main-1", strings.Join(strings.Fields(restartsForCPU), ""), 201) + resize("etcd", `{"requests":{"memory":"3Gi"}}`), []Effect{Keeps}},
		"the image of etcd":                     {create + patch(`"containers":[{"name":"etcd","image":"etcd:2"}]`), []Effect{Restarts}},
		"the same image of etcd":                {create + patch(`"containers":[{"name":"etcd","image":"etcd:1"}]`), []Effect{Keeps}},
		"the images of the agent":               {create + patch(`"initContainers":[{"name":"prepare","image":"agent:2"}],"containers":[{"name":"backup-restore","image":"agent:2"}]`), []Effect{Keeps}},
		"a container that it does not have":     {create + patch(`"containers":[{"name":"new","image":"agent:2"}]`), []Effect{Restarts}},
		"no list of containers":                 {create + patch(`"containers":"x"`), []Effect{Restarts}},
		"a pod whose creation was not seen":     {resize("etcd", `{"requests":{"cpu":"900m"}}`), []Effect{Restarts}},
		"a pod that is replaced":                {create + resize("etcd", `{"requests":{"cpu":"900m"}}`) + create + resize("etcd", `{"requests":{"cpu":"800m"}}`), []Effect{Keeps, Keeps}},
		"a write that failed before":            {create + strings.Replace(resize("etcd", `{"requests":{"cpu":"900m"}}`), `"code":200`, `"code":409`, 1) + resize("etcd", `{"requests":{"cpu":"800m"}}`), []Effect{Keeps}},
	} {
		t.Run(name, func(t *testing.T) {
			acts, _, err := Read(strings.NewReader(test.log), cluster)
			if err != nil {
				t.Fatal(err)
			}
			var got []Effect
			for _, a := range acts {
				got = append(got, a.Effect)
				if a.Kind != UpdatePod || a.UID != "u" {
					t.Errorf("%+v", a)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "0.5": 0.5, "500m": 0.5, "1Ki": 1024, "2Gi": 2 << 30, "3M": 3e6, "1e3": 1000, "2E": 2e18, "100n": 1e-7} {
		if got, ok := amount(text); !ok || got < want*0.999999 || got > want*1.000001 {
			t.Errorf("%s is %g (%t), want %g", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "m", "1 Gi", "1Gx", "NaN"} {
		if got, ok := amount(text); ok {
			t.Errorf("%q is %g", text, got)
		}
	}
}

func TestWhatAnUpdateChanges(t *testing.T) {
	create := line("create", "pods", "main-1", strings.Join(strings.Fields(created), ""), 201)
	etcd := func(what string) string { return `{"spec":{"containers":[{"name":"etcd",` + what + `}]}}` }
	for name, test := range map[string]struct {
		resource, body string
		want           Change
	}{
		"a raise":                       {"pods/resize", etcd(`"resources":{"requests":{"cpu":"600m"}}`), Raised},
		"a limit":                       {"pods/resize", etcd(`"resources":{"limits":{"memory":"1Gi"}}`), Lowered},
		"a higher limit":                {"pods/resize", etcd(`"resources":{"limits":{"memory":"3Gi"}}`), Raised},
		"no quantity":                   {"pods/resize", etcd(`"resources":{"requests":{"cpu":"much"}}`), Restarting},
		"the agent's resources":         {"pods/resize", strings.Replace(etcd(`"resources":{"requests":{"cpu":"2"}}`), "etcd", "backup-restore", 1), Raised},
		"the image of etcd":             {"pods", etcd(`"image":"etcd:2"`), EtcdImage},
		"the image of the agent":        {"pods", strings.Replace(etcd(`"image":"agent:2"`), "etcd", "backup-restore", 1), AgentImage},
		"the image of a init container": {"pods", `{"spec":{"initContainers":[{"name":"prepare","image":"agent:2"}]}}`, AgentImage},
		"labels":                        {"pods", `{"metadata":{"labels":{"a":"b","controller-revision-hash":"c"}}}`, Labels},
		"what cannot be read":           {"pods", `{"spec":{"containers":7}}`, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			acts, _, err := Read(strings.NewReader(create+line("patch", test.resource, "main-1", test.body, 200)), cluster)
			keeps := test.want == Raised || test.want == AgentImage || test.want == Labels
			if err != nil || len(acts) != 1 || acts[0].Change != test.want || (acts[0].Effect == Keeps) != keeps {
				t.Errorf("%+v, %v; want %q", acts, err, test.want)
			}
		})
	}
}
