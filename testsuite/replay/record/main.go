// Command record writes the histories of finished and of running workflows of a Temporal namespace into a folder, for
// the replay tests.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

func main() { process.Main(command) }

func command() *cobra.Command {
	var temporal temporalclient.Options
	var out, query, release string
	var perType int
	cmd := process.NewCommand("record", "write recorded workflow histories into a folder", func(f *pflag.FlagSet) {
		temporal.AddFlags(f)
		f.StringVar(&out, "out", "testsuite/replay/histories", "folder to write to")
		f.StringVar(&query, "query", "", "which workflows (visibility query); empty: all")
		f.StringVar(&release, "release", "dev",
			"goes into the files' names: histories of several releases lie side by side")
		f.IntVar(&perType, "per-type", 6, "at most that many histories of one workflow type, the longest first")
	}, func(ctx context.Context, p *process.Process) error {
		c, err := temporal.Dial(ctx, p.Log, nil, "record")
		if err != nil {
			return err
		}
		defer c.Close()
		return record(ctx, c, temporal.Namespace, query, out, release, perType)
	})
	_ = cmd.Flags().Set("metrics-address", "")
	_ = cmd.Flags().Set("log-level", "warn")
	return cmd
}

type recorded struct {
	kind, id string
	history  *historypb.History
}

func record(ctx context.Context, c client.Client, namespace, query, out, release string, perType int) error {
	var token []byte
	byType := map[string][]recorded{}
	for {
		page, err := c.ListWorkflow(ctx,
			&workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace, Query: query, NextPageToken: token})
		if err != nil {
			return fmt.Errorf("listing workflows: %w", err)
		}
		for _, e := range page.GetExecutions() {
			h, err := history(ctx, c, e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId())
			if err != nil {
				return err
			}
			kind := e.GetType().GetName()
			byType[kind] = append(byType[kind], recorded{kind: kind, id: e.GetExecution().GetWorkflowId(), history: h})
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			break
		}
	}
	if len(byType) == 0 {
		return fmt.Errorf("namespace %s has no workflow that matches %q", namespace, query)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	for kind, list := range byType {
		sort.SliceStable(list, func(i, j int) bool {
			return len(list[i].history.GetEvents()) > len(list[j].history.GetEvents())
		})
		for i, r := range list[:min(len(list), perType)] {
			name := fmt.Sprintf("%s-%s-%02d.json", release, strings.ToLower(kind), i+1)
			b, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(r.history)
			if err != nil {
				return fmt.Errorf("writing %s: %w", r.id, err)
			}
			if err := os.WriteFile(filepath.Join(out, name), b, 0o644); err != nil {
				return fmt.Errorf("writing %s: %w", name, err)
			}
			fmt.Printf("%s: %s, %d events\n", name, r.id, len(r.history.GetEvents()))
		}
	}
	return nil
}

func history(ctx context.Context, c client.Client, id, run string) (*historypb.History, error) {
	h := &historypb.History{}
	for it := c.GetWorkflowHistory(ctx, id, run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			return nil, fmt.Errorf("reading the history of %s: %w", id, err)
		}
		h.Events = append(h.Events, e)
	}
	return h, nil
}
