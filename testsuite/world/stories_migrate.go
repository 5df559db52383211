package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// Nodes of the stories: the guest begins on the first.
const (
	home = "node1"
	away = "node2"
)

// migrationStories returns the stories of migrations for the fault matrix.
func migrationStories() []Scenario {
	return []Scenario{
		{Name: "migrate", Story: func(w *World) { up(w); w.Migrate(vm) }, Want: moved(1)},
		{Name: "migrate-paused", Story: func(w *World) {
			paused(w)
			w.Until(w.patience(), func() bool { return staysPaused(w) == nil || !domainPaused(w) })
			w.Migrate(vm)
			w.waitForMigrations()
			w.Until(w.patience(), func() bool { return staysPaused(w) == nil || !domainPaused(w) })
			if w.fault == nil && (w.Moved[key] != 1 || staysPaused(w) != nil) {
				w.breakf("a guest that was paused did not stay so: %v", staysPaused(w))
			}
			w.unpause(vm)
		}, Want: moved(1)},
		{Name: "migrate-deleted", Story: func(w *World) { migrating(w, "copying"); w.Delete(vm) }, Want: wantGone(vm)},
		{Name: "migrate-guest-powers-off", Story: func(w *World) {
			migrating(w, "copying")
			w.GuestPowersOff(vm)
		}, Want: restarted},
		{Name: "migrate-finish-lost", Story: func(w *World) {
			migrating(w, "departed")
			w.RestartWorker(away)
		}, Want: runsOnEitherNode},
		{Name: "migrate-source-worker-dies", Story: func(w *World) {
			migrating(w, "copying")
			w.RestartWorker(home)
		}, Want: runsOnEitherNode},
		{Name: "migrate-target-dies", Story: func(w *World) {
			migrating(w, "copying")
			w.killTarget()
		}, Want: runsOnEitherNode},
		{Name: "migrate-cancelled", Story: func(w *World) {
			migrating(w, "copying")
			w.CancelMigrations()
		}, Want: cancelled},
		{Name: "workload-update", Story: func(w *World) { up(w); w.Release() }, Want: updated},
	}
}

