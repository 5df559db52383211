//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	usage "github.com/virtflow/virtflow/testsuite/processes"
	"github.com/virtflow/virtflow/testsuite/suite"
)

const (
	// answersAsked is the number of requests for one figure.
	answersAsked = 20
	// startsCounted is the number of starts over which the processor time of one is averaged.
	startsCounted = 30
)

// TestAnswerTimes prints how long a user waits for an answer, from the client's request through Kubernetes' API server
// to the guest and back, on an idle cluster. Times are printed and not asserted.
func TestAnswerTimes(t *testing.T) {
	suite.TakeTurn(t, 2)
	untilHealthy(t)
	m := newMachine(t, "asked", "Always", "")
	m.untilBooted()
	m.untilCondition("AgentConnected", "")
	settled(t, m.namespace, time.Now().Add(-time.Minute))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	require.NoError(t, err)
	web, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	put := func(what string) time.Duration {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, config.Host+m.subresource(vmis, what),
			strings.NewReader("{}"))
		require.NoError(t, err)
		begun := time.Now()
		answer, err := web.Do(r)
		require.NoError(t, err)
		took := time.Since(begun)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", what, text)
		return took
	}
	took := map[string][]time.Duration{}
	for range answersAsked {
		took["pause"] = append(took["pause"], put("pause"))
		m.untilStatus("Paused") // earlier operations have ended
		took["unpause"] = append(took["unpause"], put("unpause"))
		m.untilStatus("Running")
	}
	const console = "first byte of a console"
	for range answersAsked / 4 {
		begun := time.Now()
		c := m.stream(m.subresource(vmis, "console"))
		writeTo(t, c, "\n")
		readUntil(t, c, "\n")
		took[console] = append(took[console], time.Since(begun))
		require.NoError(t, c.Close())
	}
	for _, what := range []string{"pause", "unpause", console} {
		all := took[what]
		slices.Sort(all)
		fmt.Printf("budget: answer to %s: median %d ms, 90th percentile %d ms, of %d\n", what,
			all[len(all)/2].Milliseconds(), all[len(all)*9/10].Milliseconds(), len(all))
	}
	m.remove()
}

// TestStartProcessorTime prints the processor time that the api-server's replicas together need for one start. No node
// takes these machines: the later parts of a start do not pass through the api-server.
func TestStartProcessorTime(t *testing.T) {
	suite.TakeTurn(t, 0)
	untilHealthy(t)
	for _, kind := range []struct{ name, list string }{{"VMI", vmis}, {"VM", vms}} {
		namespace := newNamespace(t)
		var all strings.Builder
		for i := range startsCounted {
			m := &machine{t: t, namespace: namespace, name: fmt.Sprintf("counted%d", i)}
			text := m.manifest("Always", `      nodeSelector: {e2e.virtflow.io/nowhere: "true"}`)
			if kind.name == "VMI" {
				text = instanceOf(text)
			}
			all.WriteString("---\n" + text)
		}
		before := processorTime(t, "api-server")
		_, err := tryWith(all.String(), "create", "-f", "-")
		require.NoError(t, err)
		until(t, 3*time.Minute, "each has its launcher's pod", func() error {
			out, err := try("-n", namespace, "get", "pods", "-o", "name")
			if n := len(strings.Fields(out)); err != nil || n < startsCounted {
				return fmt.Errorf("%d pods so far: %w", n, err)
			}
			return nil
		})
		spent := processorTime(t, "api-server") - before
		fmt.Printf("budget: processor time of the api-server for the start of one %s: %.1f ms, of %d\n", kind.name,
			float64(spent.Microseconds())/1000/startsCounted, startsCounted)
		kubectl(t, "-n", namespace, "delete", kind.list, "--all", "--timeout=110s")
	}
}

// instanceOf turns the manifest of a virtual machine into that of its instance.
func instanceOf(vm string) string {
	head, rest, _ := strings.Cut(vm, "  template:\n")
	_, spec, _ := strings.Cut(rest, "    spec:\n")
	metadata := head[strings.Index(head, "metadata:"):strings.Index(head, "spec:\n")]
	var b strings.Builder
	b.WriteString("apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\n" + metadata + "spec:\n")
	for line := range strings.Lines(spec) {
		b.WriteString(strings.TrimPrefix(line, "    "))
	}
	return b.String()
}

// processorTime returns the processor time of all processes of a program so far.
func processorTime(t *testing.T, name string) time.Duration {
	t.Helper()
	all, err := usage.Running(name)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return usage.Since(nil, all)[name].CPU
}
