package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// TestFlowWaitsUntilRequestIsProcessed: of each window of a flow one request is waited for, and no other flow waits
// meanwhile.
func TestFlowWaitsUntilRequestIsProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recording{}
		o, run := newTestOutbox(t, r)
		processed := make(chan string)
		o.flows.window = window{size: 2, log: zerolog.Nop()}
		o.flows.window.waitProcessed = func(ctx context.Context, workflow string) error {
			select {
			case processed <- workflow:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		put := func(workflow, signal string, class Class) {
			o.Put(Delivery{Workflow: workflow, Signal: signal, UID: "u", Policy: Policy{Class: class}})
		}
		sent := func() []string {
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			var out []string
			for _, d := range r.sent {
				out = append(out, d.Workflow+" "+d.Signal)
			}
			r.sent = nil
			slices.Sort(out)
			return out
		}
		for i := range 6 {
			put(fmt.Sprintf("vm/many/%d", i), "vm", Request)
			put(fmt.Sprintf("vm/many/%d", i), "vm", Request) // it supersedes the one before
		}
		put("vm/one/a", "vm", Request)
		put("vmi/many/0", "vmi", Request)
		put("vmi/many/0", "pod", Change)
		run()
		require.Equal(t, []string{"vm/many/0 vm", "vm/many/1 vm", "vm/one/a vm", "vmi/many/0 pod", "vmi/many/0 vmi"},
			sent(), "no namespace waits for another, and no kind")
		o.Put(Delivery{Workflow: "vm/many/5", Signal: "vmi", UID: "u", Policy: Policy{Debounce: time.Millisecond}})
		time.Sleep(2 * time.Millisecond)
		require.Empty(t, sent(), "what was held back waits, too")
		put("vm/many/4", "vmi", Change)
		require.Equal(t, []string{"vm/many/4 vm", "vm/many/4 vmi"}, sent(), "all for a workflow goes at once")
		require.Equal(t, "vm/many/1", <-processed)
		require.Equal(t, []string{"vm/many/2 vm", "vm/many/3 vm"}, sent())
		time.Sleep(windowWait - time.Millisecond)
		require.Empty(t, sent())
		time.Sleep(time.Millisecond)
		require.Equal(t, []string{"vm/many/5 vm", "vm/many/5 vmi"}, sent(), "the workflow of vm/many/3 does not answer")
		require.Empty(t, o.flows.waiting)

		put("vm/two/a", "vm", Request)
		put("vm/two/b", "vm", Request)
		put("vm/two/c", "vm", Request)
		o.Put(Delivery{Workflow: "vm/two/c", Signal: "vm", UID: "u", Policy: Policy{Class: Record}})
		require.Equal(t, []string{"vm/two/a vm", "vm/two/b vm"}, sent())
		o.Put(Delivery{Workflow: "vm/two/c", Signal: "vm", UID: "u", Policy: Policy{Class: Resync}})
		require.Empty(t, sent(), "what takes its place waits as well")
		require.Equal(t, "vm/two/b", <-processed)
		require.Equal(t, []string{"vm/two/c vm"}, sent())

		for i := range 2 * flowWindow {
			time.Sleep(windowWait)
			put("vm/many/6", "vm", Request)
			require.Len(t, sent(), 1, "%d: with nothing before it lately, nothing is asked", i)
		}
		put("vm/three/a", "vm", Request)
		sent()
		require.Len(t, o.flows.byName, 2, "others were not used lately")
	})
}

