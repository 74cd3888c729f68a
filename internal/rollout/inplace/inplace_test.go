// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func amounts(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func base() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "a", v1alpha1.LabelPartOf: "main"}, Annotations: map[string]string{"note": "a", "checksum/etcd-config": "1"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: v1alpha1.InitContainerPrepare, Image: "agent:1"}},
			Containers: []corev1.Container{
				{Name: v1alpha1.ContainerEtcd, Image: "etcd:1", Resources: corev1.ResourceRequirements{Requests: amounts("500m", "1Gi")},
					Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: 2379}}},
				{Name: v1alpha1.ContainerBackupRestore, Image: "agent:1", Resources: corev1.ResourceRequirements{Requests: amounts("10m", "64Mi")}},
			},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func with(changes ...func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
	t := base()
	for _, c := range changes {
		c(t)
	}
	return t
}

func stored(t *testing.T, template *corev1.PodTemplateSpec) *Template {
	t.Helper()
	raw, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParseTemplate(fmt.Appendf(nil, `{"spec":{"template":%s}}`, raw))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// podOf is a running pod of a template, as the StatefulSet controller, the API server and the kubelet make it.
func podOf(template *corev1.PodTemplateSpec, revision string) *corev1.Pod {
	template = template.DeepCopy()
	p := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	p.UID, p.ResourceVersion, p.Generation = "uid", "7", 1
	p.Labels[appsv1.StatefulSetRevisionLabel], p.Labels["statefulset.kubernetes.io/pod-name"] = revision, "main-0"
	p.Spec.NodeName, p.Spec.Hostname = "node", "main-0"
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data"})
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.TerminationMessagePath = "/dev/termination-log"
		for name, limit := range c.Resources.Limits {
			if _, found := c.Resources.Requests[name]; !found {
				if c.Resources.Requests == nil {
					c.Resources.Requests = corev1.ResourceList{}
				}
				c.Resources.Requests[name] = limit
			}
		}
	}
	carryOut(p)
	return p
}

// carryOut is the kubelet: it resizes and restarts what has changed.
func carryOut(p *corev1.Pod) {
	before := p.Status.DeepCopy()
	p.Status.ContainerStatuses, p.Status.ObservedGeneration, p.Status.Conditions = nil, p.Generation, nil
	for _, c := range p.Spec.Containers {
		s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ContainerID: "1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: c.Resources.DeepCopy()}
		for _, b := range before.ContainerStatuses {
			if b.Name == c.Name {
				s.ContainerID, s.RestartCount = b.ContainerID, b.RestartCount
				if b.Image != c.Image {
					s.ContainerID, s.RestartCount = b.ContainerID+"1", b.RestartCount+1
				}
			}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
}

// apply is the API server.
func apply(t *testing.T, p *corev1.Pod, w Write) {
	t.Helper()
	raw, err := json.Marshal(w.Patch)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patchPod(p, raw)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(patched.Spec, p.Spec) {
		patched.Generation++
	}
	patched.ResourceVersion += "0"
	*p = *patched
}

func etcd(t *corev1.PodTemplateSpec) *corev1.Container  { return &t.Spec.Containers[0] }
func agent(t *corev1.PodTemplateSpec) *corev1.Container { return &t.Spec.Containers[1] }

func requested(cpu, memory string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { etcd(t).Resources.Requests = amounts(cpu, memory) }
}

func agentImage(image string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.InitContainers[0].Image, agent(t).Image = image, image
	}
}

func etcdImage(t *corev1.PodTemplateSpec) { etcd(t).Image = "etcd:2" }

func note(value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Annotations["note"] = value }
}

func caseOf(t *testing.T, p *corev1.Pod, target string, templates map[string]*corev1.PodTemplateSpec) Input {
	c := Input{Pod: p, TargetName: target, Templates: map[string]*Template{}}
	for name, template := range templates {
		c.Templates[name] = stored(t, template)
	}
	return c
}

