package migration

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

// rig plays everything around a migration's entity: its object, its instance, the migration queue, the pods and both
// nodes. Names have one letter.
type rig struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment
	mu  sync.Mutex

	version int
	vmim    contract.MigrationObservation
	gone    bool
	status  contract.MigrationStatus
	stats   *contract.MigrationStats
	events  []string
	patches int

	vmi      *contract.VMIObservation
	state    *contract.MigrationState // of the instance
	claims   []contract.MigrationClaim
	sequence int64
	// answer returns the instance's answer to a request; nil: none.
	answer func(contract.MigrationClaim) *contract.ClaimObservation
	// noVMI is set when the instance has no workflow.
	noVMI bool

	requests []contract.AdmissionRequest
	admit    func(contract.AdmissionRequest) *contract.AdmissionObservation

	pods map[string]*contract.PodObservation
	// boots is how long the target's pod takes to run; 0: it never does.
	boots time.Duration
	// ends is how long a pod takes to end.
	ends time.Duration

	calls   []string
	created []contract.CreateTargetPodInput
	// copies is how long the guest's move takes, and outcome how it ends.
	copies  time.Duration
	outcome contract.MigrationOutcome
	// copying is the task token of an open MigrateDomain.
	copying []byte
	moves   []contract.MigrateDomainInput
	aborted bool
	// fail is asked before each activity.
	fail func(activity string) error
	// source and target are the nodes' reports; nil: the node does not answer.
	source, target *contract.MigrationTruth
	finished       []contract.FinishTargetInput
	refuse         string // of WithdrawTarget
	quota, refused string // of CreateTargetPod
	configuration  contract.MigrationConfiguration
	failures       int
	lastFailure    time.Time
	adjusted       int
}

const (
	away = "node away"
)

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, version: 100, boots: 2 * time.Second, ends: 3 * time.Second, copies: 3 * time.Second,
		pods:          map[string]*contract.PodObservation{},
		configuration: contract.MigrationConfiguration{CompletionPerGiB: 150, Progress: 150}}
	r.renew()
	r.vmi = &contract.VMIObservation{UID: "i", Phase: "Running", NodeName: "n1"}
	r.pods["s"] = &contract.PodObservation{UID: "s", Name: "pod-s", VMIUID: "i", NodeName: "n1", Phase: "Running",
		ComputeRunning: true, ResourceVersion: "50", Finalizers: []string{contract.FinalizerPod}}
	r.vmim = contract.MigrationObservation{UID: "m", VMIName: "v", CreatedAt: r.env.Now(),
		Finalizers: []string{contract.FinalizerMigration}}
	r.answer = r.agree
	r.admit = func(contract.AdmissionRequest) *contract.AdmissionObservation {
		return &contract.AdmissionObservation{Migration: "m", Sequence: int64(len(r.requests)), Admitted: true}
	}
	r.outcome = contract.MigrationOutcome{Result: contract.ResultMoved, Mode: "PreCopy",
		Stats:  contract.MigrationStats{TotalMs: 3000, DowntimeMs: 140, Bytes: 1 << 20},
		Target: &contract.DomainObservation{PodUID: "t", State: contract.DomainRunning}}
	return r
}

// renew starts another run.
func (r *rig) renew() {
	r.env = environment.New(func(s *testsuite.WorkflowTestSuite) {
		s.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	})
	r.register()
	r.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(r.signalled)
}

// agree answers as an instance that agrees to everything.
func (r *rig) agree(c contract.MigrationClaim) *contract.ClaimObservation {
	o := &contract.ClaimObservation{State: contract.ClaimGiven, Stage: c.Stage}
	if c.Stage == contract.StageMoved || c.Stage == contract.StageStayed {
		o.State = contract.ClaimReleased
	}
	return o
}

