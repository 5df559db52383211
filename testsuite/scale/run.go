package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/sdk/client"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/testsuite/processes"
)

// run is one run.
type run struct {
	options
	host              string // the API server's address
	kubernetes        kubernetes.Interface
	kubevirt          *kube.Client
	loaded            controlPlane
	targets           *targets      // nil: none fails
	temporal          client.Client // nil when KubeVirt is loaded
	temporalNamespace string
	log               zerolog.Logger
	stop              []func() // the simulated nodes' workers
	stages            []*stage
	report            report
	out               io.Writer // nil: the report is not written
}

// errProperty reports that a property of the table does not hold.
var errProperty = errors.New("not every property holds")

// all does a run from its simulated nodes to its table. At the end, also when interrupted, it deletes what it created.
func (r *run) all(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer r.clean(life)
	err := r.course(ctx, life)
	if err != nil {
		r.found(stopped(err))
	}
	if r.out != nil {
		err = errors.Join(err, r.report.write(r.out))
	}
	if !printFindings(os.Stdout, r.report.Findings) {
		err = errors.Join(err, errProperty)
	}
	return err
}

func (r *run) found(f ...finding) { r.report.Findings = append(r.report.Findings, f...) }

func (r *run) course(ctx, life context.Context) error {
	all, err := processes.Running(r.loaded.programs()...)
	if err != nil {
		return err
	}
	if missing := unmeasured(r.loaded.programs(), all); len(missing) > 0 {
		fmt.Printf("scale: not measured, because they do not run on this machine: %s\n", strings.Join(missing, ", "))
	}
	if r.Restarts {
		if err := restartable(r.host, all); err != nil {
			return err
		}
	}
	if err := r.play(ctx, life); err != nil {
		return err
	}
	if err := r.makeNodes(ctx, life); err != nil {
		return err
	}
	if err := r.schedulable(ctx); err != nil {
		return err
	}
	rest, err := r.rest(ctx, life)
	if err != nil {
		return err
	}
	capacity, err := r.capacity(ctx, life)
	if err != nil {
		return err
	}
	return r.load(ctx, life, rest, capacity)
}

// atRest is the cost of a VM at rest.
type atRest struct {
	start, replace, remove step
	// events of each VM, after each step
	afterStart, afterReplace, afterRemove map[string]int
}

// rest lets a few VMs do all steps, one at a time.
func (r *run) rest(ctx, life context.Context) (out atRest, err error) {
	s, err := r.newNamedStage(ctx, life, "rest", r.Rest)
	if err != nil {
		return out, err
	}
	for _, step := range []struct {
		what   string
		want   func(*machine) bool
		act    func(context.Context, string) error
		out    *step
		events *map[string]int
	}{
		{"start", r.object().started, s.make, &out.start, &out.afterStart},
		{"kubectl delete vmi", replaced, s.deleteOne("vmi"), &out.replace, &out.afterReplace},
		{"kubectl delete " + r.object().kind, gone, s.deleteOne(r.object().kind), &out.remove, &out.afterRemove},
	} {
		if step.out == &out.replace && !r.isReplacing() {
			continue
		}
		*step.out, err = s.step(ctx, step.what, step.want, func(ctx context.Context) error {
			return s.atATime(ctx, 1, step.act)
		})
		r.record("rest", step.what, *step.out)
		if err != nil {
			return out, err
		}
		events, err := s.events(ctx)
		if err != nil {
			return out, err
		}
		*step.events = events.least()
	}
	return out, nil
}

// capacity measures how many VMs a second the machine starts with a constant number of starts under way.
func (r *run) capacity(ctx, life context.Context) (step, error) {
	s, err := r.newNamedStage(ctx, life, "capacity", r.Capacity)
	if err != nil {
		return step{}, err
	}
	out, err := s.step(ctx, "start", r.object().started, func(ctx context.Context) error {
		return s.atATime(ctx, r.InHand, s.make)
	})
	r.record("capacity", fmt.Sprintf("start, %d in hand", r.InHand), out)
	if err != nil {
		return out, err
	}
	deletion := "kubectl delete " + r.object().kind + " --all"
	removed, err := s.step(ctx, deletion, gone, s.deleteAll(r.object().kind))
	r.record("capacity", deletion, removed)
	return out, err
}

// load creates VMs at a rate above the machine's capacity, and deletes all at once, first their VMIs and then the VMs.
func (r *run) load(ctx, life context.Context, rest atRest, capacity step) error {
	if r.Resume != "" {
		return r.resume(ctx, life, rest)
	}
	s, err := r.newNamedStage(ctx, life, "load", r.Count)
	if err != nil {
		return err
	}
	kept, err := r.loaded.watch(ctx, life)
	if err != nil {
		return err
	}
	defer kept()
	rate := r.Rate
	if rate == 0 {
		rate = 2 * capacity.perSecond()
	}
	starts, err := s.step(ctx, "start", r.object().started, func(ctx context.Context) error {
		return s.atRate(ctx, rate, s.make)
	})
	r.record("load", fmt.Sprintf("start, %.1f a second", rate), starts)
	r.found(exactly(r.object().plural+" that run", r.Count, len(starts.Took)), s.failed())
	if err != nil {
		return err
	}
	if err := r.loaded.started(ctx, s, rest, capacity, starts); err != nil {
		return err
	}

	if r.isReplacing() {
		if err := r.replace(ctx, s, rest); err != nil {
			return err
		}
	}
	if r.Restarts {
		kept() // a restart of crdwatch changes it
	}
	return r.finish(ctx, life, s, rest)
}

