package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

var noon = time.Unix(100_000, 0)

// seen returns the state of an instance with a pod after a refresh.
func seen(vmi contract.VMIObservation, pod contract.PodObservation) *State {
	s := &State{}
	vmi.UID, vmi.ResourceVersion, vmi.Finalizers = "i", "1", []string{contract.FinalizerVMI}
	s.observeVMI(vmi)
	pod.UID, pod.Name, pod.VMIUID, pod.ResourceVersion, pod.Finalizers = "p", "launcher", "i", "2",
		[]string{contract.FinalizerPod}
	s.observePod(pod)
	s.refresh(noon)
	return s
}

func seconds(n int64) *int64 { return &n }

func TestGracePeriodOfDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		vmi, pod, deletion, sent *int64
		want                     *int64
		hurry                    bool
	}{
		"unchanged":            {vmi: seconds(60), pod: seconds(90)},
		"unset, unchanged":     {pod: seconds(60)},
		"0 from the beginning": {vmi: seconds(0), pod: seconds(30)},
		"cut":                  {vmi: seconds(10), pod: seconds(90), want: seconds(40)},
		"longer":               {vmi: seconds(100), pod: seconds(90), want: seconds(130)},
		"0 by now":             {vmi: seconds(0), pod: seconds(90), want: seconds(1)},
		"0 by now, during the deletion": {vmi: seconds(0), pod: seconds(90), deletion: seconds(90), want: seconds(1),
			hurry: true},
		"0 by now, sent": {vmi: seconds(0), pod: seconds(90), deletion: seconds(90), sent: seconds(1),
			want: seconds(1)},
		"deleted by a person with less": {vmi: seconds(10), pod: seconds(90), deletion: seconds(5),
			want: seconds(40)},
		"longer during the deletion": {vmi: seconds(100), pod: seconds(90), deletion: seconds(90),
			want: seconds(130)},
		"a pod without grace period": {vmi: seconds(10)},
	} {
		t.Run(name, func(t *testing.T) {
			pod := contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true, GraceSeconds: c.pod,
				DeletionGraceSeconds: c.deletion}
			if c.deletion != nil {
				pod.DeletionTimestamp = &noon
			}
			s := seen(contract.VMIObservation{Phase: "Running", GracePeriodSeconds: c.vmi, DeletionTimestamp: &noon},
				pod)
			s.PodGrace, s.PodDeleted = c.sent, c.deletion != nil
			require.Equal(t, c.want, s.graceOverride(s.VMI))
			require.Equal(t, c.hurry, s.needsShorterGrace(s.VMI))
			d := s.decide(noon)
			require.Equal(t, c.deletion == nil || c.hurry, d.Action == actDeletePod, "%v", d)
		})
	}
}

// A shorter grace period is sent to the launcher once for each reduction during the deletion: the kubelet keeps the
// period with which it began.
func TestSendsShorterGracePeriodToLauncher(t *testing.T) {
	pod := contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true, GraceSeconds: seconds(330),
		DeletionGraceSeconds: seconds(1), DeletionTimestamp: &noon}
	s := seen(contract.VMIObservation{Phase: "Running", GracePeriodSeconds: seconds(0), DeletionTimestamp: &noon}, pod)
	s.PodDeleted, s.PodGrace = true, seconds(1)
	require.NotEqual(t, actEndLauncher, s.decide(noon).Action, "it was deleted so from the beginning")
	s.GraceShortened = true
	require.Equal(t, actEndLauncher, s.decide(noon).Action)
	s.EndGrace = seconds(60)
	require.Equal(t, actEndLauncher, s.decide(noon).Action, "it was sent a longer one")
	s.EndGrace = seconds(0)
	require.NotEqual(t, actEndLauncher, s.decide(noon).Action)
	s.EndGrace, s.Pod.Phase = nil, "Failed"
	require.NotEqual(t, actEndLauncher, s.decide(noon).Action)
}