// Migrations returns the stories of migrations that run without faults, or almost without.
func Migrations() []Scenario {
	all := []Scenario{
		{Name: "migrate-and-back", Story: func(w *World) {
			up(w)
			for range 3 {
				w.Migrate(vm)
				w.waitForMigrations()
				w.Until(time.Minute, func() bool { return w.checkMigrationsEnded() == nil })
			}
		}, Want: moved(3)},
		{Name: "migrate-and-restart", Story: func(w *World) {
			up(w)
			w.Migrate(vm)
			w.waitForMigrations()
			w.Restart(vm)
		}, Want: restarted},
		{Name: "migrate-and-power-off", Story: func(w *World) {
			up(w)
			w.Migrate(vm)
			w.waitForMigrations()
			w.GuestPowersOff(vm)
		}, Want: restarted},
		{Name: "migrate-and-delete", Story: func(w *World) {
			up(w)
			w.Migrate(vm)
			w.waitForMigrations()
			w.Until(time.Minute, func() bool { return w.checkMigrationsEnded() == nil })
			w.Delete(vm)
		}, Want: func(w *World) error {
			if n := len(w.Migrations()); n > 0 {
				return fmt.Errorf("%d migrations are left of a VM that is gone", n)
			}
			return wantGone(vm)(w)
		}},
		{Name: "migrate-and-delete-the-pod", Story: func(w *World) {
			up(w)
			w.Migrate(vm)
			w.waitForMigrations()
			w.DeletePod(vm, nil)
		}, Want: restarted},
		{Name: "migrate-second-asked", Story: func(w *World) {
			migrating(w, "copying")
			w.Migrate(vm) // which admission refuses
			w.MigratePastAdmission(vm)
		}, Want: func(w *World) error {
			if err := settledAfterMoves(w); err != nil {
				return err
			}
			said := map[kubevirt.VirtualMachineInstanceMigrationPhase]int{}
			for _, m := range w.Migrations() {
				said[m.Status.Phase]++
			}
			if said[kubevirt.MigrationSucceeded] != 1 || said[kubevirt.MigrationFailed] != 1 || w.Moved[key] != 1 {
				return fmt.Errorf("want one success and one failure: %v, moved %d times", said, w.Moved[key])
			}
			return nil
		}},
		{Name: "migrate-no-place", Story: func(w *World) {
			up(w)
			w.cordon(true)
			w.Migrate(vm)
			w.waitForMigrations()
			w.cordon(false)
		}, Want: unmoved},
		{Name: "migrate-place-comes", Story: func(w *World) {
			up(w)
			w.cordon(true)
			w.Migrate(vm)
			w.Sleep(time.Minute)
			w.cordon(false)
		}, Want: moved(1)},
		{Name: "migrate-unsuitable", Story: func(w *World) {
			up(w)
			w.hosts[away].unsuitable = "containerDisk root has other content on this node: name it by digest"
			w.Migrate(vm)
		}, Want: unmoved},
		{Name: "migrate-unfit", Story: func(w *World) {
			up(w)
			w.hosts[away].unfit = "the file system of disk root does not support direct I/O"
			w.Migrate(vm)
		}, Want: unmoved},
		{Name: "migrate-unmovable", Options: Options{Guests: map[string]Guest{key: {
			Unmovable: "the launcher was started by an older release"}}}, Story: func(w *World) {
			up(w)
			w.Migrate(vm)
		}, Want: unmoved},
		{Name: "migrate-endless", Options: Options{Guests: map[string]Guest{key: {Copies: 100 * time.Hour}}},
			Story: func(w *World) { up(w); w.Migrate(vm) }, Want: unmoved},
		{Name: "migrate-quota", Story: func(w *World) {
			up(w)
			w.quota(true)
			w.Migrate(vm)
			w.Sleep(2 * time.Minute)
			if w.Moved[key] > 0 {
				w.breakf("a guest was moved to a pod that the quota refuses")
			}
			w.quota(false)
		}, Want: moved(1)},
		{Name: "migrate-pod-deleted-by-hand", Story: func(w *World) {
			migrating(w, "copying")
			for _, m := range w.Migrations() {
				w.deleteTarget(string(m.UID))
			}
		}, Want: runsOnEitherNode},
		{Name: "migrate-source-pod-deleted", Story: func(w *World) {
			migrating(w, "copying")
			if l := w.Launcher(vm); l != nil {
				w.deleteByUID(l.podUID)
			}
		}, Want: runsInAnyDomain},
		{Name: "migrate-control-worker-dies", Story: func(w *World) {
			for i, at := range []string{"made", "prepared", "copying", "departed"} {
				if i == 0 {
					migrating(w, at)
				}
				w.reach(at)
				w.Crash()
			}
		}, Want: runsOnEitherNode},
		{Name: "migrate-held-and-released", Story: func(w *World) {
			up(w)
			name := w.Migrate(vm)
			id := contract.MigrationID(Namespace, name)
			w.Until(10*time.Second, func() bool { return !w.workflows.isClosed(id) })
			w.Control(id, contract.ControlHold, contract.ControlRequest{Reason: "not now"})
			w.Sleep(10 * time.Minute)
			if w.Moved[key] > 0 {
				w.breakf("a guest was moved whose migration is held")
			}
			w.Control(id, contract.ControlRelease, contract.ControlRequest{})
		}, Want: moved(1)},
		{Name: "migrate-control-cancel", Story: func(w *World) {
			migrating(w, "copying")
			w.Control(contract.MigrationID(Namespace, "move-1"), contract.ControlCancel, contract.ControlRequest{})
		}, Want: unmoved},
	}
	for _, p := range points() {
		all = append(all, at(p.name)...)
	}
	return all
}