func kinds(writes []Write) []string {
	var all []string
	for _, w := range writes {
		name := string(w.Kind)
		if w.Disrupts {
			name += "!"
		}
		if w.Final {
			name += "."
		}
		all = append(all, name)
	}
	return all
}

// Every write of every update, in order; "!" disrupts a member, "." is the last.
func TestWrites(t *testing.T) {
	limited := func(cpu, memory string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { etcd(t).Resources.Limits = amounts(cpu, memory) }
	}
	restarting := func(t *corev1.PodTemplateSpec) {
		etcd(t).ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}
	for name, c := range map[string]struct {
		from, to *corev1.PodTemplateSpec
		want     []string
		settle   time.Duration
	}{
		"an annotation":                {base(), with(note("b")), []string{"PatchMetadata."}, 0},
		"a label is removed":           {base(), with(func(t *corev1.PodTemplateSpec) { delete(t.Labels, "team") }), []string{"PatchMetadata."}, 0},
		"raised":                       {base(), with(requested("1", "2Gi")), []string{"PatchMetadata", "ResizePod", "PatchMetadata."}, 0},
		"another unit":                 {base(), with(requested("0.5", "1024Mi")), []string{"PatchMetadata."}, 0},
		"lowered":                      {base(), with(requested("500m", "512Mi")), []string{"PatchMetadata", "ResizePod!", "PatchMetadata."}, settleAfterLowering},
		"one raised, one lowered":      {base(), with(requested("1", "512Mi")), []string{"PatchMetadata", "ResizePod!", "PatchMetadata."}, settleAfterLowering},
		"a limit where there was none": {base(), with(limited("", "2Gi")), []string{"PatchMetadata", "ResizePod!", "PatchMetadata."}, settleAfterLowering},
		"raised, with a restart":       {with(restarting), with(restarting, requested("500m", "2Gi")), []string{"PatchMetadata", "ResizePod!", "PatchMetadata."}, 0},
		"raised, the other restarts":   {with(restarting), with(restarting, requested("1", "1Gi")), []string{"PatchMetadata", "ResizePod", "PatchMetadata."}, 0},
		"a limit that is the request":  {with(requested("", ""), limited("1", "1Gi")), with(requested("", ""), limited("2", "2Gi")), []string{"PatchMetadata", "ResizePod", "PatchMetadata."}, 0},
		"the image of the agent":       {base(), with(agentImage("agent:2")), []string{"PatchMetadata", "UpdateContainer", "PatchMetadata."}, settleAfterRestart},
		"the image of etcd":            {base(), with(etcdImage), []string{"PatchMetadata", "UpdateContainer!", "PatchMetadata."}, 0},
		"everything": {base(), with(note("b"), requested("1", "2Gi"), agentImage("agent:2"), etcdImage),
			[]string{"PatchMetadata", "ResizePod", "UpdateContainer", "UpdateContainer!", "PatchMetadata."}, settleAfterRestart},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := podOf(c.from, "a")
			k := caseOf(t, p, "b", map[string]*corev1.PodTemplateSpec{"a": c.from, "b": c.to})
			a := Assess(k)
			g.Expect(a.Replace).To(BeEmpty())
			g.Expect(kinds(a.Writes)).To(Equal(c.want))
			var settle time.Duration
			for i := range c.want {
				a = Assess(k)
				g.Expect(a.Pending).To(BeEmpty())
				g.Expect(kinds(a.Writes)).To(Equal(c.want[i:]), "after %d writes", i)
				settle = max(settle, a.Settle)
				apply(t, p, a.Writes[0])
				if i == 0 && len(c.want) > 1 {
					g.Expect(cluster.MarkOf(p)).NotTo(BeNil(), "it is marked before its spec changes")
					g.Expect(p.Labels[appsv1.StatefulSetRevisionLabel]).To(Equal("a"))
				}
				carryOutRestarts(p, c.to)
			}
			g.Expect(settle).To(Equal(c.settle))
			g.Expect(p.Labels[appsv1.StatefulSetRevisionLabel]).To(Equal("b"))
			g.Expect(p.Annotations).NotTo(HaveKey(v1alpha1.AnnotationInPlaceUpdate))
			want := podOf(c.to, "b")
			want.ResourceVersion, want.Generation, want.Status = p.ResourceVersion, p.Generation, p.Status
			g.Expect(leavesOf(p.Labels, p.Annotations, &p.Spec)).To(HaveLen(len(leavesOf(want.Labels, want.Annotations, &want.Spec))))
			g.Expect(changed(leavesOf(p.Labels, p.Annotations, &p.Spec), leavesOf(want.Labels, want.Annotations, &want.Spec))).To(BeEmpty(), "it is what a new pod would be")
		})
	}
}

