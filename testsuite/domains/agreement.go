package domains

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// differences returns the facts that only one side has, by subject: "-" only KubeVirt, "+" only virtflow.
func differences(kubevirt, virtflow Facts) map[string][]string {
	out := map[string][]string{}
	for subject := range union(kubevirt, virtflow) {
		only := func(sign string, a, b []string) {
			b = slices.Clone(b)
			for _, fact := range a {
				if i := slices.Index(b, fact); i >= 0 {
					b = slices.Delete(b, i, i+1)
					continue
				}
				out[subject] = append(out[subject], sign+fact)
			}
		}
		only("-", kubevirt[subject], virtflow[subject])
		only("+", virtflow[subject], kubevirt[subject])
	}
	return out
}

func union(a, b Facts) map[string]bool {
	out := map[string]bool{}
	for subject := range a {
		out[subject] = true
	}
	for subject := range b {
		out[subject] = true
	}
	return out
}

type count struct{ same, total int }

func (c *count) add(same bool) {
	c.total++
	if same {
		c.same++
	}
}

func (c count) String() string { return fmt.Sprintf("%d/%d", c.same, c.total) }

func (c count) share() float64 {
	if c.total == 0 {
		return 1
	}
	return float64(c.same) / float64(c.total)
}

// Agreement has the results of a comparison.
type Agreement struct {
	admitted    count                         // cases
	unsupported map[string]int                // cases, by the field that is refused
	machines    map[Variant]*count            // equal in every subject
	subjects    map[Variant]map[string]*count // equal, by subject
	unknown     []string                      // differences without a reason
	matcher     *matcher
}

func newAgreement(known []Known) *Agreement {
	return &Agreement{
		unsupported: map[string]int{}, machines: map[Variant]*count{},
		subjects: map[Variant]map[string]*count{}, matcher: newMatcher(known),
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

// sidecarPlugin ends the refusal of the case whose binding plugin has a sidecar: a KubeVirt object with it is refused,
// so that the cluster does not know the plugin.
const sidecarPlugin = "couldn't find configuration for network binding: plugged"

// refused records why a case is not admitted. A case that KubeVirt admits may be refused only as not supported yet.
func (a *Agreement) refused(r *Record, causes []metav1.StatusCause) {
	a.admitted.add(false)
	fields := map[string]bool{}
	for _, c := range causes {
		if !strings.Contains(c.Message, "not supported yet") && !strings.HasSuffix(c.Message, ": "+sidecarPlugin) {
			a.unknown = append(a.unknown, fmt.Sprintf("%s (%s): refused: %s", r.ID, r.Title, c.Message))
			continue
		}
		field := index.ReplaceAllString(c.Field, "[]")
		if _, value, ok := strings.Cut(c.Message, ": "); ok {
			field += " (" + value + ")"
		}
		fields[field] = true
	}
	for field := range fields {
		a.unsupported[field]++
	}
}

// compare records how a machine or pod agrees.
func (a *Agreement) compare(r *Record, v Variant, kubevirt, virtflow Facts) {
	different := differences(kubevirt, virtflow)
	if a.machines[v] == nil {
		a.machines[v], a.subjects[v] = &count{}, map[string]*count{}
	}
	a.machines[v].add(len(different) == 0)
	for subject := range union(kubevirt, virtflow) {
		if a.subjects[v][subject] == nil {
			a.subjects[v][subject] = &count{}
		}
		a.subjects[v][subject].add(len(different[subject]) == 0)
		for _, difference := range different[subject] {
			if !a.matcher.isKnown(r, v, subject, difference) {
				a.unknown = append(a.unknown,
					fmt.Sprintf("%s (%s), %s: %s: %s", r.ID, r.Title, v, subject, difference))
			}
		}
	}
}

// unused returns the known differences that no longer exist.
func (a *Agreement) unused() []string {
	var out []string
	for i, n := range a.matcher.count {
		if n == 0 {
			out = append(out, a.matcher.known[i].Subject+": "+a.matcher.known[i].Facts)
		}
	}
	return out
}

// Table returns the figures.
func (a *Agreement) Table(what string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s cases of KubeVirt's admitted", what, a.admitted)
	variants := slices.Sorted(maps.Keys(a.machines))
	for _, v := range variants {
		fmt.Fprintf(&b, "; %s: %s the same in every subject (%.1f %%)", v, a.machines[v], 100*a.machines[v].share())
	}
	subjects := map[string]bool{}
	for _, v := range variants {
		for s := range a.subjects[v] {
			subjects[s] = true
		}
	}
	fmt.Fprintf(&b, "\n  %-24s", "subject")
	for _, v := range variants {
		fmt.Fprintf(&b, " %10s", v)
	}
	for _, s := range slices.Sorted(maps.Keys(subjects)) {
		fmt.Fprintf(&b, "\n  %-24s", s)
		for _, v := range variants {
			if c := a.subjects[v][s]; c != nil {
				fmt.Fprintf(&b, " %10s", c)
			} else {
				fmt.Fprintf(&b, " %10s", "-")
			}
		}
	}
	for i, k := range a.matcher.known {
		fmt.Fprintf(&b, "\n  differs in %5d facts of %s: %s", a.matcher.count[i], k.Subject, k.Reason)
	}
	if len(a.unsupported) > 0 {
		b.WriteString("\n  refused as not supported yet, by field:")
	}
	for _, field := range slices.SortedFunc(maps.Keys(a.unsupported), func(x, y string) int {
		if n := a.unsupported[y] - a.unsupported[x]; n != 0 {
			return n
		}
		return strings.Compare(x, y)
	}) {
		fmt.Fprintf(&b, "\n  %6d  %s", a.unsupported[field], field)
	}
	return b.String()
}
