package migration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestVerdictOfEveryPair: the test has the whole table of verdicts, written out: a change of the rules has to be one
// here, too.
func TestVerdictOfEveryPair(t *testing.T) {
	const (
		notBegun, stayed, attach, abort = VerdictNotBegun, VerdictStayed, VerdictAttach, VerdictAbort
		finish, moved, ended, lost      = VerdictFinish, VerdictMoved, VerdictEnded, VerdictLost
		again, wait, twice              = VerdictAgain, VerdictWait, VerdictRunsTwice
	)
	for source, row := range map[SourceState][]Verdict{
		//                absent    incoming  held    resumed ended     unknown
		SourceUntouched:   {notBegun, notBegun, stayed, twice, notBegun, notBegun},
		SourceRuns:        {stayed, stayed, stayed, twice, stayed, stayed},
		SourcePaused:      {stayed, stayed, stayed, twice, stayed, stayed},
		SourceMoving:      {attach, attach, attach, attach, attach, attach},
		SourceSessionLost: {abort, abort, abort, again, abort, abort},
		SourceProof:       {lost, again, finish, moved, lost, wait},
		SourceOff:         {ended, ended, ended, moved, ended, wait},
		SourceGone:        {ended, ended, ended, moved, ended, wait},
		SourceUnknown:     {stayed, wait, wait, moved, stayed, wait},
	} {
		for i, target := range Targets() {
			r := DecideVerdict(source, target)
			require.Equal(t, row[i], r.Verdict, "source %s, target %s", source, target)
			require.NotEmpty(t, r.Why)
		}
	}
}

// TestEveryRowDecides: every row decides something that no row above it does.
func TestEveryRowDecides(t *testing.T) {
	used := map[string]bool{}
	for _, source := range Sources() {
		for _, target := range Targets() {
			used[DecideVerdict(source, target).Why] = true
		}
	}
	for _, r := range VerdictRules() {
		require.True(t, used[r.Why], "%s", r.Why)
	}
}

// TestTargetResumesOnlyWithProof: that keeps a guest from running twice.
func TestTargetResumesOnlyWithProof(t *testing.T) {
	for _, source := range Sources() {
		for _, target := range Targets() {
			if DecideVerdict(source, target).Verdict == VerdictFinish {
				require.Equal(t, SourceProof, source)
			}
		}
	}
}

func ranOut(reason string, ran bool) *contract.PodObservation {
	code := int32(0)
	p := contract.PodObservation{UID: "p", Phase: "Succeeded", ExitCode: &code, TerminationMessage: `{"reason":"` +
		reason + `","ran":true}`}
	if !ran {
		p.TerminationMessage = `{"reason":"` + reason + `"}`
	}
	return &p
}

func domain(state contract.DomainState, reason string) contract.DomainObservation {
	return contract.DomainObservation{State: state, Reason: reason}
}

