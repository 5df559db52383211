package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/tlsfiles"
	"github.com/virtflow/virtflow/testsuite/temporal/trial"
)

const namespace = "bench"

// variant is one row of the table: a server's environment and a form of the workflows.
type variant struct {
	name    string
	env     []string
	regular bool
}

func variants() []variant {
	settings := func(polls, journal, sync, shards string) []string {
		return []string{
			"TEMPORAL_DEV_POLL_RPS=" + polls, "TEMPORAL_DEV_JOURNAL_MODE=" + journal,
			"TEMPORAL_DEV_SYNCHRONOUS=" + sync, "TEMPORAL_DEV_SHARDS=" + shards,
		}
	}
	return []variant{
		{name: "as it comes (20 polls/s, rollback journal, full sync, 1 shard)",
			env: settings("20", "delete", "2", "1")},
		{name: "polls 2000/s", env: settings("2000", "delete", "2", "1")},
		{name: "polls 2000/s, WAL, full sync", env: settings("2000", "wal", "2", "1")},
		{name: "polls 2000/s, WAL, sync 1", env: settings("2000", "wal", "1", "1")},
		{name: "polls 2000/s, WAL, sync 1, 16 shards", env: settings("2000", "wal", "1", "16")},
		{name: "polls 20/s, WAL, sync 1, 4 shards", env: settings("20", "wal", "1", "4")},
		{name: "as shipped"},
		{name: "as shipped, GOGC=400", env: []string{"GOGC=400"}},
		{name: "as shipped, regular activities", regular: true},
	}
}

// result has the measurements of one variant.
type result struct {
	p50One, p50Many  time.Duration
	rate             float64       // starts a second, many at once
	cpuEach, cpuIdle time.Duration // of the server: for one start of the many; in one idle second
}

func main() {
	server := flag.String("server", "./virtflow-temporal", "program of the server")
	config := flag.String("config", "../../temporal-dev.yaml", "configuration of the server")
	singles := flag.Int("singles", 30, "starts one after the other")
	many := flag.Int("many", 100, "starts at once")
	only := flag.String("only", "", "measures the variants whose names contain this")
	flag.Parse()
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "variant\tp50 of one\tall at once: rate\tp50\tserver CPU each\tserver CPU idle")
	chosen := slices.DeleteFunc(variants(), func(v variant) bool { return !strings.Contains(v.name, *only) })
	if len(chosen) == 0 {
		fmt.Fprintf(os.Stderr, "bench: --only: no variant's name contains %q\n", *only)
		os.Exit(2)
	}
	for _, v := range chosen {
		r, err := measure(context.Background(), *server, *config, v, *singles, *many)
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", v.name, err)
			os.Exit(1)
		}
		fmt.Fprintf(table, "%s\t%d ms\t%.1f/s\t%.1f s\t%d ms\t%d ms/s\n", v.name,
			r.p50One.Milliseconds(), r.rate, r.p50Many.Seconds(), r.cpuEach.Milliseconds(), r.cpuIdle.Milliseconds())
		fmt.Fprintf(os.Stderr, "%+v %+v\n", v, r)
	}
	_ = table.Flush()
}

func measure(ctx context.Context, program, config string, v variant, singles, many int) (r result, err error) {
	dir, err := os.MkdirTemp("", "temporal-bench-")
	if err != nil {
		return r, fmt.Errorf("making a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := trial.New(dir, config, v.env, program)
	if err != nil {
		return r, err
	}
	if err := server.Start(ctx); err != nil {
		return r, errors.Join(err, server.Kill())
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	connection, err := connect(ctx, server)
	if err != nil {
		return r, err
	}
	defer connection.Close()
	f := &flow{client: connection, regular: v.regular}
	for _, w := range f.workers() {
		if err := w.Start(); err != nil {
			return r, fmt.Errorf("starting a worker: %w", err)
		}
		defer w.Stop()
	}
	if _, err := concurrently(ctx, f, "warm", 8); err != nil {
		return r, err
	}
	idle := 5 * time.Second
	if r.cpuIdle, err = spent(server, func() error { time.Sleep(idle); return nil }); err != nil {
		return r, err
	}
	r.cpuIdle /= time.Duration(idle.Seconds())

	var one []time.Duration
	for i := range singles {
		took, err := f.start(ctx, "one", strconv.Itoa(i))
		if err != nil {
			return r, err
		}
		one = append(one, took)
	}
	r.p50One = p50(one)

	var all []time.Duration
	began := time.Now()
	cpu, err := spent(server, func() (err error) { all, err = concurrently(ctx, f, "many", many); return err })
	if err != nil {
		return r, err
	}
	r.rate = float64(many) / time.Since(began).Seconds()
	r.p50Many, r.cpuEach = p50(all), cpu/time.Duration(many)
	return r, nil
}

// concurrently starts n machines at once.
func concurrently(ctx context.Context, f *flow, prefix string, n int) ([]time.Duration, error) {
	took, errs := make([]time.Duration, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { took[i], errs[i] = f.start(ctx, prefix, strconv.Itoa(i)) })
	}
	group.Wait()
	return took, errors.Join(errs...)
}

// spent returns the server's processor time during a function.
func spent(server *trial.Server, do func() error) (time.Duration, error) {
	before, err := server.CPU()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := server.CPU()
	return after - before, err
}

func p50(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

// connect registers the namespace and returns a client of it.
func connect(ctx context.Context, server *trial.Server) (client.Client, error) {
	tls, err := tlsfiles.Client(server.TLS)
	if err != nil {
		return nil, err
	}
	options := client.Options{
		HostPort: server.Address, Namespace: namespace,
		Logger:            log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		ConnectionOptions: client.ConnectionOptions{TLS: tls},
	}
	namespaces, err := client.NewNamespaceClient(options)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer namespaces.Close()
	err = namespaces.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return nil, fmt.Errorf("registering the namespace: %w", err)
	}
	connected, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for { // every service has a cache of the namespaces
		_, err := connected.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{})
		if err == nil {
			return connected, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("waiting for the namespace: %w", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
