package world

import (
	"fmt"
	"slices"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// Release replaces control worker and crdwatch by those of a release with another launcher.
func (w *World) Release() {
	w.image = "localhost/virtflow/launcher:next"
	w.tracef("user: a release whose launcher is %s", w.image)
	w.Crash()
	if err := w.delivery.replaceWatcher(); err != nil {
		panic(err)
	}
	w.requested()
}

// updated wants the guest in a launcher of the release, in the same domain.
func updated(w *World) error {
	if err := settledAfterMoves(w); err != nil {
		return err
	}
	if w.fault != nil && w.fault.Mode == Forever && w.haveAllFailed() {
		return nil // each has the reason
	}
	v := w.VMI(vm)
	if v == nil || v.Status.LauncherContainerImageVersion != w.image {
		return fmt.Errorf("the guest is not in a launcher of the release: %s", w.failures())
	}
	if _, outdated := v.Labels[contract.LabelOutdatedImage]; outdated {
		return fmt.Errorf("the guest's launcher is labelled as outdated")
	}
	if w.fault == nil && (w.Moved[key] != 1 || len(w.Migrations()) != 1) {
		return fmt.Errorf("the guest was moved %d times: %s", w.Moved[key], w.failures())
	}
	return nil
}

// updatedByEviction wants the VM in a launcher of the release, in another domain: it was evicted, once.
func updatedByEviction(w *World) error {
	if err := restarted(w); err != nil {
		return err
	}
	if v := w.VMI(vm); v == nil || v.Status.LauncherContainerImageVersion != w.image {
		return fmt.Errorf("the guest is not in a launcher of the release")
	}
	if w.Started[key] > 2 && w.fault == nil {
		return fmt.Errorf("the guest was started %d times", w.Started[key])
	}
	return nil
}

// haveAllFailed reports whether there were migrations, and all of them have failed.
func (w *World) haveAllFailed() bool {
	all := w.Migrations()
	return len(all) > 0 && !slices.ContainsFunc(all, func(m *kubevirt.VirtualMachineInstanceMigration) bool {
		return m.Status.Phase != kubevirt.MigrationFailed
	})
}
