package vm

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// DataVolumes has what is known of the DataVolumes that the VM's templates ask for.
type DataVolumes struct {
	// Templates has the DataVolume of each template, as it was last observed or created. TemplatesVersion is crdwatch's
	// resourceVersion at that time.
	Templates        []contract.DataVolume `json:"dataVolumes,omitempty"`
	TemplatesVersion string                `json:"dataVolumesVersion,omitempty"`
}

// observeDataVolumes folds in crdwatch's observation of the DataVolumes of this VM. An observation by an activity has
// none. Was is the VM as known before.
func (s *State) observeDataVolumes(was *contract.VMObservation, o contract.VMObservation) {
	if o.Gone || o.UID != s.Object.UID || s.VM == nil {
		return
	}
	if o.DataVolumes == nil {
		if o.Epoch != 0 && s.VM.ResourceVersion == o.ResourceVersion { // crdwatch's, and the newest: no templates
			s.DataVolumes = DataVolumes{}
		}
		return
	}
	if entity.OlderPart(s.TemplatesVersion, o.DataVolumesVersion, was, o) {
		return
	}
	if !entity.Same(s.Templates, o.DataVolumes) && s.Failure.OfStep(string(actDataVolumes)) != nil {
		s.Failure = s.Failure.RetryAfter(time.Time{}) // the cause of the failure may be gone
	}
	s.DataVolumes = DataVolumes{Templates: o.DataVolumes, TemplatesVersion: o.DataVolumesVersion}
}

// hasMissingDataVolume reports whether a DataVolume has to be created: it does not exist, or another owner has one of
// its name.
func (s *State) hasMissingDataVolume() bool {
	return slices.ContainsFunc(s.Templates, func(v contract.DataVolume) bool {
		return v.UID == "" && !v.Populated || v.OwnerUID != "" && v.OwnerUID != s.Object.UID
	})
}

// awaitedDataVolume returns the DataVolume that the VM waits for before it gets an instance; nil: none.
func (s *State) awaitedDataVolume() *contract.DataVolume {
	i := slices.IndexFunc(s.Templates, func(v contract.DataVolume) bool { return !v.Usable() })
	if i < 0 {
		return nil
	}
	return &s.Templates[i]
}

// decideDataVolumes creates the DataVolumes, and waits for them before a start or restart. A VM that does not start has
// them created as well, unless its spec defers that.
func (s *State) decideDataVolumes(want runstrategy.Action, now time.Time) (decision, bool) {
	starts := want.Operation == contract.OperationStart || want.Operation == contract.OperationRestart
	if !starts && (want.Operation != contract.OperationNone || s.VM.DeferDataVolumes) {
		return decision{}, false
	}
	if s.hasMissingDataVolume() {
		return decision{Action: actDataVolumes, Why: "its templates require them"}, true
	}
	if v := s.awaitedDataVolume(); v != nil && starts {
		return s.decideStatus(now).Or(waits.For(waits.DataVolumes, v.Waits())), true
	}
	return decision{}, false
}

// createDataVolumes creates the missing DataVolumes.
func (e *instance) createDataVolumes(ctx workflow.Context) error {
	s := &e.state
	r, err := entity.Call[contract.CreateDataVolumesResult](ctx, contract.ActivityCreateDataVolumes,
		string(actDataVolumes), contract.CreateDataVolumesInput{VM: s.Object})
	switch {
	case err == nil:
		s.Templates = r.DataVolumes
	case entity.ErrorType(err) == contract.ErrorGone:
		s.ReadAgain() // the VM has changed or is gone
	}
	return e.recordResult(ctx, string(actDataVolumes), contract.ReasonFailedCreate, err)
}

// dataVolumes returns the DataVolumes of the templates, and those that the instance waits for.
func (s *State) dataVolumes() []contract.DataVolume {
	all := slices.Clone(s.Templates)
	if s.situation() == runstrategy.Absent {
		return all
	}
	for _, c := range s.VMI.Claims {
		if c.DataVolume != nil {
			all = append(all, *c.DataVolume)
		}
	}
	return all
}

// failedDataVolume returns a DataVolume whose population fails; nil: none.
func (s *State) failedDataVolume() *contract.DataVolume {
	all := s.dataVolumes()
	if i := slices.IndexFunc(all, contract.DataVolume.Failing); i >= 0 {
		return &all[i]
	}
	return nil
}

func (s *State) isProvisioning() bool {
	return slices.ContainsFunc(s.dataVolumes(), contract.DataVolume.Provisioning)
}