// carryOutRestarts is carryOut, with the restarts that a resize policy asks for.
func carryOutRestarts(p *corev1.Pod, to *corev1.PodTemplateSpec) {
	before := p.Status.ContainerStatuses[0].DeepCopy()
	carryOut(p)
	memory := p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory]
	if was := before.Resources.Requests[corev1.ResourceMemory]; len(etcd(to).ResizePolicy) > 0 && memory.Cmp(was) != 0 {
		p.Status.ContainerStatuses[0].ContainerID += "r"
	}
}

// What is next to a field of the list takes a new pod: every field of a pod template but these, those that a later Kubernetes
// adds included.
func TestEveryOtherFieldTakesANewPod(t *testing.T) {
	allowed := func(path string) bool {
		path = strings.NewReplacer("[etcd]", "[*]", "[backup-restore]", "[*]").Replace(path)
		for _, exact := range []string{"spec.containers[*].image", "spec.initContainers[prepare].image"} {
			if path == exact {
				return true
			}
		}
		for _, bound := range []string{"requests", "limits"} {
			for _, name := range []string{"cpu", "memory"} {
				if path == "spec.containers[*].resources."+bound+"."+name {
					return true
				}
			}
		}
		return path == "metadata.labels.zzz" || path == "metadata.annotations.zzz"
	}
	from := base()
	visited, onList := 0, 0
	neighbors(reflect.ValueOf(from).Elem(), "", func(path string) {
		visited++
		to := stored(t, from)
		p := podOf(base(), "a")
		a := Assess(Input{Pod: p, TargetName: "b", Templates: map[string]*Template{"a": stored(t, base()), "b": to}})
		switch {
		case allowed(path):
			onList++
			if a.Replace != "" && !strings.Contains(a.Replace, "cannot remove") {
				t.Errorf("%s takes a new pod: %s", path, a.Replace)
			}
		case a.Replace == "" && !reflect.DeepEqual(to.raw, stored(t, base()).raw):
			t.Errorf("%s is changed in place: %v", path, kinds(a.Writes))
		}
	})
	t.Logf("%d fields, %d of them on the list", visited, onList)
	if visited < 190 || onList < 13 {
		t.Errorf("%d fields, %d on the list: too few to be all", visited, onList)
	}
	if !reflect.DeepEqual(from, base()) {
		t.Error("the template was not restored")
	}
}

