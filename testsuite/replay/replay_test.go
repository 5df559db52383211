package replay_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/workers/control"
)

const folder = "histories"

// TestRecordedHistoriesReplay replays every history as a whole, and every prefix at which a worker may have stopped.
func TestRecordedHistoriesReplay(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	require.NoError(t, err)
	floor, least := manifest(t)
	require.NotEmpty(t, files, "no history is recorded: make record-histories RELEASE=%s, on a running cluster", floor)
	found := map[string]int{}
	replays := 0
	for _, f := range files {
		h := read(t, f, 0)
		kind := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
		found[kind]++
		t.Run(filepath.Base(f), func(t *testing.T) {
			replay(t, read(t, f, 0))
			replays++
			for _, e := range h.GetEvents() {
				if e.GetEventType() == enums.EVENT_TYPE_WORKFLOW_TASK_STARTED {
					replay(t, read(t, f, e.GetEventId()))
					replays++
				}
			}
		})
	}
	for kind, n := range least {
		require.GreaterOrEqual(t, found[kind], n, "histories of %s are missing: the folder must not shrink", kind)
	}
	suite.PrintFigures(t, "replay: histories %d, replays with prefixes %d", len(files), replays)
}

func read(t *testing.T, file string, lastEvent int64) *historypb.History {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	h, err := client.HistoryFromJSON(f, client.HistoryJSONOptions{LastEventID: lastEvent})
	require.NoError(t, err)
	require.NotEmpty(t, h.GetEvents())
	return h
}

func replay(t *testing.T, h *historypb.History) {
	t.Helper()
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{})
	require.NoError(t, err)
	control.RegisterWorkflows(r)
	require.NoError(t, r.ReplayWorkflowHistory(nil, h), "up to event %d",
		h.GetEvents()[len(h.GetEvents())-1].GetEventId())
}

// manifest reads the floor and the least numbers of histories: lines of "workflow type, blank, number".
func manifest(t *testing.T) (floor string, least map[string]int) {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, "MANIFEST"))
	require.NoError(t, err)
	defer f.Close()
	least = map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "floor "); ok {
			floor = name
			continue
		}
		var kind string
		var n int
		_, err := fmt.Sscanf(line, "%s %d", &kind, &n)
		require.NoError(t, err, "MANIFEST: %q", line)
		least[kind] = n
	}
	require.NotEmpty(t, floor, "MANIFEST names no floor")
	require.NotEmpty(t, least, "MANIFEST names no workflow type")
	return floor, least
}
