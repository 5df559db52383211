package world

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
)

// Part names a part of the system that can be away.
type Part string

// Parts.
const (
	PartTemporal   Part = "temporal"
	PartAPIServer  Part = "api-server"
	PartNodeWorker Part = "node-workers"
	PartControl    Part = "control-worker"
)

// absence has the parts that are away.
type absence map[Part]bool

// isStuck reports whether no workflow can make a step, because no worker runs it, or because what it calls does not
// answer. Workflow timers continue meanwhile, as timers of Temporal that fire late.
func (a absence) isStuck() bool { return a[PartTemporal] || a[PartAPIServer] || a[PartControl] }

// errAway returns the error with which an attempt ends.
func errAway() error { return temporal.NewApplicationError("connection refused", "Kubernetes") }

// Away takes parts of the system away and brings them back after d. It calls meanwhile in between.
func (w *World) Away(d time.Duration, parts []Part, meanwhile func()) {
	w.tracef("away: %v", parts)
	hosts := slices.Sorted(maps.Keys(w.hosts))
	since := w.Now()
	for _, p := range parts {
		w.missing[p] = true
		switch p {
		case PartTemporal:
			w.delivery.lost = since
		case PartAPIServer:
			w.delivery.down, w.delivery.silent = true, true
		case PartNodeWorker:
			for _, name := range hosts {
				w.hosts[name].workerDies(cutLag)
				w.hosts[name].epoch++
			}
		case PartControl:
			w.control++
		}
	}
	w.Sleep(2 * time.Minute)
	meanwhile()
	w.Sleep(d - w.Now().Sub(since))
	w.tracef("back: %v", parts)
	clear(w.missing)
	for _, p := range parts {
		switch p {
		case PartTemporal:
			w.delivery.lost = time.Time{}
			for _, name := range hosts {
				w.hosts[name].resendSince(since)
			}
			w.delivery.offline.Restored(since)
			w.delivery.flush()
		case PartAPIServer:
			for _, name := range hosts {
				w.hosts[name].resync()
			}
			w.scheduleAll()
			w.delivery.relist()
		case PartNodeWorker:
			for _, name := range hosts {
				w.setWorkerReady(w.hosts[name])
				w.workerStarts(w.hosts[name])
			}
		case PartControl:
			w.Crash()
		}
	}
}

// outages returns stories of ten minutes without each part of the system, and without all of them, while a guest works,
// another powers off by itself, and a third's pod is deleted.
func outages() []Scenario {
	const works, off, deleted = vm, "db", "mail"
	var all []Scenario
	for _, parts := range [][]Part{{PartTemporal}, {PartAPIServer}, {PartNodeWorker}, {PartControl},
		{PartTemporal, PartAPIServer, PartNodeWorker, PartControl}} {
		names := make([]string, 0, len(parts))
		for _, p := range parts {
			names = append(names, string(p))
		}
		all = append(all, Scenario{Name: "ten-minutes-without-" + strings.Join(names, "-"), Story: func(w *World) {
			for _, name := range []string{works, off, deleted} {
				w.Create(Machine(name, "Always"))
			}
			w.Until(w.patience(), func() bool { return allRun(w) == nil })
			ends := w.Launcher(off)
			if ends == nil || w.Launcher(deleted) == nil {
				w.breakf("the guests do not run%s", w.state())
				return
			}
			api := slices.Contains(parts, PartAPIServer)
			if api { // later it could not be deleted
				w.DeletePod(deleted, nil)
			}
			w.Away(10*time.Minute, parts, func() {
				if !api {
					w.DeletePod(deleted, nil)
				}
				ends.powersOff()
				w.Sleep(5 * time.Minute)
				if n := w.Started[Namespace+"/"+off]; n != 1 {
					w.breakf("the guest of VM %s was started %d times while no process could start it", off, n)
				}
			})
		}, Want: func(w *World) error {
			for name, want := range map[string]int{works: 1, off: 2, deleted: 2} {
				if n := w.Started[Namespace+"/"+name]; n > want {
					w.breakf("the guest of VM %s was started %d times, wanted are %d", name, n, want)
				} else if n < want {
					return errNoLauncher
				}
			}
			return allRun(w)
		}})
	}
	return all
}

func allRun(w *World) error {
	for _, name := range []string{vm, "db", "mail"} {
		if err := wantRunning(name)(w); err != nil {
			return err
		}
	}
	return nil
}
