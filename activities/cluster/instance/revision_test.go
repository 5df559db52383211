package instance

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"
)

// TestRevisionIsWrittenAsTheAPIServerWouldWriteIt: read as JSON and written again, its data are the same bytes.
func TestRevisionIsWrittenAsTheAPIServerWouldWriteIt(t *testing.T) {
	vm := &kubevirt.VirtualMachine{}
	vm.Name, vm.Generation = "web", 1<<60+1
	strategy, guest, grace := kubevirt.RunStrategyAlways, resource.MustParse("1Gi"), int64(1<<60+1)
	vm.Spec.RunStrategy = &strategy
	vm.Spec.Template = &kubevirt.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	vm.Spec.Template.Spec.Domain.Memory = &kubevirt.Memory{Guest: &guest}
	vm.Spec.Template.Spec.Volumes = []kubevirt.Volume{{Name: "init", VolumeSource: kubevirt.VolumeSource{
		CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{UserData: "#!/bin/sh\necho '<&>' \u00e4"},
	}}}
	r, err := Revision(vm)
	require.NoError(t, err)
	require.Contains(t, string(r.Data.Raw), "1152921504606846977", "no number loses digits")
	*vm.Spec.Template.Spec.TerminationGracePeriodSeconds = 30
	r, err = Revision(vm)
	require.NoError(t, err)
	var whole any
	require.NoError(t, json.Unmarshal(r.Data.Raw, &whole))
	again, err := json.Marshal(whole)
	require.NoError(t, err)
	require.Equal(t, string(again), string(r.Data.Raw))
}
