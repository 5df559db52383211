package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/contract"
)

// node calls a gateway as one node, with a clock and a Temporal of its own.
type node struct {
	t       *testing.T
	gateway *Gateway
	now     time.Time
	token   []byte
	made    uint64
	// fail is the error of Temporal, which else accepts everything.
	fail error
	// What Temporal got: calls that write events, and bytes.
	calls, bytes int
}

func newNode(t *testing.T) *node {
	n := &node{t: t, now: time.Now()}
	n.gateway = New(Options{Log: zerolog.Nop(), Namespace: namespace, Pods: fixedPods(t),
		SealKey: func() []byte { return sealTestKey }, OpenKeys: func() [][]byte { return [][]byte{sealTestKey} }})
	n.gateway.now = func() time.Time { return n.now }
	n.token = seal(sealTestKey, "node1", task{contract.ActivityInspectMigration, make([]byte, 200)}, n.now)
	return n
}

// call forwards a request as the gateway does for an authenticated node.
func (n *node) call(method string, request proto.Message) error {
	if !n.gateway.limits.allow("node1", n.now, 1) {
		return refuse(ReasonTooMany, "too often")
	}
	next := func(_ context.Context, in any) (any, error) {
		n.calls++
		n.bytes += proto.Size(in.(proto.Message))
		return nil, n.fail
	}
	_, err := n.gateway.forward(context.Background(), "node1", method, request, next)
	return err
}

// signal sends the observation of a domain with so many extra bytes.
func (n *node) signal(size int) error {
	n.made++
	return n.call("SignalWorkflowExecution", signalOf("vmi/default/here", contract.SignalObserveDomain,
		contract.DomainObservation{PodUID: string(podHere), Sequence: n.made, Reason: strings.Repeat("x", size)}))
}

// answer ends a task.
func (n *node) answer(size int) error {
	data, err := json.Marshal(contract.MigrationTruth{Why: strings.Repeat("x", size)})
	require.NoError(n.t, err)
	return n.call("RespondActivityTaskCompleted", &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: namespace, TaskToken: n.token, Result: jsonPayload(data)})
}

func (n *node) report(size int) error {
	n.made++
	names := make([]string, contract.MostCapabilities)
	for i := range names {
		names[i] = strings.Repeat("x", size)
	}
	return n.call("SignalWorkflowExecution", signalOf("node/node1", contract.SignalReportNode, contract.NodeReport{
		Incarnation: fmt.Sprint(n.made), Capabilities: &contract.HostCapabilities{MachineTypes: names, CPUModels: names,
			CPUFeatures: names, HostModelFeatures: names}}))
}

// worstHour is what one gateway passes on of one node in its first hour, in bytes and in calls; docs/security.md names
// them. After that the part at once is missing.
const (
	worstHour      = signalsAtOnce + answersAtOnce + 3600*(signalsPerSecond+answersPerSecond)
	worstHourCalls = worstHour / callCost
)

// TestWorstHourOfOneNode: what it can add to Temporal's database, by the largest payloads and by the smallest.
func TestWorstHourOfOneNode(t *testing.T) {
	const (
		step          = 10 // seconds, far less than a budget takes to fill
		eventsPerCall = 4  // the signal's or answer's own, and three of a workflow task
	)
	for name, size := range map[string]int{"large": 60 << 10, "small": 0} {
		n := newNode(t)
		for range 3600 / step {
			for _, try := range []func(int) error{n.signal, n.answer} {
				for err := error(nil); err == nil; {
					err = try(size)
				}
			}
			if size > 0 {
				_ = n.report(contract.LongestCapability)
			}
			n.now = n.now.Add(step * time.Second)
		}
		t.Logf("%s payloads: %d calls, %d events, %d MiB of requests in an hour", name, n.calls, n.calls*eventsPerCall,
			n.bytes>>20)
		require.Positive(t, n.bytes)
		require.LessOrEqual(t, n.bytes+n.calls*callCost, worstHour+1<<20)
		require.LessOrEqual(t, n.calls, worstHourCalls)
	}
	day := float64(signalsAtOnce+answersAtOnce+24*3600*(signalsPerSecond+answersPerSecond)) / (1 << 30)
	says := strings.Join(strings.Fields(string(readFile(t, "../docs/security.md"))), " ")
	for _, bound := range []string{fmt.Sprintf("%d MiB in the first hour", worstHour>>20),
		fmt.Sprintf("%d calls", worstHourCalls), fmt.Sprintf("%.1f GiB a day", day)} {
		require.True(t, strings.Contains(says, bound), "docs/security.md does not say %s", bound)
	}
}

