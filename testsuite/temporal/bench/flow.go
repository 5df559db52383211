package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	controlQueue = "control"
	nodeQueue    = "node"
	observed     = "observed" // the one signal: an observation of the cluster
)

// flow is one start of a machine: a VM entity and a VMI entity, six calls to the cluster, one to the node, five signals
// (to the VM: desired action, instance running; to the VMI: desired action, pod ready, domain running).
type flow struct {
	client client.Client
	// regular makes the calls to the cluster regular activities instead of local ones.
	regular bool
}

func (f *flow) workers() []worker.Worker {
	control := worker.New(f.client, controlQueue, worker.Options{MaxConcurrentWorkflowTaskPollers: 8})
	control.RegisterWorkflow(f.VM)
	control.RegisterWorkflow(f.VMI)
	control.RegisterActivity(f.Call)
	control.RegisterActivity(f.CreateVMI)
	control.RegisterActivity(f.CreatePod)
	control.RegisterActivity(f.Running)
	node := worker.New(f.client, nodeQueue, worker.Options{DisableWorkflowWorker: true})
	node.RegisterActivity(f.StartDomain)
	return []worker.Worker{control, node}
}

// VM creates the VMI and waits until it runs.
func (f *flow) VM(ctx workflow.Context, name string) error {
	signals := workflow.GetSignalChannel(ctx, observed)
	signals.Receive(ctx, nil)
	if err := f.calls(ctx, name, f.Call, f.CreateVMI); err != nil {
		return err
	}
	signals.Receive(ctx, nil)
	return f.calls(ctx, name, f.Call)
}

// VMI creates the pod, has the node start the domain and writes its status.
func (f *flow) VMI(ctx workflow.Context, name string) error {
	signals := workflow.GetSignalChannel(ctx, observed)
	signals.Receive(ctx, nil)
	if err := f.calls(ctx, name, f.CreatePod); err != nil {
		return err
	}
	signals.Receive(ctx, nil)
	node := workflow.WithActivityOptions(ctx,
		workflow.ActivityOptions{TaskQueue: nodeQueue, StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(node, f.StartDomain, name).Get(ctx, nil); err != nil {
		return err
	}
	signals.Receive(ctx, nil)
	return f.calls(ctx, name, f.Call, f.Running)
}

// calls makes calls to the cluster one after the other.
func (f *flow) calls(ctx workflow.Context, name string, functions ...any) error {
	for _, function := range functions {
		var future workflow.Future
		if f.regular {
			ctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
			future = workflow.ExecuteActivity(ctx, function, name)
		} else {
			ctx := workflow.WithLocalActivityOptions(ctx,
				workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
			future = workflow.ExecuteLocalActivity(ctx, function, name)
		}
		if err := future.Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// Call stands for a call to the cluster without a signal as its answer.
func (f *flow) Call(context.Context, string) error { return nil }

// CreateVMI creates the object, which is observed at once and starts its entity.
func (f *flow) CreateVMI(ctx context.Context, name string) error {
	return f.observe(ctx, "vmi/"+name, f.VMI, name)
}

// CreatePod creates the pod, which is ready at once.
func (f *flow) CreatePod(ctx context.Context, name string) error {
	return f.client.SignalWorkflow(ctx, "vmi/"+name, "", observed, "pod ready")
}

// StartDomain is the node's part.
func (f *flow) StartDomain(ctx context.Context, name string) error {
	return f.client.SignalWorkflow(ctx, "vmi/"+name, "", observed, "domain running")
}

// Running writes the status, which the VM observes at once.
func (f *flow) Running(ctx context.Context, name string) error {
	return f.client.SignalWorkflow(ctx, "vm/"+name, "", observed, "instance running")
}

// observe delivers an observation to an entity, and starts it if it does not run.
func (f *flow) observe(ctx context.Context, id string, entity any, name string) error {
	_, err := f.client.SignalWithStartWorkflow(ctx, id, observed, "wanted",
		client.StartWorkflowOptions{TaskQueue: controlQueue}, entity, name)
	if err != nil {
		return fmt.Errorf("signalling %s: %w", id, err)
	}
	return nil
}

// start runs one machine's start to its end and returns how long it took.
func (f *flow) start(ctx context.Context, parts ...string) (time.Duration, error) {
	name := strings.Join(parts, "/")
	began := time.Now()
	if err := f.observe(ctx, "vm/"+name, f.VM, name); err != nil {
		return 0, err
	}
	if err := f.client.GetWorkflow(ctx, "vm/"+name, "").Get(ctx, nil); err != nil {
		return 0, fmt.Errorf("waiting for %s: %w", name, err)
	}
	return time.Since(began), nil
}