// neighbors sets each field beneath a value in turn, and restores it.
func neighbors(v reflect.Value, path string, visit func(path string)) {
	try := func(path string, to reflect.Value) {
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.Set(to)
		visit(path)
		v.Set(before)
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[resource.Quantity]() || v.Type() == reflect.TypeFor[intstr.IntOrString]() || v.Type() == reflect.TypeFor[metav1.Time]() {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			if name == "" {
				at = path
			}
			// Kubernetes sets these in what it stores.
			if f.IsExported() && !slices.Contains([]string{"metadata.managedFields", "metadata.creationTimestamp", "metadata.deletionTimestamp"}, at) {
				neighbors(v.Field(i), at, visit)
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			filled := reflect.New(v.Type().Elem())
			fill(filled.Elem(), 0)
			try(path, filled)
			return
		}
		neighbors(v.Elem(), path, visit)
	case reflect.Slice:
		more := reflect.New(v.Type().Elem()).Elem()
		fill(more, 0)
		try(path, reflect.Append(v.Slice3(0, v.Len(), v.Len()), more))
		for i := range v.Len() {
			name := fmt.Sprint(i)
			if e := v.Index(i); e.Kind() == reflect.Struct && e.FieldByName("Name").IsValid() {
				name = e.FieldByName("Name").String()
			}
			neighbors(v.Index(i), fmt.Sprintf("%s[%s]", path, name), visit)
		}
	case reflect.Map:
		for _, key := range []string{"zzz", "cpu", "memory", "ephemeral-storage"} {
			if v.Type() != reflect.TypeFor[corev1.ResourceList]() && key != "zzz" {
				continue
			}
			to := reflect.MakeMap(v.Type())
			for _, k := range v.MapKeys() {
				to.SetMapIndex(k, v.MapIndex(k))
			}
			e := reflect.New(v.Type().Elem()).Elem()
			fill(e, 0)
			to.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), e)
			try(path+"."+key, to)
		}
	default:
		to := reflect.New(v.Type()).Elem()
		fill(to, 0)
		if v.Kind() == reflect.String && v.String() != "" {
			to.SetString(v.String() + "x")
		}
		try(path, to)
	}
}

// fill gives a value that differs from what is not there.
func fill(v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		v.Set(reflect.ValueOf(resource.MustParse("7Gi")))
		return
	}
	if v.Type() == reflect.TypeFor[intstr.IntOrString]() {
		v.Set(reflect.ValueOf(intstr.FromInt32(7)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		if depth < 4 && v.Type().Elem().Kind() != reflect.Uint8 {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(e, depth+1)
			v.Set(reflect.Append(v, e))
		}
	case reflect.Map:
		e := reflect.New(v.Type().Elem()).Elem()
		fill(e, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), e)
	case reflect.Struct:
		if depth < 6 {
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					fill(v.Field(i), depth+1)
				}
			}
		}
	}
}

// A field that this version of the API does not know takes a new pod, too.
func TestAnUnknownFieldTakesANewPod(t *testing.T) {
	g := NewWithT(t)
	unknown := stored(t, base())
	unknown.raw["spec"].(map[string]any)["newField"] = true
	a := Assess(Input{Pod: podOf(base(), "a"), TargetName: "b", Templates: map[string]*Template{"a": stored(t, base()), "b": unknown}})
	g.Expect(a.Replace).To(Equal("spec.newField cannot be changed in place"))
	g.Expect(a.Writes).To(BeEmpty())
}

