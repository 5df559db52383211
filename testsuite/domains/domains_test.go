package domains

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// Figures that must not shrink. Raise them after an improvement.
const (
	leastAdmitted     = 283
	leastPodsAdmitted = 281
)

// leastSame returns how many machines are equal in every subject, by variant.
func leastSame() map[Variant]int {
	return map[Variant]int{KVM: 281, Stage: 256, Block: 21, Emulated: 263}
}

// leastSamePods returns, by variant, how many subjects of all pods are equal. No pod is equal in all: affinities and
// annotations differ.
func leastSamePods() map[Variant]int {
	return map[Variant]int{KVM: 4915, Block: 378, Emulated: 4915}
}

func TestDomains(t *testing.T) {
	a := newAgreement(knownDomains())
	compareAll(t, a, "testdata/domain-cases.jsonl.gz", func(r *Record) []Variant {
		return slices.Sorted(maps.Keys(r.Domains))
	}, func(r *Record, v Variant, vmi *kubevirtv1.VirtualMachineInstance, s settings.Settings) (
		want, got Facts, err error,
	) {
		want, err = machine(r.Domains[v], &r.VMI)
		require.NoError(t, err)
		want["free ports"] = []string{strconv.Itoa(r.Ports.Extra + r.Ports.Placeholders)}
		made, err := xml(t, vmi, r, v, s)
		if err != nil {
			return nil, nil, err
		}
		got, err = machine(made, &r.VMI)
		return want, got, err
	})
	judge(t, a, "machines")
	require.GreaterOrEqual(t, a.admitted.same, leastAdmitted)
	require.Len(t, a.machines, len(leastSame()))
	for v, least := range leastSame() {
		require.GreaterOrEqual(t, a.machines[v].same, least, v)
	}
}

func TestPods(t *testing.T) {
	a := newAgreement(knownPods())
	compareAll(t, a, "testdata/pod-cases.jsonl.gz", func(r *Record) []Variant {
		return slices.Sorted(maps.Keys(r.Pods))
	}, func(r *Record, v Variant, vmi *kubevirtv1.VirtualMachineInstance, s settings.Settings) (
		want, got Facts, err error,
	) {
		theirs := r.Pods[v]
		want, err = podFacts(&theirs)
		require.NoError(t, err)
		made, err := pod(vmi, s)
		if err != nil {
			return nil, nil, err
		}
		got, err = podFacts(made)
		if err == nil && v == Emulated {
			err = got.withoutEmulation(vmi)
		}
		return want, got, err
	})
	judge(t, a, "pods")
	require.GreaterOrEqual(t, a.admitted.same, leastPodsAdmitted)
	require.Len(t, a.subjects, len(leastSamePods()))
	for v, least := range leastSamePods() {
		same := 0
		for _, c := range a.subjects[v] {
			same += c.same
		}
		require.GreaterOrEqual(t, same, least, v)
	}
}

// compareAll admits each case in each of its variants, and compares the results.
func compareAll(
	t *testing.T, a *Agreement, file string, variants func(*Record) []Variant,
	facts func(*Record, Variant, *kubevirtv1.VirtualMachineInstance, settings.Settings) (want, got Facts, err error),
) {
	t.Helper()
	made := clusters{}
	for _, r := range records(t, file) {
		var refused []metav1.StatusCause
		for _, v := range variants(r) {
			w := made.of(t, r, v)
			vmi, causes := w.admit(t, r.VMI.DeepCopy())
			if len(causes) > 0 {
				refused = causes
				continue
			}
			withClaims(vmi, r, v)
			withState(vmi)
			want, got, err := facts(r, v, vmi, w.Settings)
			if err != nil {
				a.unknown = append(a.unknown,
					fmt.Sprintf("%s (%s), %s: admitted, and cannot be built: %v", r.ID, r.Title, v, err))
				continue
			}
			show(r, v, want, got)
			a.compare(r, v, want, got)
		}
		if len(refused) > 0 {
			a.refused(r, refused)
		} else {
			a.admitted.add(true)
		}
	}
}

func records(t *testing.T, name string) []*Record {
	t.Helper()
	out, err := Read(name)
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

// show prints everything that is compared of the case in VIRTFLOW_DOMAIN_CASE.
func show(r *Record, v Variant, want, got Facts) {
	if r.ID != os.Getenv("VIRTFLOW_DOMAIN_CASE") {
		return
	}
	different := differences(want, got)
	for _, subject := range slices.Sorted(maps.Keys(union(want, got))) {
		fmt.Printf("%s %s\n    KubeVirt: %s\n    virtflow: %s\n    differs:  %s\n", v, subject,
			strings.Join(want[subject], ", "), strings.Join(got[subject], ", "), strings.Join(different[subject], ", "))
	}
}

func judge(t *testing.T, a *Agreement, what string) {
	t.Helper()
	suite.PrintFigures(t, "%s", a.Table(what))
	require.Empty(t, a.unknown, "differences without a reason: %s", strings.Join(a.unknown, "\n"))
	require.Empty(t, a.unused(), "known.go explains differences that no longer exist")
}