// TestAllowsMassStartAndDrain: a node with hundreds of guests may start or drain all of them without a refusal.
func TestAllowsMassStartAndDrain(t *testing.T) {
	const guests, size = 500, 2 << 10
	n := newNode(t)
	require.NoError(t, n.report(20))
	for i := range guests * 4 {
		if i%4 == 0 {
			require.NoError(t, n.answer(size))
		} else {
			require.NoError(t, n.signal(size))
		}
		n.now = n.now.Add(time.Second / callsPerSecond)
	}
	for range guests { // eight at a time, a minute each
		n.now = n.now.Add(time.Minute / contract.MostMigrationsPerNode)
		for range 10 {
			require.NoError(t, n.signal(size))
		}
		for range 4 {
			require.NoError(t, n.answer(size))
		}
	}
}

// TestAnswersHaveTheirOwnBudget: answers have a budget of their own, and an answer that was refused succeeds later.
func TestAnswersHaveTheirOwnBudget(t *testing.T) {
	n := newNode(t)
	refused := &Refusal{}
	for range 2 * signalsAtOnce / (60 << 10) {
		n.now = n.now.Add(time.Second / callsPerSecond)
		if errors.As(n.signal(60<<10), &refused) {
			break
		}
	}
	require.Equal(t, ReasonBudget, refused.Reason)
	require.Equal(t, codes.ResourceExhausted, refused.GRPCStatus().Code(), "a worker does not try it again")
	for range 64 { // as many as a worker can have in hand
		n.now = n.now.Add(time.Second / callsPerSecond)
		require.NoError(t, n.answer(60<<10))
	}
	n.now = n.now.Add(time.Minute)
	require.NoError(t, n.signal(60<<10))
}

// TestLimitsReports: a node that reports too often, also in turns, has to wait.
func TestLimitsReports(t *testing.T) {
	n := newNode(t)
	for range reportsAtOnce {
		require.NoError(t, n.report(1))
	}
	require.Error(t, n.report(1))
	n.now = n.now.Add(reportEach)
	require.NoError(t, n.report(1))
	require.Error(t, n.report(1))
	require.NoError(t, n.signal(1))
}

// TestChargesNothingWhileTemporalIsUnavailable: calls while Temporal is unavailable use no budget, so that a node's
// observations are not late when Temporal is back.
func TestChargesNothingWhileTemporalIsUnavailable(t *testing.T) {
	n := newNode(t)
	refused := &Refusal{}
	for _, code := range []codes.Code{codes.Unavailable, codes.ResourceExhausted} {
		n.fail = status.Error(code, "no")
		for range 2 * signalsAtOnce / (60 << 10) {
			n.now = n.now.Add(3 * time.Second / callsPerSecond)
			for _, err := range []error{n.signal(60 << 10), n.answer(60 << 10), n.report(1)} {
				require.False(t, errors.As(err, &refused), "%v", refused)
			}
		}
	}
	n.fail = status.Error(codes.DeadlineExceeded, "it may have been written")
	for range reportsAtOnce {
		require.False(t, errors.As(n.report(1), &refused))
	}
	require.ErrorAs(t, n.report(1), &refused)
}

// TestDropsRepeatedSignal: a repeated signal is answered and counted, and does not reach Temporal, unless Temporal may
// have forgotten it.
func TestDropsRepeatedSignal(t *testing.T) {
	r := newRig(t)
	c := r.as(r.node("node1"))
	send := func(sequence uint64) error {
		_, err := c.SignalWorkflowExecution(t.Context(), signalOf("vmi/default/here", contract.SignalObserveDomain,
			contract.DomainObservation{PodUID: string(podHere), Sequence: sequence}))
		return err
	}
	fails := func(code codes.Code) {
		r.frontend.mu.Lock()
		defer r.frontend.mu.Unlock()
		r.frontend.fail = nil
		if code != codes.OK {
			r.frontend.fail = status.Error(code, "no")
		}
	}
	for _, c := range []struct {
		sequence uint64
		answer   codes.Code
		reached  int
	}{
		{1, codes.OK, 1},
		{1, codes.OK, 1},
		{2, codes.OK, 2},
		{1, codes.OK, 3},
		{2, codes.NotFound, 4},
		{2, codes.OK, 5}, // it has not been taken
		{3, codes.Unavailable, 6},
		{2, codes.OK, 7}, // Temporal may have forgotten it
		{2, codes.OK, 7},
	} {
		fails(c.answer)
		require.Equal(t, c.answer, status.Code(send(c.sequence)))
		require.Len(t, r.frontend.got(), c.reached, "%+v", c)
	}
	require.EqualValues(t, 2, r.counter("virtflow_gateway_repeated_signals_total"))
}