// TestEveryWaitIsShown: a wait without bound ends by itself, or is shown on the object.
func TestEveryWaitIsShown(t *testing.T) {
	placed := contract.PodObservation{Phase: "Pending", NodeName: "n"}
	with := func(change func(*contract.PodObservation)) contract.PodObservation { p := placed; change(&p); return p }
	running := with(func(p *contract.PodObservation) { p.Phase, p.ComputeRunning = "Running", true })
	for name, c := range map[string]struct {
		vmi    contract.VMIObservation
		pod    contract.PodObservation
		after  time.Duration
		kind   string
		reason string
	}{
		"a pod that says nothing": {contract.VMIObservation{}, placed, slowBoot, "Synchronized",
			"LauncherPodNotRunning"},
		"no node": {contract.VMIObservation{},
			contract.PodObservation{Phase: "Pending", Unschedulable: &contract.Condition{Reason: "Unschedulable"}},
			0, "PodScheduled", "Unschedulable"},
		"no image": {contract.VMIObservation{}, with(func(p *contract.PodObservation) {
			p.WaitingReason = "ImagePullBackOff"
		}), 0, "Synchronized", "ImagePullBackOff"},
		"no such Secret": {contract.VMIObservation{}, with(func(p *contract.PodObservation) {
			p.WaitingReason = "CreateContainerConfigError"
		}), 0, "Synchronized",
			"CreateContainerConfigError"},
		"a pod that does not end, deleted by a person": {contract.VMIObservation{Phase: "Running"},
			with(func(p *contract.PodObservation) {
				*p = running
				p.DeletionTimestamp = &noon
			}), slowEnd, "Synchronized", "FailedDelete"},
		"a pod that does not end, with its VMI": {contract.VMIObservation{Phase: "Running", DeletionTimestamp: &noon},
			with(func(p *contract.PodObservation) {
				*p = running
				p.DeletionTimestamp = &noon
			}), slowEnd, "Synchronized", "FailedDelete"},
		"a pod that is not ready": {contract.VMIObservation{Phase: "Running"}, running, 0, "Ready",
			"PodConditionMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := seen(c.vmi, c.pod)
			s.Domain = &contract.DomainObservation{PodUID: "p", State: contract.DomainRunning}
			now := noon
			for range 20 { // as the loop does, with every step succeeding
				s.refresh(now)
				d := s.decide(now)
				got, _ := conditions.Get(s.Conditions, c.kind)
				if got.Reason == c.reason && got.Status == "False" {
					require.False(t, now.Before(noon.Add(c.after)))
					return
				}
				switch {
				case d.Action == entity.ActWrite:
					st := s.status()
					s.Written = &st
				case d.Action == actMarkPod:
					s.PodMarked = true
				case d.Action == actReadWarning:
					s.Warning = &Warning{Pod: "p", At: now, Reads: 3}
				case d.Action != entity.ActNone:
					t.Fatalf("unexpected: %v", d)
				default:
					require.False(t, d.WakeAt.IsZero(), "it sleeps for ever: %v, conditions %v", d, s.Conditions)
					now = d.WakeAt
				}
			}
			t.Fatalf("condition %s never got reason %s: %v", c.kind, c.reason, s.Conditions)
		})
	}
}

// TestFindsPodOfUnseenInstance: the VMI was never observed, and the end of its pod may have been missed.
func TestFindsPodOfUnseenInstance(t *testing.T) {
	s := &State{}
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "1", Phase: "Running", NodeName: "n"})
	s.refresh(noon)
	require.Equal(t, entity.ActRead, s.decide(noon).Action)
	require.Equal(t, "i", s.owner().UID)
	s.applyRead(contract.ReadVMIResult{FindPodResult: contract.FoundPods(*s.Pod)})
	s.FindPodAt = noon.Add(findPodAfter)
	s.refresh(noon)
	d := s.decide(noon)
	require.Equal(t, entity.ActNone, d.Action)
	require.Equal(t, noon.Add(findPodAfter), d.WakeAt)
	require.Equal(t, entity.ActRead, s.decide(d.WakeAt).Action)
	s.applyRead(contract.ReadVMIResult{})
	s.refresh(noon)
	require.Equal(t, entity.ActFinish, s.decide(noon).Action)
}