func TestReasonsForANewPod(t *testing.T) {
	env := func(e corev1.EnvVar) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { etcd(t).Env = append(etcd(t).Env, e) }
	}
	files := func(f corev1.DownwardAPIVolumeFile) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) {
			t.Spec.Volumes = append(t.Spec.Volumes, corev1.Volume{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{f}}}})
		}
	}
	ofResources := &corev1.ResourceFieldSelector{Resource: "limits.memory"}
	ofNote := &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}
	annotation := func(key string) func(*corev1.PodTemplateSpec) {
		return func(t *corev1.PodTemplateSpec) { t.Annotations[key] = "new" }
	}
	type change = func(*corev1.PodTemplateSpec)
	for name, c := range map[string]struct {
		both, to []change
		live     func(*corev1.Pod)
		want     string
	}{
		"a variable of resources":      {both: []change{env(corev1.EnvVar{Name: "M", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: ofResources}})}, to: []change{requested("1", "2Gi")}, want: "derived from resources"},
		"the same, and resources stay": {both: []change{env(corev1.EnvVar{Name: "M", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: ofResources}})}, to: []change{note("b")}},
		"GOMEMLIMIT":                   {both: []change{env(corev1.EnvVar{Name: "GOMEMLIMIT", Value: "900MiB"})}, to: []change{requested("1", "2Gi")}, want: "depends on its resources"},
		"a variable of metadata":       {both: []change{env(corev1.EnvVar{Name: "N", ValueFrom: &corev1.EnvVarSource{FieldRef: ofNote}})}, to: []change{note("b")}, want: "derived from labels or annotations"},
		"the same, and it stays":       {both: []change{env(corev1.EnvVar{Name: "N", ValueFrom: &corev1.EnvVarSource{FieldRef: ofNote}})}, to: []change{requested("1", "2Gi")}},
		"a file of resources":          {both: []change{files(corev1.DownwardAPIVolumeFile{Path: "m", ResourceFieldRef: ofResources})}, to: []change{requested("1", "2Gi")}, want: "file m of volume info"},
		"a file of metadata":           {both: []change{files(corev1.DownwardAPIVolumeFile{Path: "n", FieldRef: ofNote})}, to: []change{note("b")}, want: "file n of volume info"},
		"a checksum":                   {to: []change{annotation("checksum/etcd-config")}, want: "stands for content"},
		"kubectl rollout restart":      {to: []change{annotation("kubectl.kubernetes.io/restartedAt")}, want: "stands for content"},
		"our own annotation":           {to: []change{annotation("druid.gardener.cloud/peer-url-tls")}, want: "is managed by the operator"},
		"our own, of a subdomain":      {to: []change{annotation("resources.druid.gardener.cloud/x")}, want: "is managed by the operator"},
		"our own label":                {to: []change{func(t *corev1.PodTemplateSpec) { t.Labels[v1alpha1.LabelPartOf] = "other" }}, want: "is managed by the operator"},
		"what a node reads":            {to: []change{annotation("container.apparmor.security.beta.kubernetes.io/etcd")}, want: "is read only when a pod is created"},
		"networks":                     {to: []change{annotation("k8s.v1.cni.cncf.io/networks")}, want: "is read only when a pod is created"},
		"what the autoscaler reads":    {to: []change{annotation("cluster-autoscaler.kubernetes.io/safe-to-evict")}},
		"a request is removed":         {to: []change{requested("500m", "")}, want: "cannot remove"},
		"resources of the pod": {to: []change{requested("1", "2Gi")}, live: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: amounts("2", "4Gi")}
		}, want: "pod-level resources"},
		"a VerticalPodAutoscaler":             {to: []change{requested("1", "2Gi")}, live: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("700m", "1Gi") }, want: "something else has changed"},
		"one that has set the target's value": {to: []change{requested("1", "1Gi")}, live: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("1", "1Gi") }, want: "something else has changed"},
		"the same, of another field":          {to: []change{note("b")}, live: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = amounts("700m", "1Gi") }},
		"a LimitRange": {to: []change{func(t *corev1.PodTemplateSpec) { etcd(t).Resources.Limits = amounts("2", "") }},
			live: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = amounts("4", "") }, want: "something else has changed"},
		"a webhook that mirrors images":   {to: []change{etcdImage}, live: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "mirror/etcd:1" }, want: "something else has changed"},
		"an annotation of another client": {to: []change{note("b")}, live: func(p *corev1.Pod) { p.Annotations["note"] = "c" }, want: "something else has changed"},
		"the mark of another revision": {to: []change{etcdImage}, live: func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationInPlaceUpdate] = cluster.Mark{UID: p.UID, Source: "z", Target: "b"}.String()
		}, want: "an update in place from revision z has begun"},
		"the mark of another pod": {to: []change{note("b")}, live: func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationInPlaceUpdate] = cluster.Mark{UID: "other", Source: "z", Target: "b"}.String()
		}},
		"an annotation that is changed back": {to: []change{note("b"), etcdImage}, live: func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationInPlaceUpdate] = cluster.Mark{UID: p.UID, Source: "a", Target: "b"}.String()
		}, want: "something else has changed annotation note since this update set it"},
		"no mark": {to: []change{note("b")}, live: func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationInPlaceUpdate] = "{" }},
		"an init container that stays": {both: []change{func(t *corev1.PodTemplateSpec) {
			t.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}}, to: []change{agentImage("agent:2")}, want: "spec.initContainers[prepare].image cannot be changed"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			from := with(c.both...)
			p := podOf(from, "a")
			if c.live != nil {
				c.live(p)
			}
			a := Assess(caseOf(t, p, "b", map[string]*corev1.PodTemplateSpec{"a": from, "b": with(append(c.both, c.to...)...)}))
			if c.want == "" {
				g.Expect(a.Replace).To(BeEmpty())
				g.Expect(a.Writes).NotTo(BeEmpty())
				return
			}
			g.Expect(a.Replace).To(ContainSubstring(c.want))
			g.Expect(a.Writes).To(BeEmpty())
		})
	}
}