// at returns the stories of what may happen at a moment of a migration.
func at(point string) []Scenario {
	story := func(what string, do func(*World), want func(*World) error) Scenario {
		return Scenario{Name: "migrate-" + what + "-when-" + point, Story: func(w *World) {
			migrating(w, point)
			do(w)
		}, Want: want}
	}
	lost := func(node string, d time.Duration) func(*World) {
		return func(w *World) { w.Cut(node); w.Sleep(d); w.Return(node) }
	}
	fenced := func(node string) func(*World) {
		return func(w *World) {
			w.PowerOff(node)
			w.Sleep(8 * time.Minute)
			w.OutOfService(node)
			w.Sleep(10 * time.Minute)
			w.InService(node)
			w.Return(node)
		}
	}
	return []Scenario{
		story("cancelled", (*World).CancelMigrations, cancelled),
		story("vmi-deleted", func(w *World) { w.DeleteInstance(vm) }, runsInAnyDomain),
		story("stopped", func(w *World) { w.SetStrategy(vm, kubevirt.RunStrategyHalted) }, wantStopped(vm)),
		story("guest-off", func(w *World) { w.GuestPowersOff(vm) }, runsInAnyDomain),
		story("guest-panics", func(w *World) { w.GuestPanics(vm) }, runsInAnyDomain),
		story("target-killed", (*World).killTarget, runsInAnyDomain),
		story("source-worker-killed", func(w *World) { w.RestartWorker(home) }, runsOnEitherNode),
		story("target-worker-killed", func(w *World) { w.RestartWorker(away) }, runsOnEitherNode),
		story("source-cut-off", lost(home, time.Minute), runsOnEitherNode),
		story("target-cut-off", lost(away, time.Minute), runsOnEitherNode),
		story("source-cut-off-for-long", lost(home, 15*time.Minute), runsInAnyDomain),
		story("target-cut-off-for-long", lost(away, 15*time.Minute), runsInAnyDomain),
		story("source-fenced", fenced(home), runsInAnyDomain),
		story("target-fenced", fenced(away), runsInAnyDomain),
		story("temporal-lost", (*World).LoseHistory, runsOnEitherNode),
		story("terminated", func(w *World) {
			w.Terminate(contract.MigrationID(Namespace, "move-1"))
		}, runsOnEitherNode),
		story("forgotten", func(w *World) {
			w.Terminate(contract.MigrationID(Namespace, "move-1"))
			w.removeMigrations()
		}, settledAfterMoves),
		story("all-terminated", func(w *World) {
			for _, id := range w.workflows.names() {
				w.Terminate(id)
			}
		}, runsOnEitherNode),
	}
}

// forceComplete asks for the end of the migration, and waits a while for it.
func (w *World) forceComplete() {
	if w.Moved[key] > 0 {
		return
	}
	w.Control(contract.MigrationID(Namespace, "move-1"), contract.ControlForceComplete, contract.ControlRequest{})
	w.Sleep(20 * time.Second)
}

// runsOnEitherNode wants the guest to run in the same domain on one of the nodes, and the migrations to match.
func runsOnEitherNode(w *World) error {
	if err := settledAfterMoves(w); err != nil {
		return err
	}
	done := 0
	for _, m := range w.Migrations() {
		if m.Status.Phase == kubevirt.MigrationSucceeded {
			done++
		}
	}
	if done != w.Moved[key] && !w.wasEtcdPutBack() {
		return fmt.Errorf("the guest was moved %d times, and the migrations are: %s", w.Moved[key], w.failures())
	}
	return nil
}

// cancelled wants the migration to be gone, and the guest to run in the same domain.
func cancelled(w *World) error {
	if n := len(w.Migrations()); n > 0 {
		return fmt.Errorf("%d migrations are left: %s", n, w.failures())
	}
	return settledAfterMoves(w)
}

// runsInAnyDomain wants the VM to run, perhaps in another domain.
func runsInAnyDomain(w *World) error {
	if w.VM(vm) == nil {
		return wantGone(vm)(w)
	}
	return wantDesired(vm)(w)
}

// killTarget kills the launcher that receives a guest, or has received it.
func (w *World) killTarget() {
	for _, name := range []string{home, away} {
		h := w.hosts[name]
		for _, uid := range h.podUIDs() {
			if l := h.pods[uid].launcher; l != nil && !l.dead && l.receives != "" {
				w.tracef("launcher of %s on %s: killed", l.key(), name)
				l.kill()
				h.exited(l, 137, "")
			}
		}
	}
}

// deleteTarget deletes the pod of a migration's target.
func (w *World) deleteTarget(migration string) {
	for _, p := range kube.List[corev1.Pod](w.Kube, Namespace) {
		if p.Labels[contract.LabelMigration] == migration {
			w.deleteByUID(string(p.UID))
		}
	}
}

func (w *World) deleteByUID(uid string) {
	for _, p := range kube.List[corev1.Pod](w.Kube, Namespace) {
		if string(p.UID) == uid {
			w.tracef("user: delete pod %s", p.Name)
			w.userError(kube.Remove[corev1.Pod](w.Kube, Namespace, p.Name, nil))
		}
	}
}
