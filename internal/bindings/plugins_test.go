package bindings

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"
)

func plugins() Plugins {
	memory := func(q string) *kubevirt.ResourceRequirementsWithoutClaims {
		return &kubevirt.ResourceRequirementsWithoutClaims{
			Requests: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse(q), corev1.ResourceCPU: resource.MustParse("9")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("9Gi")}}
	}
	return From(&kubevirt.KubeVirtConfiguration{NetworkConfiguration: &kubevirt.NetworkConfiguration{
		Binding: map[string]kubevirt.InterfaceBindingPlugin{
			"tap": {DomainAttachmentType: kubevirt.Tap, NetworkAttachmentDefinition: "infra/taps",
				ComputeResourceOverhead: memory("32Mi")},
			"l2": {DomainAttachmentType: kubevirt.ManagedTap, Migration: &kubevirt.InterfaceBindingMigration{},
				ComputeResourceOverhead: memory("10Mi")},
			"negative": {DomainAttachmentType: kubevirt.Tap, ComputeResourceOverhead: memory("-1Gi")},
			"sidecar":  {SidecarImage: "x", DownwardAPI: kubevirt.DeviceInfo},
			"nothing":  {},
			"refresh": {DomainAttachmentType: kubevirt.Tap,
				Migration: &kubevirt.InterfaceBindingMigration{Method: kubevirt.LinkRefresh}},
		}}})
}

func TestAttachment(t *testing.T) {
	for name, c := range map[string]struct {
		want  kubevirt.DomainAttachmentType
		fails string
	}{
		"tap":     {want: kubevirt.Tap},
		"l2":      {want: kubevirt.ManagedTap},
		"sidecar": {fails: "configuration.network.binding[sidecar].sidecarImage: "},
		"nothing": {fails: "configuration.network.binding[nothing].domainAttachmentType: "},
		"refresh": {fails: "configuration.network.binding[refresh].migration.method: link-refresh "},
		"unknown": {fails: "couldn't find configuration for network binding: unknown"},
	} {
		got, err := plugins().Attachment(name)
		require.Equal(t, c.want, got, name)
		if c.fails == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.fails, name)
	}
	_, err := From(&kubevirt.KubeVirtConfiguration{}).Attachment("tap")
	require.ErrorContains(t, err, "couldn't find")
}

func TestMemoryOfEachPluginOnce(t *testing.T) {
	of := func(names ...string) (out []kubevirt.Interface) {
		for _, name := range names {
			f := kubevirt.Interface{}
			if name != "" {
				f.Binding = &kubevirt.PluginBinding{Name: name}
			}
			out = append(out, f)
		}
		return out
	}
	for _, c := range []struct {
		interfaces []kubevirt.Interface
		want       int64
	}{
		{nil, 0}, {of(""), 0}, {of("tap"), 32 << 20}, {of("tap", "tap"), 32 << 20}, {of("tap", "", "l2"), 42 << 20},
		{of("sidecar", "unknown", "negative"), 0},
	} {
		require.Equal(t, c.want, plugins().Memory(c.interfaces))
	}
}

func TestCanMigrate(t *testing.T) {
	for name, want := range map[string]bool{"tap": false, "l2": true, "refresh": true, "unknown": false} {
		require.Equal(t, want, plugins().CanMigrate(name), name)
	}
	require.Equal(t, map[string]string{"tap": "infra/taps"}, plugins().Definitions())
}