func (r *rig) signalled(_, id, _, signal string, arg any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch c := arg.(type) {
	case contract.MigrationClaim:
		require.Equal(r.t, "vmi/d/v", id)
		if r.noVMI {
			return &temporal.UnknownExternalWorkflowExecutionError{}
		}
		r.claims = append(r.claims, c)
		if c.Stage == contract.StageMoved {
			r.vmi.NodeName = c.State.TargetNode
		}
		if c.State != nil {
			r.state = c.State
		}
		if o := r.answer(c); o != nil {
			r.sendAnswer(o)
		}
	case contract.AdmissionRequest:
		require.Equal(r.t, contract.AdmissionID, id)
		r.requests = append(r.requests, c)
		if o := r.admit(c); o != nil && !c.Done {
			wait := 50 * time.Millisecond
			if o.Admitted {
				wait = max(wait, c.NotBefore.Sub(r.env.Now()))
			}
			r.after(wait, func() { r.env.SignalWorkflow(contract.SignalObserveAdmission, *o) })
		}
	default:
		require.Failf(r.t, "what is that", "%s %T", signal, arg)
	}
	return nil
}

// sendAnswer sends an answer of the instance, with the fields that each one has.
func (r *rig) sendAnswer(o *contract.ClaimObservation) {
	r.sequence++
	o.Migration, o.VMIUID, o.Sequence, o.Phase = "m", "i", r.sequence, r.vmi.Phase
	o.SourcePod, o.SourceNode, o.GuestMemory = contract.Object{Name: "pod-s", UID: "s"}, "n1", 1<<30
	r.after(50*time.Millisecond, func() { r.env.SignalWorkflow(contract.SignalObserveClaim, *o) })
}

func (r *rig) after(d time.Duration, f func()) { r.env.RegisterDelayedCallback(f, d) }

// at changes the surroundings at a time after the start.
func (r *rig) at(d time.Duration, f func()) {
	r.after(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		f()
	})
}

func (r *rig) next() string {
	r.version++
	return strconv.Itoa(r.version)
}

// observe sends the object as it is now.
func (r *rig) observe() {
	r.vmim.ResourceVersion = r.next()
	o := r.vmim
	if r.gone {
		o = contract.MigrationObservation{UID: "m", Gone: true}
	}
	r.after(20*time.Millisecond, func() { r.env.SignalWorkflow(contract.SignalObserveMigration, o) })
}

// cancel deletes the object.
func (r *rig) cancel() {
	if r.vmim.DeletionTimestamp == nil {
		now := r.env.Now()
		r.vmim.DeletionTimestamp = &now
		r.gone = len(r.vmim.Finalizers) == 0
		r.observe()
	}
}

// pod changes a pod, and sends its observation if it is one that crdwatch sends: made for a migration.
func (r *rig) pod(uid string, change func(*contract.PodObservation)) {
	p := r.pods[uid]
	if p == nil {
		return
	}
	change(p)
	p.ResourceVersion = r.next()
	o := *p
	if p.DeletionTimestamp != nil && len(p.Finalizers) == 0 {
		delete(r.pods, uid)
		o = contract.PodObservation{UID: uid, Gone: true}
	}
	if p.Migration != "" {
		r.after(20*time.Millisecond, func() { r.env.SignalWorkflow(contract.SignalObservePod, o) })
	}
}

// end ends a pod as its kubelet does.
func (r *rig) end(uid, reason string, ran bool) {
	r.pod(uid, func(p *contract.PodObservation) {
		code := int32(0)
		p.Phase, p.ExitCode, p.ComputeRunning = "Succeeded", &code, false
		p.TerminationMessage = fmt.Sprintf(`{"reason":%q,"ran":%t}`, reason, ran)
	})
}

func (r *rig) makeTarget(running bool) {
	r.pods["t"] = &contract.PodObservation{UID: "t", Name: "pod-t", VMIUID: "i", Migration: "m", Phase: "Pending",
		ResourceVersion: r.next(), Finalizers: []string{contract.FinalizerPod}}
	if running {
		r.pods["t"].NodeName, r.pods["t"].Phase, r.pods["t"].ComputeRunning = "n2", "Running", true
	}
}

// called records a call, and returns its failure.
func (r *rig) called(name string) error {
	r.calls = append(r.calls, name)
	if r.fail == nil {
		return nil
	}
	return r.fail(name)
}

func (r *rig) count(name string) int {
	n := 0
	for _, c := range r.calls {
		if c == name {
			n++
		}
	}
	return n
}

// registerActivity registers an activity.
func registerActivity[In, Out any](r *rig, name string, f func(context.Context, In) (Out, error)) {
	r.env.RegisterActivityWithOptions(func(ctx context.Context, in In) (Out, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.called(name); err != nil {
			var none Out
			return none, err
		}
		return f(ctx, in)
	}, activity.RegisterOptions{Name: name})
}

