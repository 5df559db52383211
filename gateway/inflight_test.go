package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
)

// TestLimitsOpenCallsOfOneNode: a node at its limit of open calls of a kind gets no more, while other nodes, and its
// own calls of other kinds, do; when one call has ended, another is accepted.
func TestLimitsOpenCallsOfOneNode(t *testing.T) {
	r := newRig(t)
	one, other := r.as(r.node("node1")), r.as(r.node("node2"))
	poll := func(c workflowservice.WorkflowServiceClient, node string) codes.Code {
		_, err := c.PollActivityTaskQueue(t.Context(), pollOf(contract.NodeTaskQueue(node)))
		return status.Code(err)
	}
	held := make(chan struct{})
	r.frontend.hold(held)
	ended := make(chan codes.Code, pollsAtOnce)
	for range pollsAtOnce {
		go func() { ended <- poll(one, "node1") }()
	}
	require.Eventually(t, func() bool { return len(r.frontend.got()) == pollsAtOnce }, deadline, tick)
	require.Equal(t, codes.ResourceExhausted, poll(one, "node1"))
	require.EqualValues(t, 1, r.refusals("PollActivityTaskQueue", ReasonTooMany))
	require.Len(t, r.frontend.got(), pollsAtOnce, "it reached Temporal")
	_, err := one.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.NoError(t, err)

	// One that the node gives up makes place for another.
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := other.PollActivityTaskQueue(ctx, pollOf(contract.NodeTaskQueue("node2")))
		gone <- err
	}()
	require.Eventually(t, func() bool { return len(r.frontend.got()) == pollsAtOnce+2 }, deadline, tick)
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-gone))
	close(held)
	for range pollsAtOnce {
		require.Equal(t, codes.OK, <-ended)
	}
	require.Equal(t, codes.OK, poll(one, "node1"))
	for range pollsAtOnce {
		require.Eventually(t, func() bool {
			_, err := r.gateway.acquire("node1", "PollActivityTaskQueue")
			return err == nil
		}, deadline, tick, "all are released")
	}
}

// TestReencodesSignals: only what its workflow knows gets through, each field once.
func TestReencodesSignals(t *testing.T) {
	g := &Gateway{Options: Options{Namespace: namespace, Pods: fixedPods(t)}}
	s := domainSignal("vmi/default/here", podHere)
	s.Input = jsonPayload([]byte(`{"podUID":"` + string(podThere) + `", "podUID":"` + string(podHere) +
		`","sequence":3,"beside":"` + strings.Repeat("x", maxObservation) + `"}`))
	out, err := g.checkSignal("node1", s)
	require.NoError(t, err)
	require.JSONEq(t, `{"podUID":"`+string(podHere)+`","sequence":3}`,
		string(out.GetInput().GetPayloads()[0].GetData()))
}

// TestReencodesHeartbeats: what gets through is how far a move is, and no more of it than that can be.
func TestReencodesHeartbeats(t *testing.T) {
	out, err := heartbeatDetails(nil)
	require.NoError(t, err)
	require.Nil(t, out)
	out, err = heartbeatDetails(jsonPayload([]byte(`{"uid":"u1","total":7,"total":8,"beside":"` +
		strings.Repeat("x", maxHeartbeat) + `"}`)))
	require.NoError(t, err)
	require.JSONEq(t, `{"uid":"u1","total":8}`, string(out.GetPayloads()[0].GetData()))
	one := out.GetPayloads()[0]
	for reason, bad := range map[Reason]*common.Payloads{
		ReasonTooLarge: jsonPayload([]byte(`{"uid":"` + strings.Repeat("x", maxHeartbeat) + `"}`)),
		ReasonPayload:  {Payloads: []*common.Payload{one, one}},
	} {
		_, err := heartbeatDetails(bad)
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, reason, refusal.Reason)
	}
	_, err = heartbeatDetails(jsonPayload([]byte(`"text"`)))
	require.ErrorContains(t, err, "cannot be decoded")
}

// TestLargestObservationOfAGuestPasses: the largest observation of a guest passes, a little larger one does not.
func TestLargestObservationOfAGuestPasses(t *testing.T) {
	g := &Gateway{Options: Options{Namespace: namespace, Pods: fixedPods(t)}}
	most := strings.Repeat("<", 256)
	o := contract.DomainObservation{PodUID: string(podHere), Guest: &contract.GuestInfo{
		AgentProblem: most[:128],
		OS: contract.GuestOS{
			ID: most, Name: most, Version: most, VersionID: most, PrettyName: most, KernelRelease: most,
			KernelVersion: most, Machine: most,
		},
	}}
	for range 32 {
		i := contract.GuestInterface{MAC: "00:11:22:33:44:55", Name: most[:128]}
		for range 8 {
			i.IPs = append(i.IPs, "1111:2222:3333:4444:5555:6666:7777:8888")
		}
		o.Guest.Interfaces = append(o.Guest.Interfaces, i)
	}
	_, err := g.checkSignal("node1", signalOf("vmi/default/here", contract.SignalObserveDomain, o))
	require.NoError(t, err)
	o.Reason = strings.Repeat("x", maxObservation/2)
	data, err := json.Marshal(o)
	require.NoError(t, err)
	require.Less(t, len(data), maxRequest)
	_, err = g.checkSignal("node1", signalOf("vmi/default/here", contract.SignalObserveDomain, o))
	var refusal *Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, ReasonTooLarge, refusal.Reason)
}