// TestUnknownPhase: an unknown phase in the status does not stop the entity.
func TestUnknownPhase(t *testing.T) {
	for name, c := range map[string]struct {
		o    contract.VMIObservation
		pods []contract.PodObservation
		want Phase
	}{
		"never ran, no pod": {contract.VMIObservation{Phase: "Unknown"}, nil, PhasePending},
		"ran, pod is gone":  {contract.VMIObservation{Phase: "Unknown", EverRan: true}, nil, PhaseFailed},
		"ran, pod runs": {contract.VMIObservation{Phase: "Nonsense", EverRan: true},
			[]contract.PodObservation{{UID: "p", Phase: "Running", NodeName: "n", ComputeRunning: true}}, PhaseRunning},
		"waits for a source": {contract.VMIObservation{Phase: "WaitingForSync"}, nil, PhasePending},
	} {
		t.Run(name, func(t *testing.T) {
			s := &State{}
			c.o.UID, c.o.ResourceVersion = "i", "1"
			s.observeVMI(c.o)
			s.refresh(noon)
			if s.decide(noon).Action == actFindPod {
				s.applyFoundPods(c.pods)
				s.refresh(noon)
			}
			require.Equal(t, c.want, s.Phase)
			require.NotEmpty(t, s.decide(noon).Action, "something is to be done")
		})
	}
}

// TestReadinessGateFollowsPause: a paused guest gets no traffic.
func TestReadinessGateFollowsPause(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
	s.Domain = &contract.DomainObservation{PodUID: "p", State: contract.DomainPaused}
	s.refresh(noon)
	require.Equal(t, actMarkPod, s.decide(noon).Action)
	require.True(t, s.isGuestPaused(false))
	s.PodMarked, s.PodPaused = true, true
	require.NotEqual(t, actMarkPod, s.decide(noon).Action)
	s.Domain = &contract.DomainObservation{PodUID: "p", State: contract.DomainRunning}
	require.Equal(t, actMarkPod, s.decide(noon).Action)
	require.False(t, s.isGuestPaused(false))
}

// TestShowsForeignPodFinalizer: the pod has ended, and the finalizer keeps it and its VMI.
func TestShowsForeignPodFinalizer(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Succeeded", DeletionTimestamp: &noon},
		contract.PodObservation{Phase: "Succeeded", NodeName: "n", DeletionTimestamp: &noon})
	s.Pod.Finalizers, s.FinalizerRemoved, s.PodDeleted = []string{"example.com/keep"}, true, true
	now := noon
	for range 10 {
		s.refresh(now)
		d := s.decide(now)
		if d.Action == entity.ActWrite {
			st := s.status()
			s.Written = &st
			if c, ok := conditions.Get(st.Conditions, "Synchronized"); ok {
				require.Equal(t, "FailedDelete", c.Reason)
				require.Contains(t, c.Message, "example.com/keep")
				require.False(t, now.Before(noon.Add(slowEnd)))
				return
			}
			continue
		}
		require.Equal(t, entity.ActNone, d.Action)
		now = d.WakeAt
	}
	t.Fatal("it never shows")
}

// A control that is refused while the domain is unknown is shown to the user who sent the control.
func TestShowsRefusalWhileDomainIsUnknown(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true, Unpaused: "True"})
	s.Starting = true
	require.True(t, s.domainUnknown())
	s.Refused = &entity.Refusal{Control: contract.ControlFenceConfirmed, Why: "node n is ready", At: noon,
		Until: noon.Add(time.Hour)}
	s.refresh(noon)
	_, shown := conditions.Get(s.Conditions, contract.ConditionControlRefused)
	require.True(t, shown)
	require.Equal(t, entity.ActWrite, s.decide(noon.Add(settleTime)).Action)
}

// TestRepeatsFailedWrite: its outcome is unknown, so the status is written even if it is as it was last written for
// certain.
func TestRepeatsFailedWrite(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Scheduling"}, contract.PodObservation{Phase: "Pending"})
	st := s.status()
	s.Written = &st
	require.Empty(t, s.decideStatus(noon).Action)
	s.OutcomeUnknown = true
	require.Equal(t, entity.ActWrite, s.decideStatus(noon).Action)
}