func (r *rig) register() {
	registerActivity(r, contract.ActivityReadMigration, r.readMigration)
	registerActivity(r, contract.ActivityPatchMigration, r.patchMigration)
	registerActivity(r, contract.ActivityCreateTargetPod, r.createTargetPod)
	registerActivity(r, contract.ActivityDeleteMigrationPod, r.deletePod)
	registerActivity(r, contract.ActivityRemovePodFinalizer, r.removePodFinalizer)
	registerActivity(r, contract.ActivityMigrateDomain, r.migrate)
	registerActivity(r, contract.ActivityAbortMigration, r.abort)
	registerActivity(r, contract.ActivityInspectMigration, r.inspect)
	registerActivity(r, contract.ActivityDeleteMigration, func(
		context.Context, contract.DeleteMigrationInput,
	) (contract.DeleteMigrationResult, error) {
		if r.vmi != nil {
			return contract.DeleteMigrationResult{Refused: "it is there", VMI: r.vmi}, nil
		}
		r.cancel()
		return contract.DeleteMigrationResult{}, nil
	})
	registerActivity(r, contract.ActivityConfigureMigration,
		func(context.Context, contract.ConfigureMigrationInput) (contract.ConfigureMigrationResult, error) {
			return contract.ConfigureMigrationResult{Policy: "fast", Configuration: r.configuration,
				Network: "virtflow/moves"}, nil
		})
	registerActivity(r, contract.ActivityOfferMigration,
		func(_ context.Context, in contract.OfferMigrationInput) (contract.MigrationOffer, error) {
			require.Equal(r.t, "s", in.Pod.UID)
			return contract.MigrationOffer{Fingerprint: "f", Memory: 1 << 30,
				Disks: []contract.MigrationDisk{{Name: "d", Size: 5e9, Copied: true}, {Name: "e", Size: 7e9}}}, nil
		})
	registerActivity(r, contract.ActivityPrepareTarget,
		func(_ context.Context, in contract.PrepareTargetInput) (contract.PreparedTarget, error) {
			require.Equal(r.t, "t", in.Pod.UID)
			require.NotEmpty(r.t, in.Offer.Fingerprint)
			require.Equal(r.t, "virtflow/moves", in.Network)
			return contract.PreparedTarget{Address: "10.0.0.2:8188", Fingerprint: "g", Network: "Pod"}, nil
		})
	registerActivity(r, contract.ActivityAdjustMigration, func(
		_ context.Context, in contract.AdjustMigrationInput,
	) (any, error) {
		require.True(r.t, in.Pause)
		r.adjusted++
		return nil, nil
	})
	registerActivity(r, contract.ActivityFinishTarget,
		func(_ context.Context, in contract.FinishTargetInput) (contract.FinishTargetResult, error) {
			require.NotEmpty(r.t, in.Proof.By, "a target resumes only with proof")
			r.finished = append(r.finished, in)
			return contract.FinishTargetResult{Domain: contract.DomainObservation{PodUID: "t",
				State: contract.DomainRunning}}, nil
		})
	registerActivity(r, contract.ActivityWithdrawTarget,
		func(_ context.Context, in contract.WithdrawTargetInput) (contract.WithdrawTargetResult, error) {
			require.Equal(r.t, "t", in.Pod.UID)
			if r.refuse == "" {
				r.after(100*time.Millisecond, func() {
					r.mu.Lock()
					defer r.mu.Unlock()
					r.end("t", contract.ReasonNotReceived, false)
				})
			}
			return contract.WithdrawTargetResult{Refused: r.refuse}, nil
		})
}

func (r *rig) readMigration(
	_ context.Context, in contract.ReadMigrationInput,
) (contract.ReadMigrationResult, error) {
	out := contract.ReadMigrationResult{VMI: r.vmi, State: r.state, Network: "virtflow/moves", Failures: r.failures,
		LastFailure: r.lastFailure}
	if !r.gone && in.Migration.UID == r.vmim.UID {
		o := r.vmim
		out.Migration = &o
	}
	var pods []contract.PodObservation
	for _, uid := range []string{"s", "t"} {
		if p := r.pods[uid]; p != nil {
			pods = append(pods, *p)
		}
	}
	out.FindPodResult = contract.FoundPods(pods...)
	return out, nil
}