func TestSourceState(t *testing.T) {
	type truth = contract.MigrationTruth
	withProof := &contract.MigrationOutcome{Result: contract.ResultSourceOff,
		Proof: &contract.MigrationProof{By: contract.ProofProcess}}
	stayed := &contract.MigrationOutcome{Result: contract.ResultStayed}
	running := &contract.PodObservation{UID: "s", Phase: "Running"}
	gone := ranOut(contract.ReasonShutdown, true)
	gone.Gone = true
	code := int32(137)
	killed := &contract.PodObservation{UID: "s", Phase: "Failed", ExitCode: &code}
	phaseUnconfirmed := ranOut(contract.ReasonShutdown, true)
	phaseUnconfirmed.PhaseUnconfirmed, phaseUnconfirmed.ExitCode = true, nil
	for name, c := range map[string]struct {
		truth *truth
		pod   *contract.PodObservation
		want  SourceState
	}{
		"runs": {&truth{Reached: true, Known: true, Outcome: stayed, Domain: domain(contract.DomainRunning, "")}, running,
			SourceRuns},
		"never asked":      {&truth{Reached: true, Domain: domain(contract.DomainRunning, "")}, running, SourceUntouched},
		"paused by a user": {&truth{Reached: true, Known: true, Domain: domain(contract.DomainPaused, "")}, running, SourceRuns},
		"paused by libvirt": {&truth{Reached: true, Known: true,
			Domain: domain(contract.DomainPaused, contract.PausedMigration)}, running, SourcePaused},
		"moved": {&truth{Reached: true, Known: true, UnderWay: true, Session: true,
			Domain: domain(contract.DomainRunning, "")}, running, SourceMoving},
		"about to be moved": {&truth{Reached: true, Session: true, Domain: domain(contract.DomainRunning, "")}, running,
			SourceMoving},
		"session alone": {&truth{Session: true}, running, SourceMoving},
		"cut": {&truth{Reached: true, Known: true, UnderWay: true,
			Domain: domain(contract.DomainPaused, contract.PausedMigration)}, running, SourceSessionLost},
		"proof": {&truth{Reached: true, Known: true, Outcome: withProof, Domain: domain(contract.DomainPaused,
			contract.PausedMigration)}, running, SourceProof},
		"proof while it is tidied up": {&truth{Reached: true, Known: true, UnderWay: true, Session: true,
			Outcome: withProof}, running, SourceProof},
		"libvirt's proof": {&truth{Reached: true, Domain: domain(contract.DomainShutoff, contract.ReasonMigrated)}, running,
			SourceProof},
		"last words":               {nil, ranOut(contract.ReasonMigrated, true), SourceProof},
		"powered off":              {&truth{Reached: true, Domain: domain(contract.DomainShutoff, contract.ReasonShutdown)}, running, SourceOff},
		"crashed":                  {&truth{Reached: true, UnderWay: true, Domain: domain(contract.DomainCrashed, "")}, running, SourceOff},
		"ended":                    {nil, ranOut(contract.ReasonShutdown, true), SourceOff},
		"ended and gone":           {nil, gone, SourceOff},
		"gone":                     {nil, &contract.PodObservation{UID: "s", Gone: true, Phase: "Running"}, SourceGone},
		"killed":                   {nil, killed, SourceGone},
		"called failed by others":  {nil, phaseUnconfirmed, SourceUnknown},
		"launcher says no domain":  {&truth{Reached: true}, running, SourceUnknown},
		"node away":                {nil, running, SourceUnknown},
		"launcher does not answer": {&truth{Why: "no"}, running, SourceUnknown},
		"no pod known":             {nil, nil, SourceUnknown},
	} {
		require.Equal(t, c.want, sourceState(c.truth, c.pod), name)
		require.Equal(t, c.want == SourceProof, proof(c.truth, c.pod) != nil, name)
	}
}

func TestTargetState(t *testing.T) {
	type truth = contract.MigrationTruth
	running := &contract.PodObservation{UID: "t", Phase: "Running"}
	for name, c := range map[string]struct {
		truth *truth
		pod   *contract.PodObservation
		want  TargetState
	}{
		"idle":              {&truth{Reached: true}, running, TargetAbsent},
		"incoming":          {&truth{Reached: true, Known: true, UnderWay: true}, running, TargetIncoming},
		"held":              {&truth{Reached: true, Known: true, Held: true}, running, TargetHeld},
		"granted":           {&truth{Reached: true, Known: true, Granted: true}, running, TargetResumed},
		"resumed":           {&truth{Reached: true, Known: true, Granted: true, Resumed: true}, running, TargetResumed},
		"withdrawn":         {&truth{Reached: true, Known: true}, running, TargetEnded},
		"ended":             {nil, ranOut(contract.ReasonNotReceived, false), TargetEnded},
		"ran, and ended":    {nil, ranOut(contract.ReasonShutdown, true), TargetResumed},
		"gone":              {nil, &contract.PodObservation{UID: "t", Gone: true}, TargetEnded},
		"never had a pod":   {nil, nil, TargetEnded},
		"node away":         {nil, running, TargetUnknown},
		"no answer":         {&truth{}, running, TargetUnknown},
		"deleted, unplaced": {nil, &contract.PodObservation{UID: "t", DeletionTimestamp: &noon}, TargetEnded},
	} {
		require.Equal(t, c.want, targetState(c.truth, c.pod), name)
	}
}