func TestARevisionThatIsMissingTakesANewPod(t *testing.T) {
	for _, missing := range []string{"a", "b"} {
		g := NewWithT(t)
		templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(note("b"))}
		delete(templates, missing)
		g.Expect(Assess(caseOf(t, podOf(base(), "a"), "b", templates)).Replace).To(ContainSubstring(missing + " is missing"))
	}
}

// A template that is rolled back, or changed again, half-way: whatever was written by then, and whether or not the kubelet has
// carried it out, the pod ends up as a new pod of the last template would be.
func TestATemplateThatChangesHalfWayConverges(t *testing.T) {
	b := with(note("b"), requested("2", "1Gi"), agentImage("agent:2"), func(t *corev1.PodTemplateSpec) { t.Labels["more"] = "b" })
	for name, last := range map[string]*corev1.PodTemplateSpec{
		"a": base(), "c": with(requested("1", "2Gi")), "d": with(note("d"), agentImage("agent:3")), "b": b,
	} {
		templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": b, name: last}
		for done := range 4 {
			for _, seen := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s after %d writes, seen by the kubelet: %v", name, done, seen), func(t *testing.T) {
					g := NewWithT(t)
					p := podOf(base(), "a")
					for range done {
						apply(t, p, Assess(caseOf(t, p, "b", templates)).Writes[0])
						if seen {
							carryOut(p)
						}
					}
					if cluster.MarkOf(p) == nil && name == "a" {
						return
					}
					for range 12 {
						a := Assess(caseOf(t, p, name, templates))
						g.Expect(a.Replace).To(BeEmpty())
						if a.Pending != "" {
							carryOut(p)
							continue
						}
						apply(t, p, a.Writes[0])
						if a.Writes[0].Final {
							break
						}
					}
					g.Expect(p.Labels[appsv1.StatefulSetRevisionLabel]).To(Equal(name))
					g.Expect(cluster.MarkOf(p)).To(BeNil())
					want := podOf(last, name)
					g.Expect(changed(leavesOf(p.Labels, p.Annotations, &p.Spec), leavesOf(want.Labels, want.Annotations, &want.Spec))).To(BeEmpty())
					g.Expect(p.Status.ContainerStatuses[1].Image).To(Equal(agent(last).Image), "the container that runs has the image")
				})
			}
		}
	}
}

