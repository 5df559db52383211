package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/processes"
)

// restartables are the programs that are killed, one after the other: those between a user's request and a node, except
// etcd and the scheduler.
var restartables = []string{"crdwatch", "control-worker", "api-server", "virtflow-temporal", "kube-apiserver"}

// restartable fails if --restarts would kill a process of another cluster, or none: processes are found by their
// programs' names.
func restartable(host string, all []processes.Process) error {
	if missing := unmeasured(restartables, all); len(missing) > 0 {
		return fmt.Errorf("--restarts: these do not run on this machine: %s", strings.Join(missing, ", "))
	}
	for _, program := range restartables {
		if n := len(processes.Of(program, all)); n > 1 {
			return fmt.Errorf("--restarts: %d processes of %s run on this machine, and which is the cluster's is not known",
				n, program)
		}
	}
	u, err := url.Parse(host)
	if err != nil {
		return fmt.Errorf("--restarts: the API server's address: %w", err)
	}
	here, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("--restarts: this machine's addresses: %w", err)
	}
	for _, a := range here {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && ip.Equal(net.ParseIP(u.Hostname())) {
			return nil
		}
	}
	return fmt.Errorf("--restarts: the API server's address, %s, is not one of this machine's, whose processes would be "+
		"killed: name one by number in KUBECONFIG", u.Host)
}

// restart is the cost of a program's restart.
type restart struct {
	Program  string                    `json:"program"`
	Answered time.Duration             `json:"answered"` // from the kill until a VM could be created
	Started  time.Duration             `json:"started"`  // until that VM ran
	Calls    calls                     `json:"calls"`    // about all other VMs
	Used     map[string]processes.Used `json:"used"`     // until there were no more requests to the API server
}

// restarts kills each program in turn while all VMs of a stage run, and creates one more VM at once: a user waits until
// it runs. The other VMs must not be affected.
func (r *run) restarts(ctx, life context.Context, s *stage) error {
	before, err := s.starts(ctx)
	if err != nil {
		return err
	}
	probes, err := r.newNamedStage(ctx, life, "restart", len(restartables))
	if err != nil {
		return err
	}
	for i, program := range restartables {
		if err := s.restart(ctx, probes, probes.names()[i], program); err != nil {
			return fmt.Errorf("the restart of %s: %w", program, err)
		}
	}
	after, err := s.starts(ctx)
	if !r.VMIs {
		r.found(exactly("starts of VMs, as workflows, after the restarts", before, after))
	}
	return err
}

// restart kills a program, and waits until another process has taken over and is idle.
func (s *stage) restart(ctx context.Context, probes *stage, probe, program string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, restartPatience, fmt.Errorf("not within %s", restartPatience))
	defer cancel()
	instances, err := s.instances(ctx)
	if err != nil {
		return err
	}
	all, err := processes.Running(s.loaded.programs()...)
	if err != nil {
		return err
	}
	old := processes.Of(program, all)
	began := time.Now()
	for _, p := range old {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
			return fmt.Errorf("killing process %d: %w", p.PID, err)
		}
	}
	out := restart{Program: program}
	if err := probes.makeOnceServed(ctx, probe); err != nil {
		return err
	}
	out.Answered = time.Since(began)
	if err := probes.untilRuns(ctx, probe); err != nil {
		return err
	}
	out.Started = time.Since(began)
	if out.Calls, err = s.settled(ctx, began); err != nil {
		return err
	}
	now, err := processes.Running(s.loaded.programs()...)
	if err != nil {
		return err
	}
	out.Used = processes.Since(all, now)
	left, err := s.instances(ctx)
	if err != nil {
		return err
	}
	s.restarted(out)
	s.found(holds("another "+program+" runs", processes.Replaced(old, processes.Of(program, now))),
		exactly(s.object().plural+" that the restart of "+program+" has stopped or replaced", 0,
			disturbed(instances, left)),
		atMost("requests about each of them", mostRestartCalls, float64(out.Calls.Total)/float64(s.count)))
	return nil
}

// restartPatience is the limit until another process has taken over from a killed one and is idle.
const restartPatience = 10 * time.Minute

// mostRestartCalls is how many requests about each VM a restart may cost: some are under way at the kill.
const mostRestartCalls = 0.1

func (s *stage) restarted(out restart) {
	s.report.Restarts = append(s.report.Restarts, out)
	fmt.Printf("scale: restart of %s with %d %s: another one is made after %s and runs after %s; %d requests and %d "+
		"events about the others\n", out.Program, s.count, s.object().plural, round(out.Answered), round(out.Started),
		out.Calls.Total, out.Calls.Events)
	printUsage(os.Stdout, out.Used, 1)
}

// makeOnceServed creates a VM (or VMI) as soon as the API server and the webhooks answer.
func (s *stage) makeOnceServed(ctx context.Context, name string) error {
	return s.poll(ctx, func(ctx context.Context) (bool, error) {
		err := s.make(ctx, name)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err): // the answer to the earlier request was lost
			return true, nil
		case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
			return false, err
		}
		return false, nil
	})
}

// untilRuns polls, because clients of the API server's watches may have to connect again first.
func (s *stage) untilRuns(ctx context.Context, name string) error {
	return s.poll(ctx, func(ctx context.Context) (bool, error) {
		var m machine
		if vm, err := s.kubevirt.VMs(s.namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			m.observeVM(vm)
		}
		if vmi, err := s.kubevirt.VMIs(s.namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			m.observeVMI(vmi)
		}
		return s.object().started(&m), nil
	})
}

func (s *stage) poll(ctx context.Context, done wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, done)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// instances returns the UIDs of the running VMIs, from the API server.
func (s *stage) instances(ctx context.Context) (map[string]bool, error) {
	list, err := s.kubevirt.VMIs(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing VMIs: %w", err)
	}
	out := map[string]bool{}
	for _, vmi := range list.Items {
		if vmi.Status.Phase == kubevirt.Running && vmi.DeletionTimestamp == nil {
			out[string(vmi.UID)] = true
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no VMI runs")
	}
	return out, nil
}

// disturbed counts the instances that no longer run.
func disturbed(before, now map[string]bool) (n int) {
	for uid := range before {
		if !now[uid] {
			n++
		}
	}
	return n
}