// TestReencodesResults: only what a workflow knows gets through, each field once, and no more than it can be.
func TestReencodesResults(t *testing.T) {
	big := strings.Repeat("x", maxResult)
	for name, c := range map[string]struct {
		activity, in, out string
		reason            Reason
	}{
		"a domain": {contract.ActivityStartDomain,
			`{"domain":{"podUID":"a","podUID":"b","sequence":1,"x":1},"y":"` + big + `"}`,
			`{"domain":{"podUID":"b","sequence":1}}`, ""},
		"nothing of an activity without a result": {contract.ActivityAdjustMigration, `"` + big + `"`, "", ""},
		"too large a domain": {contract.ActivityOperateDomain, `{"domain":{"reason":"` + big + `"}}`, "",
			ReasonTooLarge},
		"a report": {contract.ActivityReportNode, `{"report":{"incarnation":"` + big + `","sequence":1}}`,
			`{"report":{"incarnation":"` + big[:256] + `","sequence":1}}`, ""},
		"not a result":                  {contract.ActivityInspectMigration, `[]`, "", ReasonPayload},
		"of another release":            {"Other", `{"x":1}`, `{"x":1}`, ""},
		"of another release, too large": {"", `"` + big + `"`, "", ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := resultOf(c.activity, jsonPayload([]byte(c.in)))
			if c.reason != "" {
				var refused *Refusal
				require.ErrorAs(t, err, &refused)
				require.Equal(t, c.reason, refused.Reason)
				return
			}
			require.NoError(t, err)
			if c.out == "" {
				require.Empty(t, out.GetPayloads())
				return
			}
			require.JSONEq(t, c.out, string(out.GetPayloads()[0].GetData()))
		})
	}
}

// TestReencodesFailures: what a workflow decides by stays, texts are cut, details do not get through.
func TestReencodesFailures(t *testing.T) {
	big := strings.Repeat("x", maxRequest)
	application := func(kind string, cause *failure.Failure) *failure.Failure {
		info := &failure.ApplicationFailureInfo{Type: kind, NonRetryable: true, Details: jsonPayload([]byte(big))}
		return &failure.Failure{Message: "m" + big, StackTrace: big, Source: big, Cause: cause,
			EncodedAttributes: jsonPayload([]byte(big)).GetPayloads()[0],
			FailureInfo:       &failure.Failure_ApplicationFailureInfo{ApplicationFailureInfo: info}}
	}
	out := failureOf(application(contract.ErrorStartFailed, application(big, application("", application("", nil)))),
		maxFailureCauses)
	require.Less(t, proto.Size(out), maxFailureCauses*(maxFailureMessage+maxFailureStack+1<<10))
	require.Equal(t, contract.ErrorStartFailed, out.GetApplicationFailureInfo().GetType())
	require.True(t, out.GetApplicationFailureInfo().GetNonRetryable())
	require.Nil(t, out.GetCause().GetCause().GetCause())
	canceled := &failure.Failure{FailureInfo: &failure.Failure_CanceledFailureInfo{
		CanceledFailureInfo: &failure.CanceledFailureInfo{Details: jsonPayload([]byte(big))}}}
	require.NotNil(t, failureOf(canceled, 1).GetCanceledFailureInfo())
	require.Less(t, proto.Size(failureOf(canceled, 1)), 10)
	other := failureOf(&failure.Failure{Message: "no"}, 1)
	require.NotNil(t, other.GetApplicationFailureInfo())
	require.False(t, other.GetApplicationFailureInfo().GetNonRetryable())
	require.Nil(t, failureOf(nil, 1))
}
