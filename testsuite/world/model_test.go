package world_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
	"github.com/virtflow/virtflow/testsuite/world"
)

// step is one action of a user or a fault.
type step struct {
	name string
	do   func(w *world.World)
}

const machine = "web"

// steps returns all steps.
func steps() []step {
	force := int64(0)
	strategy := func(s kubevirt.VirtualMachineRunStrategy) step {
		return step{"strategy " + string(s), func(w *world.World) { w.SetStrategy(machine, s) }}
	}
	operation := func(o contract.Operation) step {
		return step{string(o), func(w *world.World) { w.RequestNew(machine, o, 40*time.Second) }}
	}
	return []step{
		{"create always", func(w *world.World) { w.Create(world.Machine(machine, kubevirt.RunStrategyAlways)) }},
		{"create halted", func(w *world.World) { w.Create(world.Machine(machine, kubevirt.RunStrategyHalted)) }},
		strategy(kubevirt.RunStrategyAlways), strategy(kubevirt.RunStrategyHalted),
		strategy(kubevirt.RunStrategyRerunOnFailure), strategy(kubevirt.RunStrategyManual),
		{"request start", func(w *world.World) { w.Request(machine, kubevirt.StartRequest) }},
		{"request stop", func(w *world.World) { w.Request(machine, kubevirt.StopRequest) }},
		{"request restart", func(w *world.World) { w.Restart(machine) }},
		{"delete", func(w *world.World) { w.Delete(machine) }},
		{"delete the instance", func(w *world.World) { w.DeleteInstance(machine) }},
		{"delete the pod", func(w *world.World) { w.DeletePod(machine, nil) }},
		{"delete the pod by force", func(w *world.World) { w.DeletePod(machine, &force) }},
		{"guest powers off", func(w *world.World) { w.GuestPowersOff(machine) }},
		{"guest panics", func(w *world.World) { w.GuestPanics(machine) }},
		operation(contract.OperationPause), operation(contract.OperationUnpause), operation(contract.OperationFreeze),
		operation(contract.OperationUnfreeze), operation(contract.OperationSoftReboot),
		operation(contract.OperationReset),
		{"migrate", func(w *world.World) { w.Migrate(machine) }},
		{"migrate at the same time", func(w *world.World) { w.MigratePastAdmission(machine) }},
		{"cancel migrations", (*world.World).CancelMigrations},
		{"the same request again", func(w *world.World) { w.RepeatRequest(machine) }},
		{"control worker crashes", (*world.World).Crash},
		{"crdwatch is gone", (*world.World).StopCRDWatch},
		{"crdwatch leads", (*world.World).StartCRDWatch},
		{"node worker restarts", func(w *world.World) { w.RestartWorker("node1") }},
		{"the other node worker restarts", func(w *world.World) { w.RestartWorker("node2") }},
		{"node1 is cut off", func(w *world.World) { w.Cut("node1") }},
		{"node1 loses power", func(w *world.World) { w.PowerOff("node1") }},
		{"node1 is fenced", func(w *world.World) { w.PowerOff("node1"); w.OutOfService("node1") }},
		{"node1 is back", func(w *world.World) { w.InService("node1"); w.Return("node1") }},
		{"create a set of two", func(w *world.World) { w.CreateSet("farm", 2) }},
		{"scale to three", func(w *world.World) { w.Scale("farm", 3) }},
		{"scale to none", func(w *world.World) { w.Scale("farm", 0) }},
		{"delete the set", func(w *world.World) { w.DeleteSet("farm") }},
	}
}

// pauseTimes returns the times between steps: from within one write to beyond the taint manager's delay.
func pauseTimes() []time.Duration {
	return []time.Duration{
		time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond, 500 * time.Millisecond,
		time.Second,
		3 * time.Second, 20 * time.Second, time.Minute, 7 * time.Minute,
	}
}

// TestModel runs random sequences of requests and failures. Rapid finds the shortest one that breaks an invariant, and
// prints how to run it again.
func TestModel(t *testing.T) {
	// One sequence takes some 100 ms. Rapid runs -rapid.checks of them, by default 100.
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		require.NoError(t, f.Value.Set("250"))
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	first := seed(t)
	if f := flag.Lookup("rapid.seed"); f != nil && f.Value.String() == f.DefValue {
		require.NoError(t, f.Value.Set(fmt.Sprint(first)))
	}
	sequences, broken := 0, 0
	t.Cleanup(func() {
		suite.PrintFigures(t, "model check: sequences %d, invariants broken: %d, seed %s", sequences, broken,
			flag.Lookup("rapid.seed").Value)
	})
	all, pauses := steps(), pauseTimes()
	rapid.Check(t, func(t *rapid.T) {
		sequences++
		n := rapid.IntRange(2, 10).Draw(t, "steps")
		o := world.Options{
			AlwaysContinueAsNew: rapid.Bool().Draw(t, "continue as new"),
			Guests:              map[string]world.Guest{world.Namespace + "/" + machine: {AgentConnects: time.Second}},
		}
		if rapid.IntRange(0, 3).Draw(t, "chaos") == 0 {
			o.Chaos = world.Chaos{Seed: 1, Duplicate: 0.2, Delay: 0.3, LateBy: 3 * time.Second}
		}
		var story []func(*world.World)
		for i := range n {
			s := all[rapid.IntRange(0, len(all)-1).Draw(t, fmt.Sprintf("step %d", i))]
			p := rapid.SampledFrom(pauses).Draw(t, fmt.Sprintf("then wait %d", i))
			t.Logf("%s, then %s", s.name, p)
			story = append(story, s.do, func(w *world.World) { w.Sleep(p) })
		}
		w, err := world.New(o)
		if err != nil {
			t.Fatal(err)
		}
		world.RandomSteps(story).Play(w)
		if len(w.Broken) > 0 {
			broken++
			if os.Getenv("VIRTFLOW_TRACE") != "" {
				t.Log("\n" + w.Trace())
			}
			t.Fatalf("%v", w.Broken)
		}
	})
}