// resume continues with the VMs of an earlier run that was kept or interrupted.
func (r *run) resume(ctx, life context.Context, rest atRest) error {
	s, err := r.followed(ctx, life, r.Resume, r.Count)
	if err != nil {
		return err
	}
	r.stages = append(r.stages, s)
	again, err := s.step(ctx, "resume", r.object().started, func(context.Context) error { return nil })
	r.found(exactly(r.object().plural+" that run", r.Count, len(again.Took)))
	if err != nil {
		return err
	}
	return r.finish(ctx, life, s, rest)
}

// finish measures idle VMs, failing moves and restarts, if requested. Then it deletes the VMs, unless they are kept.
func (r *run) finish(ctx, life context.Context, s *stage, rest atRest) error {
	if r.Idle > 0 {
		if err := s.idle(ctx); err != nil {
			return err
		}
	}
	if r.FailingMoves > 0 {
		if err := s.moves(ctx); err != nil {
			return err
		}
	}
	var restarts error // the rest is measured nevertheless
	if r.Restarts {
		restarts = r.restarts(ctx, life, s)
	}
	if r.Keep || ctx.Err() != nil {
		return restarts
	}
	deletion := "kubectl delete " + r.object().kind + " --all"
	removals, err := s.step(ctx, deletion, gone, s.deleteAll(r.object().kind))
	r.record("load", deletion, removals)
	r.found(exactly(r.object().plural+" that are gone after "+deletion, r.Count, len(removals.Took)))
	if err != nil {
		return errors.Join(restarts, err)
	}
	return errors.Join(restarts, r.loaded.done(ctx, s, comparison{requests: "requests for each deletion",
		of: "their deletion", rest: rest.remove, load: removals, events: rest.afterRemove}), s.noPods(ctx))
}

// replace deletes the instances of all VMs, which must run again.
func (r *run) replace(ctx context.Context, s *stage, rest atRest) error {
	replacements, err := s.step(ctx, "kubectl delete vmi --all", replaced, s.deleteAll("vmi"))
	r.record("load", "kubectl delete vmi --all", replacements)
	r.found(exactly("VMs that run again after kubectl delete vmi --all", r.Count, len(replacements.Took)), s.failed())
	if err != nil {
		return err
	}
	return r.loaded.done(ctx, s, comparison{requests: "requests for the deletion of a VMI, and the start of the next",
		of: "their replacement", rest: rest.replace, load: replacements, events: rest.afterReplace})
}

// isReplacing reports whether VMIs are deleted to be replaced, at rest as under load: the events of both are compared.
func (r *run) isReplacing() bool { return r.Replace && r.Resume == "" && r.object().replaced }

func (r *run) newNamedStage(ctx, life context.Context, name string, count int) (*stage, error) {
	s, err := r.newStage(ctx, life, name, count)
	if err != nil {
		return nil, fmt.Errorf("preparing the stage %s: %w", name, err)
	}
	r.stages = append(r.stages, s)
	return s, nil
}

// failed returns the finding whether a VM had a failure condition at any time.
func (s *stage) failed() finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := map[string]int{}
	for _, f := range s.failures {
		said[f]++
	}
	for _, f := range slices.Sorted(maps.Keys(said)) {
		fmt.Printf("scale:   %d × %s\n", said[f], f)
	}
	return exactly(s.object().plural+" that had a failure condition", 0, len(s.failures))
}

// noPods adds the finding whether pods of deleted VMs are left.
func (s *stage) noPods(ctx context.Context) error {
	pods, err := s.kubernetes.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	s.found(exactly("pods that are left", 0, len(pods.Items)))
	return nil
}

// schedulable waits until every simulated node is schedulable for VMs.
func (r *run) schedulable(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, time.Second, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := r.kubernetes.CoreV1().Nodes().
			List(ctx, metav1.ListOptions{LabelSelector: labelSimulated + "=true," + contract.LabelSchedulable +
				"=true"})
		return err == nil && len(list.Items) == r.Nodes, nil
	})
	if err != nil {
		return fmt.Errorf("the simulated nodes do not become schedulable: %w", err)
	}
	return nil
}

// clean deletes the namespaces, while the simulated nodes still end their pods, and then the nodes. Kept VMs keep their
// nodes: Kubernetes deletes the pods of a deleted node.
func (r *run) clean(life context.Context) {
	if r.Keep {
		return
	}
	ctx, cancel := context.WithTimeout(life, 5*time.Minute)
	defer cancel()
	for _, s := range r.stages {
		if err := r.removeNamespace(ctx, s.namespace); err != nil {
			fmt.Fprintln(os.Stderr, "scale:", err)
		}
	}
	r.removeNodes(ctx)
}

func (r *run) removeNamespace(ctx context.Context, name string) error {
	namespaces := r.kubernetes.CoreV1().Namespaces()
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsNotFound(namespaces.Delete(ctx, name, metav1.DeleteOptions{})), nil
	})
	if err != nil {
		return fmt.Errorf("namespace %s is not deleted (see its conditions): %w", name, err)
	}
	return nil
}
