//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

const (
	stormStreams = 50 // over two guests: a console and a screen each, the others forwarded ports
	stormCycles  = 4  // starts and stops of each of stormVMs
	stormVMs     = 3
	stormPauses  = 6 // pauses and unpauses of each guest
	stormLimit   = time.Minute
)

// storm is a load of clients that retry until the outcome of each request is known.
type storm struct {
	client  *http.Client
	host    string
	errors  atomic.Int64 // without an answer, or 5xx
	refused atomic.Int64 // refused because it was done already
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	require.NoError(t, err)
	config.QPS, config.Burst = -1, 0
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	client.Timeout = 20 * time.Second
	return &storm{client: client, host: config.Host}
}

// put sends a request once. The code is 0 if there was no answer.
func (s *storm) put(path, body, requestID string) (int, string) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPut, s.host+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	if requestID != "" {
		r.Header.Set("Audit-Id", requestID)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		s.errors.Add(1)
		return 0, err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if answer.StatusCode >= 500 {
		s.errors.Add(1)
	}
	return answer.StatusCode, string(text)
}

// putUntilDone sends a request until it is done, or until the answer shows that an earlier one with a lost answer was
// done.
func (s *storm) putUntilDone(path, body, requestID, doneBefore string) error {
	for end := time.Now().Add(stormLimit); ; time.Sleep(100 * time.Millisecond) {
		code, text := s.put(path, body, requestID)
		switch {
		case code == http.StatusOK || code == http.StatusAccepted:
			return nil
		case doneBefore != "" && strings.Contains(text, doneBefore):
			s.refused.Add(1)
			return nil
		case code >= 400 && code < 500 && code != http.StatusConflict && code != http.StatusTooManyRequests &&
			code != http.StatusNotFound:
			return fmt.Errorf("%s: %d %s", path, code, text)
		case time.Now().After(end):
			return fmt.Errorf("%s is not done in %s: %d %s", path, stormLimit, code, text)
		}
	}
}

// figures are the api-server's own metrics.
type figures struct{ goroutines, files, streams float64 }