// TestFlowHoldsDebouncedDeliveries: what is debounced for a workflow waits in its flow together with a request, and all
// of it is sent with something urgent, whatever came first. A workflow that has left its flow does not wait in it
// again.
func TestFlowHoldsDebouncedDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recording{}
		o, run := newTestOutbox(t, r)
		o.flows.window = window{size: 1, log: zerolog.Nop(), waitProcessed: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		request := Delivery{Signal: "vm", UID: "u", Policy: Policy{Class: Request}}
		held := Delivery{Signal: "vmi", UID: "i", Policy: Policy{Debounce: time.Second}}
		urgent := Delivery{Signal: "vmi", UID: "i"}
		put := func(name string, all ...Delivery) {
			for _, d := range all {
				d.Workflow = "vm/many/" + name
				o.Put(d)
			}
		}
		sent := func(name string) []string {
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			var out []string
			for _, d := range r.sent {
				if d.Workflow == "vm/many/"+name {
					out = append(out, d.Signal)
				}
			}
			return out
		}
		run()
		put("first", request)
		require.Equal(t, []string{"vm"}, sent("first"))
		put("second", request)
		put("third", held, request)
		time.Sleep(held.Debounce + time.Millisecond)
		require.Empty(t, sent("third"))
		put("third", Delivery{Signal: "pod", UID: "p", Policy: Policy{Class: Resync}})
		require.Empty(t, sent("third"))
		put("urgent", held, request, urgent)
		require.Equal(t, []string{"vmi", "vm"}, sent("urgent"))
		put("urgent", held)
		time.Sleep(held.Debounce)
		require.Len(t, sent("urgent"), 3, "no request waits any more")
		time.Sleep(windowWait - 2*held.Debounce)
		require.Equal(t, []string{"vm"}, sent("second"))
		require.Empty(t, sent("third"))
		time.Sleep(windowWait)
		require.Equal(t, []string{"vmi", "vm", "pod"}, sent("third"))
	})
}

// TestReleasedWorkflowIsNotQueuedAgain: a start that is not sent yet waits in no flow when a request joins it, nor does
// a request that has left its flow, also if it could not be sent.
func TestReleasedWorkflowIsNotQueuedAgain(t *testing.T) {
	o, _ := newTestOutbox(t, &recording{})
	request := Delivery{Workflow: "vm/a/x", Signal: "vm", UID: "u", Policy: Policy{Class: Request}}
	start := Delivery{Workflow: "vm/a/x", Signal: "vm", UID: "u"}
	o.Put(start)
	o.Put(request)
	require.True(t, o.hasDue("vm/a/x"))
	require.Empty(t, o.flows.waiting)

	request.Workflow = "vm/a/y"
	o.Put(request)
	require.False(t, o.hasDue("vm/a/y"))
	o.flows.remove("vm/a/y")
	o.handOver("vm/a/y")
	o.Put(request)
	require.True(t, o.hasDue("vm/a/y"))
	o.nextDue("vm/a/y")
	o.Put(request)
	require.True(t, o.hasDue("vm/a/y"), "the one before was not sent")
	require.Empty(t, o.flows.waiting)

	request.Workflow = "vm/a/z"
	o.Put(request)
	o.nextDue("vm/a/z") // with something urgent
	require.True(t, o.hasDue("vm/a/z"))
}

// TestServesFlowsInTurn: with as many busy flows as are served at once, another flow is served between two requests of
// theirs.
func TestServesFlowsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFlows(window{size: 1, log: zerolog.Nop(), waitProcessed: func(context.Context, string) error {
			time.Sleep(time.Second)
			return nil
		}})
		for i := range 100 {
			l.add(fmt.Sprintf("vm/many/%d", i))
			l.add(fmt.Sprintf("vmi/many/%d", i))
		}
		var running sync.WaitGroup
		var mu sync.Mutex
		var handed []string
		for range 2 {
			running.Go(func() {
				l.run(t.Context(), func(workflow string) {
					mu.Lock()
					defer mu.Unlock()
					handed = append(handed, workflow)
				})
			})
		}
		time.Sleep(10*time.Second + time.Millisecond)
		l.add("vm/one/a")
		time.Sleep(2 * time.Second)
		l.queue.ShutDown()
		running.Wait()
		require.Contains(t, handed, "vm/one/a")
		require.Less(t, len(handed), 30)
	})
}