func (r *rig) patchMigration(
	_ context.Context, in contract.PatchMigrationInput,
) (contract.PatchMigrationResult, error) {
	switch {
	case r.gone:
		return contract.PatchMigrationResult{Gone: true}, nil
	case in.ResourceVersion != r.vmim.ResourceVersion:
		o := r.vmim
		return contract.PatchMigrationResult{Conflict: true, Current: &o}, nil
	}
	r.patches++
	if in.Status != nil {
		r.status = *in.Status
		r.vmim.Phase, r.vmim.PhaseTimes, r.vmim.Conditions = in.Status.Phase, in.Status.PhaseTimes, in.Status.Conditions
	}
	if in.Finalizers != nil {
		r.vmim.Finalizers = *in.Finalizers
		r.gone = r.vmim.DeletionTimestamp != nil && len(r.vmim.Finalizers) == 0
	}
	if in.Stats != nil {
		r.stats = in.Stats
	}
	for _, e := range in.Events {
		r.events = append(r.events, e.Type+" "+e.Reason+" "+e.Message)
	}
	r.observe()
	o := r.vmim
	return contract.PatchMigrationResult{Written: true, Current: &o}, nil
}

func (r *rig) createTargetPod(
	_ context.Context, in contract.CreateTargetPodInput,
) (contract.CreateTargetPodResult, error) {
	require.Equal(r.t, contract.Object{Namespace: "d", Name: "pod-s", UID: "s"}, in.Source)
	if r.vmim.Final() {
		return contract.CreateTargetPodResult{Refused: "the migration has ended"}, nil
	}
	r.created = append(r.created, in)
	if r.quota != "" || r.refused != "" {
		return contract.CreateTargetPodResult{Quota: r.quota, Refused: r.refused}, nil
	}
	if r.pods["t"] == nil {
		r.makeTarget(false)
		if r.boots > 0 {
			r.after(r.boots/2, func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.pod("t", func(p *contract.PodObservation) { p.NodeName = "n2" })
			})
			r.after(r.boots, func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.pod("t", func(p *contract.PodObservation) {
					if p.DeletionTimestamp == nil {
						p.Phase, p.ComputeRunning = "Running", true
					}
				})
			})
		}
	}
	return contract.CreateTargetPodResult{Pod: *r.pods["t"]}, nil
}

func (r *rig) deletePod(
	_ context.Context, in contract.DeleteMigrationPodInput,
) (contract.DeleteMigrationPodResult, error) {
	p := r.pods[in.Pod.UID]
	if p == nil {
		return contract.DeleteMigrationPodResult{Absent: true}, nil
	}
	if r.vmi != nil && p.NodeName != "" && r.vmi.NodeName == p.NodeName {
		return contract.DeleteMigrationPodResult{Refused: "the guest is there"}, nil
	}
	released := p.Ended() && in.ResourceVersion == p.ResourceVersion
	r.pod(p.UID, func(p *contract.PodObservation) {
		now := r.env.Now()
		p.DeletionTimestamp = &now
		if released {
			p.Finalizers = nil
		}
	})
	if released {
		return contract.DeleteMigrationPodResult{Released: true}, nil
	}
	r.after(r.ends, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if p := r.pods[in.Pod.UID]; p != nil && !p.Ended() {
			r.end(in.Pod.UID, contract.ReasonMigrated, true)
		}
	})
	return contract.DeleteMigrationPodResult{}, nil
}

func (r *rig) removePodFinalizer(
	_ context.Context, in contract.RemovePodFinalizerInput,
) (contract.RemovePodFinalizerResult, error) {
	p := r.pods[in.Pod.UID]
	if p == nil {
		return contract.RemovePodFinalizerResult{Absent: true}, nil
	}
	if !p.Ended() {
		o := *p
		return contract.RemovePodFinalizerResult{Refused: "the pod has not ended by its kubelet's word", Pod: &o}, nil
	}
	r.pod(p.UID, func(p *contract.PodObservation) { p.Finalizers = nil })
	return contract.RemovePodFinalizerResult{}, nil
}