func apiServerFigures(t *testing.T, address string) figures {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	require.NoError(t, err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return figures{metric(t, text, "go_goroutines"), metric(t, text, "process_open_fds"),
		metric(t, text, "virtflow_streams")}
}

// metric returns the sum of a metric over its labels.
func metric(t *testing.T, text []byte, name string) float64 {
	t.Helper()
	sum := 0.0
	for line := range bytes.Lines(text) {
		l := strings.TrimSpace(string(line))
		if !strings.HasPrefix(l, name+" ") && !strings.HasPrefix(l, name+"{") {
			continue
		}
		v, err := strconv.ParseFloat(l[strings.LastIndex(l, " ")+1:], 64)
		require.NoError(t, err)
		sum += v
	}
	return sum
}

// TestAPIServerKilledInAStorm: the api-server is killed twice while 50 streams are open (consoles, screens and
// forwarded ports of two guests: a guest has one console) and clients start, stop, pause and unpause. Every stream ends
// with an error and can be opened again; a client that repeats a request until it is answered has it done exactly once;
// nothing is left open.
func TestAPIServerKilledInAStorm(t *testing.T) {
	suite.TakeTurn(t, 5)
	untilHealthy(t)
	guests := []*machine{newMachine(t, "one", "Always", "")}
	guests = append(guests, &machine{t: t, namespace: guests[0].namespace, name: "two"})
	guests[1].apply("Always", "")
	var machines []*machine
	for i := range stormVMs {
		m := &machine{t: t, namespace: guests[0].namespace, name: "off" + strconv.Itoa(i)}
		m.apply("Manual", `      nodeSelector: {nowhere: "yes"}`)
		machines = append(machines, m)
	}
	for _, m := range machines {
		m.untilStatus("Stopped")
	}
	for _, g := range guests {
		g.untilBooted()
	}
	metrics := forwarded(t, "deployment/virtflow-api-server", "8080")
	base := apiServerFigures(t, metrics)

	open := func() []*websocket.Conn {
		t.Helper()
		var all []*websocket.Conn
		for _, g := range guests {
			all = append(all, g.stream(g.subresource(vmis, "console")), g.stream(g.subresource(vmis, "vnc")))
		}
		for len(all) < stormStreams {
			g := guests[len(all)%2]
			until(t, stormLimit, "a port of "+g.name+" is forwarded, which a paused guest refuses", func() error {
				c, code, text := g.connect(g.subresource(vmis, "portforward/80"))
				if c == nil {
					return fmt.Errorf("%d %s", code, text)
				}
				all = append(all, c)
				return nil
			})
		}
		return all
	}
	streams := open()
	require.InDelta(t, stormStreams, apiServerFigures(t, metrics).streams, 0, "open streams")

	s := newStorm(t)
	wanted := make(chan error, stormVMs+len(guests))
	var going sync.WaitGroup
	var done atomic.Int64
	for _, m := range machines {
		going.Go(func() { wanted <- s.startAndStop(m, &done) })
	}
	for _, g := range guests {
		going.Go(func() { wanted <- s.pauseAndUnpause(g, &done) })
	}
	for _, after := range []int64{3, 12} {
		until(t, stormLimit, fmt.Sprintf("%d requests are done", after), func() error {
			if n := done.Load(); n < after {
				return fmt.Errorf("%d so far", n)
			}
			return nil
		})
		before := program("api-server")
		require.NotEmpty(t, before)
		kill(t, before)
		for _, c := range streams {
			for err := error(nil); err == nil; { // data under way, then the end
				_, _, err = c.ReadMessage()
			}
			_ = c.Close() // it reports that the other side is gone
		}
		until(t, stormLimit, "the api-server answers again", func() error {
			_, err := try("get", "--raw", subresourcesPath+guests[0].namespace+"/virtualmachines/one/expand-spec")
			return err
		})
		streams = open()
	}
	going.Wait()
	close(wanted)
	for err := range wanted {
		require.NoError(t, err)
	}
	t.Logf("%d requests were done; %d answers were errors, %d were refused because the request before had been done",
		done.Load(), s.errors.Load(), s.refused.Load())
	require.Positive(t, s.errors.Load(), "no client has noticed that the api-server was killed")

	for _, c := range streams {
		_ = c.Close() // as above
	}
	metrics = forwarded(t, "deployment/virtflow-api-server", "8080")
	until(t, stormLimit, "the api-server has released everything", func() error {
		if now := apiServerFigures(t, metrics); now.streams != 0 || now.goroutines > base.goroutines+20 ||
			now.files > base.files+10 {
			return fmt.Errorf("%+v, and %+v before", now, base)
		}
		return nil
	})
	for _, m := range machines {
		require.Equal(t, stormCycles, transitions(t, m, contract.OperationStart), m.name)
		// Nothing ever runs, so a stop cancels the start, which deletes the instance. There is a stop transition only
		// where the workflow receives the stop after the start's end.
		require.LessOrEqual(t, transitions(t, m, contract.OperationStop), stormCycles, m.name)
	}
	for _, g := range guests {
		var list []contract.OperationRecord
		query(t, contract.VMIID(g.namespace, g.name), contract.QueryHistory, &list)
		times := map[contract.Operation]int{}
		for _, r := range list {
			if r.Outcome == "done" {
				times[r.Operation]++
			}
		}
		require.Equal(t, stormPauses, times[contract.OperationPause], "%v", list)
		require.Equal(t, stormPauses, times[contract.OperationUnpause], "%v", list)
	}
}

// startAndStop starts and stops a machine whose instance never gets a node.
func (s *storm) startAndStop(m *machine, done *atomic.Int64) error {
	there := func(want bool) error {
		for end := time.Now().Add(stormLimit); ; time.Sleep(100 * time.Millisecond) {
			out, err := try("-n", m.namespace, "get", "vmi", m.name, "--ignore-not-found", "-o", "name")
			if err == nil && (out != "") == want {
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("the instance of %s exists: %t, want %t", m.name, !want, want)
			}
		}
	}
	for range stormCycles {
		if err := s.putUntilDone(m.subresource(vms, "start"), "{}", "", "VM is already running"); err != nil {
			return err
		}
		if err := there(true); err != nil {
			return err
		}
		done.Add(1)
		if err := s.putUntilDone(m.subresource(vms, "stop"), "{}", "", "VM is not running"); err != nil {
			return err
		}
		if err := there(false); err != nil {
			return err
		}
		done.Add(1)
	}
	return nil
}

// pauseAndUnpause repeats each request under its own ID until it is answered.
func (s *storm) pauseAndUnpause(m *machine, done *atomic.Int64) error {
	for i := range stormPauses {
		for _, o := range []string{"pause", "unpause"} {
			id := fmt.Sprintf("%s-%s-%d", m.name, o, i)
			if err := s.putUntilDone(m.subresource(vmis, o), "{}", id, ""); err != nil {
				return err
			}
			done.Add(1)
		}
	}
	return nil
}

// transitions counts the transitions of one operation that a machine has begun, each once.
func transitions(t *testing.T, m *machine, o contract.Operation) int {
	t.Helper()
	vm, err := m.vm()
	require.NoError(t, err)
	prefix := contract.VMID(m.namespace, m.name) + "/" + string(vm.UID)[:8] + "/" + string(o) + "/"
	c, ids := temporal(t), map[string]bool{}
	for page := []byte(nil); ; {
		list, err := c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: os.Getenv("TEMPORAL_NAMESPACE"), Query: contract.SearchNamespace + " = '" + m.namespace + "'",
			NextPageToken: page,
		})
		require.NoError(t, err)
		for _, e := range list.GetExecutions() {
			if id := e.GetExecution().GetWorkflowId(); strings.HasPrefix(id, prefix) {
				require.NotEqual(t, enums.WORKFLOW_EXECUTION_STATUS_FAILED, e.GetStatus(), id)
				ids[id] = true
			}
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return len(ids)
		}
	}
}
