package subresources_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// recorded is one request to KubeVirt's API server, and its answer.
type recorded struct {
	Title    string          `json:"title"`
	Method   string          `json:"method"`
	Path     string          `json:"path"`
	Body     json.RawMessage `json:"body"`
	Code     int             `json:"code"`
	Response json.RawMessage `json:"response"`
}

func readRecorded(t *testing.T, name string) []recorded {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all []recorded
	lines := bufio.NewScanner(unpacked)
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		var r recorded
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		if strings.HasPrefix(r.Path, "/apis/subresources.kubevirt.io") {
			all = append(all, r)
		}
	}
	require.NoError(t, lines.Err())
	return all
}

// scene makes the objects that existed when a request was recorded: one run of requests, in which machines started and
// stopped meanwhile.
func (r *rig) scene(c recorded) {
	const always, halted, manual, rerun, once = kubevirtv1.RunStrategyAlways, kubevirtv1.RunStrategyHalted,
		kubevirtv1.RunStrategyManual, kubevirtv1.RunStrategyRerunOnFailure, kubevirtv1.RunStrategyOnce
	strategies := map[string]kubevirtv1.VirtualMachineRunStrategy{"g-always": always, "g-halted": halted,
		"g-manual": manual, "g-rerun": rerun, "g-once": once}
	phases := map[string]kubevirtv1.VirtualMachineInstancePhase{"g-always": kubevirtv1.Running,
		"g-rerun": kubevirtv1.Running, "g-once": kubevirtv1.Running}
	underway := map[string]bool{}
	begins := func(with ...string) bool {
		return slices.ContainsFunc(with, func(p string) bool { return strings.HasPrefix(c.Title, p) })
	}
	switch {
	case begins("start paused", "restart with wrong grace", "migrate", "addvolume g-", "removevolume absent g-",
		"removememorydump g-"):
		strategies["g-halted"], phases["g-halted"] = always, kubevirtv1.Pending
		phases["g-manual"], underway["g-manual"] = kubevirtv1.VmPhaseUnset, true
	case begins("restart forced"):
		strategies["g-halted"] = always
		for name := range strategies {
			phases[name], underway[name] = kubevirtv1.Running, true
		}
	case begins("stop again", "restart stopped"):
		phases = nil
		strategies["g-always"], strategies["g-once"] = halted, halted
	case begins("stop with grace"):
		phases["g-halted"] = kubevirtv1.Running
	case begins("stop"):
		strategies["g-halted"] = always
		phases["g-halted"], phases["g-manual"] = kubevirtv1.Running, kubevirtv1.Running
	}
	for name, strategy := range strategies {
		phase, made := phases[name]
		r.vm(name, strategy, func(vm *kubevirtv1.VirtualMachine) {
			vm.Status.Created = made
			if underway[name] {
				vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{
					{Action: kubevirtv1.StopRequest}, {Action: kubevirtv1.StartRequest}}
			}
		})
		if made {
			r.vmi(name, phase, func(v *kubevirtv1.VirtualMachineInstance) {
				v.Spec.TerminationGracePeriodSeconds = new(int64(0))
				v.Status.NodeName = "kwok-node-1"
			})
		}
	}
	r.vmi("g-vmi", kubevirtv1.Running, func(v *kubevirtv1.VirtualMachineInstance) {
		v.Spec.Domain.Devices.AutoattachGraphicsDevice = new(false)
		v.Status.NodeName = "kwok-node-1"
	})
}

// leastCompared is the least number of recorded cases that must be compared: with fewer the file is incomplete, or too
// many are skipped.
const leastCompared = 74

// unsupported are the subresources that this project does not serve yet. KubeVirt's refusals of them are compared
// nevertheless.
func unsupported() []string { return []string{"addvolume"} }