// The last write waits for the kubelet, by what it has done, and not by the text of an image.
func TestWhatTheKubeletHasYetToDo(t *testing.T) {
	resized, images := with(requested("1", "2Gi")), with(agentImage("agent:2"), etcdImage)
	for name, c := range map[string]struct {
		to     *corev1.PodTemplateSpec
		change func(*corev1.Pod)
		want   string
		gives  bool
	}{
		"all done":                  {to: resized},
		"not seen":                  {to: resized, change: func(p *corev1.Pod) { p.Status.ObservedGeneration-- }, want: "has not seen", gives: true},
		"no generation is reported": {to: resized, change: func(p *corev1.Pod) { p.Status.ObservedGeneration = 0 }},
		"old resources": {to: resized, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Resources.Requests = amounts("500m", "2Gi")
		}, want: "still reports 500m", gives: true},
		"no resources": {to: resized, change: func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources = nil }, want: "does not report", gives: true},
		"in progress":  {to: resized, change: func(p *corev1.Pod) { resize(p, corev1.PodResizeInProgress, "", "") }, want: "PodResizeInProgress", gives: true},
		"deferred":     {to: resized, change: func(p *corev1.Pod) { resize(p, corev1.PodResizePending, corev1.PodReasonDeferred, "later") }, want: "PodResizePending: Deferred: later", gives: true},
		"not seen, and the last one was infeasible": {to: resized, change: func(p *corev1.Pod) {
			resize(p, corev1.PodResizePending, corev1.PodReasonInfeasible, "too much")
			p.Status.ObservedGeneration--
		}, want: "has not seen", gives: true},
		"images all done": {to: images},
		"images not seen": {to: images, change: func(p *corev1.Pod) { p.Status.ObservedGeneration-- }, want: "has not seen"},
		"the agent waits": {to: images, change: func(p *corev1.Pod) {
			p.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
		}, want: "container backup-restore is not running after its update (ImagePullBackOff)"},
		"etcd is the same": {to: images, change: func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "1" }, want: "has not restarted container etcd"},
		"the agent is the same, with the new image's name": {to: images, change: func(p *corev1.Pod) { p.Status.ContainerStatuses[1].ContainerID = "1" }, want: "has not restarted container backup-restore"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := podOf(base(), "a")
			k := caseOf(t, p, "b", map[string]*corev1.PodTemplateSpec{"a": base(), "b": c.to})
			for a := Assess(k); !a.Writes[0].Final; a = Assess(k) {
				apply(t, p, a.Writes[0])
				carryOut(p)
			}
			if c.change != nil {
				c.change(p)
			}
			a := Assess(k)
			g.Expect(a.Writes).To(HaveLen(1))
			if c.want == "" {
				g.Expect(a.Pending).To(BeEmpty())
			} else {
				g.Expect(a.Pending).To(ContainSubstring(c.want))
			}
			g.Expect(a.GiveUp != nil).To(Equal(c.gives))
			if c.gives {
				g.Expect(a.GiveUpAfter).To(Equal(resizeGrace))
			}
		})
	}
}

// resize is what the kubelet says once it has seen the newest spec.
func resize(p *corev1.Pod, t corev1.PodConditionType, reason, message string) {
	p.Status.ObservedGeneration = p.Generation
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message})
}

// An update that is impossible is recorded, what was written is reverted, and then the pod is replaced. A later template has
// another chance.
func TestAnImpossibleResizeIsReverted(t *testing.T) {
	g := NewWithT(t)
	templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(requested("100", "2Gi")), "c": with(requested("1", "1Gi"))}
	p := podOf(base(), "a")
	for range 2 {
		apply(t, p, Assess(caseOf(t, p, "b", templates)).Writes[0])
	}
	resize(p, corev1.PodResizePending, corev1.PodReasonInfeasible, "Node didn't have enough capacity: cpu")
	a := Assess(caseOf(t, p, "b", templates))
	g.Expect(a.GiveUpAfter).To(BeZero())
	apply(t, p, *a.GiveUp)

	a = Assess(caseOf(t, p, "b", templates))
	g.Expect(a.Replace).To(ContainSubstring("Infeasible: Node didn't have enough capacity: cpu"))
	g.Expect(kinds(a.Writes)).To(Equal([]string{"ResizePod"}))
	other := p.DeepCopy()
	apply(t, p, a.Writes[0])
	g.Expect(p.Spec.Containers[0].Resources.Requests.Cpu().String()).To(Equal("500m"))
	a = Assess(caseOf(t, p, "b", templates))
	g.Expect(a.Replace).NotTo(BeEmpty())
	g.Expect(a.Writes).To(BeEmpty())

	a = Assess(caseOf(t, other, "c", templates))
	g.Expect(a.Replace).To(BeEmpty())
	g.Expect(kinds(a.Writes)).To(Equal([]string{"PatchMetadata", "ResizePod!", "PatchMetadata."}))
}

