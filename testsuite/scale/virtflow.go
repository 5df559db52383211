package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/histories"
	"github.com/virtflow/virtflow/testsuite/processes"
)

// virtflow is virtflow's control plane.
type virtflow struct{ *run }

func (virtflow) programs() []string {
	return append(slices.Clone(sharedPrograms), "virtflow-temporal", processes.Postgres, "control-worker", "crdwatch",
		"api-server")
}

func (virtflow) isOwn(userAgent string) bool { return strings.HasPrefix(userAgent, "virtflow-") }

// serve runs a worker on the node's queue.
func (v virtflow) serve(_, _ context.Context, node string) error {
	w := worker.New(v.temporal, contract.NodeTaskQueue(node), worker.Options{
		MaxConcurrentActivityTaskPollers: 2, DisableWorkflowWorker: true,
	})
	n := simulated{name: node, boot: v.Boot, failures: v.Failures}
	w.RegisterActivityWithOptions(n.start, activity.RegisterOptions{Name: contract.ActivityStartDomain})
	w.RegisterActivityWithOptions(n.report, activity.RegisterOptions{Name: contract.ActivityReportNode})
	if err := w.Start(); err != nil {
		return fmt.Errorf("starting the worker of node %s: %w", node, err)
	}
	v.stop = append(v.stop, w.Stop)
	return nil
}

// hasEnded reports whether the pod's guest has ended, which is always so: the pod's status has the outcome.
func (virtflow) hasEnded(*corev1.Pod, func()) bool { return true }

// mostSampled is the number of machines whose histories are read: thousands would take longer than the step.
const mostSampled = 100

// visibleWithin is the limit until visibility lists the workflows of all of these.
const visibleWithin = 30 * time.Second

func (v virtflow) histories(ctx context.Context, s *stage, since time.Time) (out *sampled, err error) {
	names := s.names()
	some := make([]string, min(mostSampled, len(names)))
	for i := range some {
		some[i] = names[i*len(names)/len(some)]
	}
	late := wait.PollUntilContextTimeout(ctx, 2*time.Second, visibleWithin, true,
		func(context.Context) (bool, error) {
			out, err = v.sample(ctx, s, some, since)
			return err == nil, nil
		})
	if late != nil {
		return nil, errors.Join(err, late)
	}
	return out, nil
}

// sample reads the histories of some machines, all of which must have a workflow.
func (v virtflow) sample(ctx context.Context, s *stage, some []string, since time.Time) (*sampled, error) {
	out, found := &sampled{Machines: len(some)}, map[string]bool{}
	err := histories.Each(ctx, v.temporal, v.temporalNamespace, fmt.Sprintf("%s = '%s' AND %s IN ('%s')",
		contract.SearchNamespace, s.namespace, contract.SearchName, strings.Join(some, "', '")),
		func(workflow *common.WorkflowExecution, e *history.HistoryEvent) {
			found[machineName.FindString(workflow.GetWorkflowId())] = true
			if !e.GetEventTime().AsTime().Before(since) {
				out.Add(e)
			}
		})
	if err == nil && len(found) < len(some) {
		err = fmt.Errorf("workflows of only %d of %d machines are listed", len(found), len(some))
	}
	return out, err
}

// watch observes crdwatch's lease.
func (v virtflow) watch(ctx, life context.Context) (func(), error) {
	lease, err := v.watchLease(ctx, life)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		longest, changes := lease.sinceRenewed(time.Now())
		v.found(exactly("changes of the lease's holder", 0, changes))
		if !v.Counts {
			v.found(renewed(longest))
		}
	}), nil
}

func (v virtflow) started(ctx context.Context, s *stage, rest atRest, capacity, load step) error {
	v.found(costs("requests for each start", rest.start, load))
	v.found(workedOnce("their starts", rest.start, load)...)
	if !v.Counts {
		v.found(goodput(v.object().plural+" started a second", v.Rate, capacity, load))
	}
	return errors.Join(s.transitions(ctx), s.nothingLost(ctx, "their starts", rest.afterStart))
}