// apart returns why a case is not compared: requests to a node (those of the recording were simulated, and no agent
// answered on them), features that this project does not support yet, and intended differences. Its own answer does not
// decide that.
func apart(c recorded) string {
	switch {
	case strings.Contains(string(c.Response), "No virt-handler on node"),
		strings.Contains(string(c.Response), "dialing VM"):
		return "node"
	case slices.Contains(unsupported(), path.Base(c.Path)) && c.Code == http.StatusAccepted,
		c.Title == "cluster /guestfs":
		return "unsupported"
	case c.Title == "stop with grace g-rerun": // the instance vanished while the request was on its way
		return "race"
	}
	return ""
}

// TestRecordedCases compares with what KubeVirt v1.9.0 answered, over HTTPS, where VIRTFLOW_SUBRESOURCE_CASES names a
// file of recorded requests (JSON lines, gzipped).
func TestRecordedCases(t *testing.T) {
	name := os.Getenv("VIRTFLOW_SUBRESOURCE_CASES")
	if name == "" {
		t.Skip("VIRTFLOW_SUBRESOURCE_CASES names no file")
	}
	type row struct{ cases, apart, codes, texts int }
	rows, total, differ := map[string]*row{}, &row{}, []string{}
	for _, c := range readRecorded(t, name) {
		r := newRig(t)
		r.scene(c)
		body := string(c.Body)
		if text := ""; json.Unmarshal(c.Body, &text) == nil {
			body = text
		}
		if body == "null" {
			body = ""
		}
		a, why := r.do(c.Method, c.Path, body), apart(c)
		parts := strings.Split(strings.TrimPrefix(c.Path, "/apis/subresources.kubevirt.io/v1/namespaces/default/"), "/")
		kind := parts[0]
		if len(parts) > 2 && !strings.HasPrefix(c.Path, "/apis/subresources.kubevirt.io/v1/namespaces/default/apis") {
			kind += "/" + strings.Join(parts[2:], "/")
		}
		if rows[kind] == nil {
			rows[kind] = &row{}
		}
		for _, x := range []*row{rows[kind], total} {
			x.cases++
			if why != "" {
				x.apart++
				continue
			}
			if a.code == c.Code {
				x.codes++
			}
			if sameAnswer(t, c, a) {
				x.texts++
			}
		}
		if why == "unsupported" && a.code != http.StatusNotImplemented {
			differ = append(differ, fmt.Sprintf("%s: %d %.300s, and it is not served yet", c.Title, a.code, a.body))
		}
		if why == "" && (a.code != c.Code || !sameAnswer(t, c, a)) {
			differ = append(differ, fmt.Sprintf("%s: %d %.300s, and KubeVirt %d %.300s", c.Title, a.code, a.body,
				c.Code, c.Response))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "subresources, recorded: %d cases over HTTPS, %d apart (they ask a simulated node, or for what "+
		"is unsupported); of the other %d agree %d in the code and %d in the answer\n",
		total.cases, total.apart, total.cases-total.apart, total.codes, total.texts)
	for _, kind := range slices.Sorted(maps.Keys(rows)) {
		x := rows[kind]
		fmt.Fprintf(&b, "  %-64s %3d cases %3d apart %3d codes %3d answers\n", kind, x.cases, x.apart, x.codes, x.texts)
	}
	suite.PrintFigures(t, "%s", b.String())
	require.GreaterOrEqual(t, total.cases-total.apart, leastCompared, "hardly anything was compared")
	require.Empty(t, differ, strings.Join(differ, "\n"))
}

// sameAnswer compares a Status in whole, a text to the letter, nothing with nothing, and of an object what it is.
func sameAnswer(t *testing.T, c recorded, a answer) bool {
	t.Helper()
	var text string
	if json.Unmarshal(c.Response, &text) == nil {
		return text == a.body
	}
	type whole struct {
		Kind, APIVersion, Message string
		Reason                    metav1.StatusReason
		Details                   *metav1.StatusDetails
	}
	var want, got whole
	require.NoError(t, json.Unmarshal(c.Response, &want))
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		return false
	}
	return want.Kind == got.Kind && want.APIVersion == got.APIVersion && want.Message == got.Message &&
		want.Reason == got.Reason &&
		equality.Semantic.DeepEqual(want.Details, got.Details)
}