// Another client has resized the pod since the update turned out to be impossible: that is not reverted, again and again.
func TestARevertIsNoFight(t *testing.T) {
	g := NewWithT(t)
	templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(requested("100", "2Gi"))}
	p := podOf(base(), "a")
	for range 2 {
		apply(t, p, Assess(caseOf(t, p, "b", templates)).Writes[0])
	}
	resize(p, corev1.PodResizePending, corev1.PodReasonInfeasible, "")
	apply(t, p, *Assess(caseOf(t, p, "b", templates)).GiveUp)
	p.Spec.Containers[0].Resources.Requests = amounts("700m", "2Gi")
	a := Assess(caseOf(t, p, "b", templates))
	g.Expect(a.Writes).To(HaveLen(1))
	g.Expect(a.Writes[0].What).To(Equal("revert requests.memory of container etcd because the update is impossible"))
	p.Spec.Containers[0].Resources.Requests = amounts("700m", "3Gi")
	a = Assess(caseOf(t, p, "b", templates))
	g.Expect(a.Replace).NotTo(BeEmpty())
	g.Expect(a.Writes).To(BeEmpty())
}

func TestDeferredHasAGracePeriod(t *testing.T) {
	g := NewWithT(t)
	templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(requested("100", "2Gi"))}
	p := podOf(base(), "a")
	for range 2 {
		apply(t, p, Assess(caseOf(t, p, "b", templates)).Writes[0])
	}
	resize(p, corev1.PodResizePending, corev1.PodReasonDeferred, "")
	a := Assess(caseOf(t, p, "b", templates))
	g.Expect(a.GiveUp).NotTo(BeNil())
	g.Expect(a.GiveUpAfter).To(Equal(resizeGrace))
}

// A container that was restarted since the mark was written is marked again, so that its restart is not taken for the update.
func TestARestartBeforeTheUpdateIsNotTheUpdate(t *testing.T) {
	g := NewWithT(t)
	templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(agentImage("agent:2"))}
	p := podOf(base(), "a")
	apply(t, p, Assess(caseOf(t, p, "b", templates)).Writes[0])
	p.Status.ContainerStatuses[1].ContainerID = "crashed and restarted"
	a := Assess(caseOf(t, p, "b", templates))
	g.Expect(kinds(a.Writes)).To(Equal([]string{"PatchMetadata", "UpdateContainer", "PatchMetadata."}))
}

func TestARefusalTakesANewPod(t *testing.T) {
	g := NewWithT(t)
	c := caseOf(t, podOf(base(), "a"), "b", map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(requested("1", "2Gi"))})
	c.Refused = "quota"
	g.Expect(Assess(c).Replace).To(Equal("the API server refused to update it in place: quota"))
}

// An agent that runs at the moment may have ended and been restarted a moment before: it has to stay up.
func TestAnAgentHasToStayUp(t *testing.T) {
	g := NewWithT(t)
	templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(agentImage("agent:2"))}
	p := podOf(base(), "a")
	for range 2 {
		apply(t, p, Assess(caseOf(t, p, "b", templates)).Writes[0])
		carryOut(p)
	}
	first := Assess(caseOf(t, p, "b", templates))
	g.Expect(first.Pending).To(BeEmpty())
	g.Expect(first.Settle).To(Equal(settleAfterRestart))
	p.Status.ContainerStatuses[1].ContainerID, p.Status.ContainerStatuses[1].RestartCount = "again", 7
	again := Assess(caseOf(t, p, "b", templates))
	g.Expect(again.Settle).To(Equal(settleAfterRestart))
	g.Expect(again.Phase).NotTo(Equal(first.Phase), "the time begins again")
}

// The phase changes with every restart: what has to last begins again.
func TestARestartBeginsTheSettlingAgain(t *testing.T) {
	g := NewWithT(t)
	templates := map[string]*corev1.PodTemplateSpec{"a": base(), "b": with(requested("500m", "512Mi"))}
	p := podOf(base(), "a")
	for range 2 {
		apply(t, p, Assess(caseOf(t, p, "b", templates)).Writes[0])
		carryOut(p)
	}
	before := Assess(caseOf(t, p, "b", templates))
	g.Expect(before.Settle).To(Equal(settleAfterLowering))
	p.Status.ContainerStatuses[0].RestartCount++
	g.Expect(Assess(caseOf(t, p, "b", templates)).Phase).NotTo(Equal(before.Phase))
}