func (v virtflow) done(ctx context.Context, s *stage, c comparison) error {
	v.found(costs(c.requests, c.rest, c.load))
	v.found(workedOnce(c.of, c.rest, c.load)...)
	return s.nothingLost(ctx, c.of, c.events)
}

// transitions adds the findings whether each VM was started once, and every workflow has completed.
func (s *stage) transitions(ctx context.Context) error {
	bad, err := s.workflows(ctx, "ExecutionStatus IN ('Failed', 'TimedOut', 'Terminated', 'Canceled')")
	if err != nil {
		return fmt.Errorf("counting workflows: %w", err)
	}
	s.found(exactly("workflows that failed, timed out or were cancelled", 0, bad))
	if s.VMIs {
		return nil
	}
	starts, err := s.starts(ctx)
	s.found(exactly("starts of VMs, as workflows", s.count, starts))
	return err
}

// starts counts the workflows that have started a VM of the stage, or tried to.
func (s *stage) starts(ctx context.Context) (int, error) {
	n, err := s.workflows(ctx, "WorkflowType = '"+contract.WorkflowStartVM+"'")
	if err != nil {
		return 0, fmt.Errorf("counting starts: %w", err)
	}
	return n, nil
}

// workflows counts the stage's workflows that match a query.
func (s *stage) workflows(ctx context.Context, query string) (int, error) {
	answer, err := s.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: s.temporalNamespace, Query: contract.SearchNamespace + " = '" + s.namespace + "' AND " + query,
	})
	return int(answer.GetCount()), err
}

// nothingLost adds the finding whether the events of a VM at rest were recorded about each VM.
func (s *stage) nothingLost(ctx context.Context, of string, rest map[string]int) error {
	r, err := s.events(ctx)
	if err != nil {
		return fmt.Errorf("listing events: %w", err)
	}
	missing, sum := lost(rest, r, s.names()), 0
	for _, what := range slices.Sorted(maps.Keys(missing)) {
		fmt.Printf("scale:   %d × event %s is missing\n", missing[what], what)
		sum += missing[what]
	}
	s.found(eventsLost("events of "+of+" that were lost", rest, sum))
	return nil
}

// simulated answers as a node worker.
type simulated struct {
	name     string
	boot     time.Duration // time until a guest runs
	failures float64       // fraction of failed attempts to start a guest
}

// errSimulated is retried, as transient errors of a launcher are.
var errSimulated = errors.New("simulated: the guest cannot be started this time")

func (n simulated) report(context.Context) (contract.ReportNodeResult, error) {
	return contract.ReportNodeResult{Report: contract.NodeReport{
		Incarnation: n.name, Sequence: 1, Arch: "amd64", CPUVendor: "AMD",
		Capabilities: &contract.HostCapabilities{
			VirtType: "qemu", MachineTypes: []string{"q35", machineType}, CPUModels: []string{"EPYC"},
			HostModel: "EPYC",
		},
	}}, nil
}

func (n simulated) start(ctx context.Context, in contract.StartDomainInput) (contract.StartDomainResult, error) {
	select {
	case <-ctx.Done():
		return contract.StartDomainResult{}, ctx.Err()
	case <-time.After(n.boot):
	}
	if rand.Float64() < n.failures { // which one fails is no secret
		return contract.StartDomainResult{}, errSimulated
	}
	return contract.StartDomainResult{Domain: contract.DomainObservation{
		PodUID: in.Pod.UID, Sequence: 1, State: contract.DomainRunning, MachineType: machineType,
		GuestMemory: 64 << 20,
		Interfaces: []contract.DomainInterface{
			{Name: "default", MAC: "02:00:00:00:00:01", PodInterfaceName: "eth0", LinkState: "up"}},
		Volumes: []contract.DomainVolume{{Name: "root", Target: "vda"}},
	}}, nil
}