func (r *rig) migrate(ctx context.Context, in contract.MigrateDomainInput) (contract.MigrationOutcome, error) {
	r.moves = append(r.moves, in)
	require.Nil(r.t, r.copying, "it is moved already")
	r.copying = activity.GetInfo(ctx).TaskToken
	token := string(r.copying)
	r.after(r.copies, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if token == string(r.copying) {
			r.complete(r.outcome, nil)
		}
	})
	return contract.MigrationOutcome{}, activity.ErrResultPending
}

// complete ends the move.
func (r *rig) complete(o contract.MigrationOutcome, err error) {
	token := r.copying
	r.copying = nil
	if o.Result == contract.ResultMoved || o.Result == contract.ResultSourceOff {
		r.end("s", contract.ReasonMigrated, true)
	}
	_ = r.env.CompleteActivity(token, o, err)
}

func (r *rig) abort(_ context.Context, in contract.AbortMigrationInput) (contract.AbortMigrationResult, error) {
	require.Equal(r.t, "s", in.Pod.UID)
	r.aborted = true
	if r.copying != nil {
		r.after(200*time.Millisecond, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.copying != nil {
				r.complete(contract.MigrationOutcome{Result: contract.ResultStayed, Aborted: true, Reason: "aborted"},
					nil)
			}
		})
	}
	return contract.AbortMigrationResult{Found: r.copying != nil}, nil
}

func (r *rig) inspect(_ context.Context, in contract.InspectMigrationInput) (contract.MigrationTruth, error) {
	truth := r.source
	if in.Pod.UID == "t" {
		truth = r.target
	}
	if truth == nil {
		return contract.MigrationTruth{}, temporal.NewNonRetryableApplicationError("away", away, nil)
	}
	return *truth, nil
}

// run plays it from its first observation to its end.
func (r *rig) run() {
	r.t.Helper()
	r.env.RegisterDelayedCallback(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.vmim.ResourceVersion = r.next()
		r.env.SignalWorkflow(contract.SignalObserveMigration, r.vmim)
	}, 0)
	r.again(nil)
}

func (r *rig) again(carried []byte) {
	r.t.Helper()
	r.env.ExecuteWorkflow(Workflow, contract.EntityInput{Namespace: "d", Name: "mig", Carried: carried})
	require.True(r.t, r.env.IsWorkflowCompleted(), "it never ended; calls: %v", r.calls)
	require.NoError(r.t, r.env.GetWorkflowError(), "calls: %v", r.calls)
}

// checkMoved checks that the guest has moved, and that nothing of its source is left.
func (r *rig) checkMoved() {
	r.t.Helper()
	require.Equal(r.t, contract.MigrationSucceeded, r.status.Phase, "calls: %v", r.calls)
	require.Equal(r.t, "n2", r.vmi.NodeName)
	require.Nil(r.t, r.pods["s"])
	require.NotNil(r.t, r.pods["t"])
	require.Nil(r.t, r.pods["t"].DeletionTimestamp)
	r.checkOver()
	require.Equal(r.t, contract.StageMoved, r.claims[len(r.claims)-1].Stage)
}

// checkStayed checks that the guest has stayed, why, and that nothing of its target is left.
func (r *rig) checkStayed(why string) {
	r.t.Helper()
	require.Equal(r.t, contract.MigrationFailed, r.status.Phase, "calls: %v", r.calls)
	require.Contains(r.t, r.events, "Warning FailedMigration "+why)
	require.Nil(r.t, r.pods["t"])
	if p := r.pods["s"]; p != nil {
		require.Nil(r.t, p.DeletionTimestamp)
	}
	r.checkOver()
	if len(r.claims) > 0 {
		require.Equal(r.t, contract.StageStayed, r.claims[len(r.claims)-1].Stage)
	}
}

func (r *rig) checkOver() {
	r.t.Helper()
	require.Empty(r.t, r.vmim.Finalizers)
	if len(r.requests) > 0 {
		require.True(r.t, r.requests[len(r.requests)-1].Done, "its admission is returned")
	}
	require.Nil(r.t, r.copying)
}

// stages are those that were claimed, each once.
func (r *rig) stages() []contract.MigrationStage {
	var out []contract.MigrationStage
	for _, c := range r.claims {
		out = append(out, c.Stage)
	}
	return slices.Compact(out)
}

// phases are those that were entered.
func (r *rig) phases() []string {
	var out []string
	for _, p := range r.status.PhaseTimes {
		out = append(out, p.Phase)
	}
	return out
}
