package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// restartable is a process of the control plane, and how it is ended so that it is started again.
type restartable struct {
	name string
	end  func(*run, context.Context) error
}

// restartables are all that virtflow's users wait for, in the order in which they are ended. Of virtflow's own, every
// replica is.
var restartables = []restartable{
	{"crdwatch", endPods("virtflow-crdwatch")},
	{"control-worker", endPods("virtflow-control-worker")},
	{"api-server", endPods("virtflow-api-server")},
	{"temporal", endSupervised("temporal")},
	{"kube-apiserver", endSupervised("kube-apiserver")},
}

func endPods(name string) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		return kubectl(ctx, r.System, "delete", "pods", "-l", "app.kubernetes.io/name="+name, "--grace-period=1",
			"--wait=false")
	}
}

// endSupervised kills a process that the local cluster runs beside the nodes.
func endSupervised(name string) func(*run, context.Context) error {
	return func(_ *run, ctx context.Context) error {
		out, err := exec.CommandContext(ctx, "go", "run", "-C", "deploy/dev", "-trimpath", "-buildvcs=false", ".",
			"kill", name).CombinedOutput()
		if err != nil {
			return fmt.Errorf("killing %s: %w: %s", name, err, out)
		}
		return nil
	}
}

// restarts ends each process in turn while all VMs of a stage run, and has one more VM made at once: until it runs is
// what a user waits. Nothing may become of the others.
func (r *run) restarts(ctx, life context.Context, s *stage) error {
	for _, p := range restartables {
		probe, err := r.newNamedStage(ctx, life, "restart-"+p.name, 1)
		if err != nil {
			return err
		}
		s.mark()
		began := time.Now()
		if err := p.end(r, ctx); err != nil {
			return err
		}
		took, err := probe.step(ctx, "start", started, func(ctx context.Context) error {
			return probe.atATime(ctx, 1, probe.makeVMOnceServed)
		})
		if err != nil {
			return fmt.Errorf("after the restart of %s: %w", p.name, err)
		}
		calls, err := s.settled(ctx, began)
		if err != nil {
			return err
		}
		n := float64(s.count)
		fmt.Fprintf(os.Stdout, "scale: restart of %s with %d VMs: one that is made at once runs after %s; "+
			"%.3f requests and %.3f events about each of the others\n", p.name, s.count, round(took.Whole),
			float64(calls.Total)/n, float64(calls.Events)/n)
		r.found(exactly("VMs that the restart of "+p.name+" has stopped or replaced", 0, s.disturbed()), s.failed())
	}
	return nil
}

// makeVMOnceServed makes a VM as soon as the API server and the webhooks answer.
func (s *stage) makeVMOnceServed(ctx context.Context, name string) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = s.makeVM(ctx, name)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// mark remembers which instance each VM has.
func (s *stage) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		m.before = m.UID
	}
}

// disturbed counts the VMs that do not run, or no longer as the instance that they were.
func (s *stage) disturbed() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.machines {
		if !started(m) || replaced(m) {
			n++
		}
	}
	return n
}
