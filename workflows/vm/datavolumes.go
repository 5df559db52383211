package vm

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// DataVolumes is what is known of the DataVolumes that the VM's templates ask for.
type DataVolumes struct {
	// Templates has one for each template, as it was last heard of or made, and TemplatesVersion is how far crdwatch
	// had read for that.
	Templates        []contract.DataVolume `json:"dataVolumes,omitempty"`
	TemplatesVersion string                `json:"dataVolumesVersion,omitempty"`
}

// observeDataVolumes folds what crdwatch says of the DataVolumes of this VM; whoever else reads the VM says nothing of
// them. Was is what was known of the VM until then.
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
	if !entity.Same(s.Templates, o.DataVolumes) && s.Failure.Of(string(actDataVolumes)) != nil {
		s.Failure = s.Failure.RetryAfter(time.Time{}) // what was in the way may not be any more
	}
	s.DataVolumes = DataVolumes{Templates: o.DataVolumes, TemplatesVersion: o.DataVolumesVersion}
}

// unmade says that a DataVolume is to be made: there is none, or another object's is in the way.
func (s *State) unmade() bool {
	return slices.ContainsFunc(s.Templates, func(v contract.DataVolume) bool {
		return v.UID == "" && !v.Populated || v.OwnerUID != "" && v.OwnerUID != s.Object.UID
	})
}

// unpopulated is what the VM waits for before it gets an instance; nil: nothing.
func (s *State) unpopulated() *contract.DataVolume {
	i := slices.IndexFunc(s.Templates, func(v contract.DataVolume) bool { return !v.Usable() })
	if i < 0 {
		return nil
	}
	return &s.Templates[i]
}

// decideDataVolumes makes the DataVolumes, and waits for them before the VM starts, or its guest ends for that. A VM
// that is not to start has them made as well, unless it says otherwise.
func (s *State) decideDataVolumes(want runstrategy.Action, now time.Time) (decision, bool) {
	starts := want.Operation == contract.OperationStart || want.Operation == contract.OperationRestart
	if !starts && (want.Operation != contract.OperationNone || s.VM.DeferDataVolumes) {
		return decision{}, false
	}
	if s.unmade() {
		return decision{Action: actDataVolumes, Why: "its templates ask for them"}, true
	}
	if v := s.unpopulated(); v != nil && starts {
		return s.decideStatus(now).Or("its disks to be filled: " + v.Waits()), true
	}
	return decision{}, false
}

// createDataVolumes makes those that are not there.
func (e *instance) createDataVolumes(ctx workflow.Context) error {
	s := &e.state
	r, err := entity.Call[contract.CreateDataVolumesResult](ctx, contract.ActivityCreateDataVolumes,
		string(actDataVolumes), contract.CreateDataVolumesInput{VM: s.Object})
	switch {
	case err == nil:
		s.Templates = r.DataVolumes
	case entity.ErrorType(err) == contract.ErrorGone:
		s.Stale = true // it is not as it is remembered
	}
	return e.settle(ctx, string(actDataVolumes), contract.ReasonFailedCreate, err)
}

// dataVolumes are those of the templates, and those that the instance waits for.
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

// failing is a DataVolume that cannot be populated, as it seems; nil: none.
func (s *State) failing() *contract.DataVolume {
	all := s.dataVolumes()
	if i := slices.IndexFunc(all, contract.DataVolume.Failing); i >= 0 {
		return &all[i]
	}
	return nil
}

func (s *State) provisioning() bool {
	return slices.ContainsFunc(s.dataVolumes(), contract.DataVolume.Provisioning)
}
