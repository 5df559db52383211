package disk

import (
	"path/filepath"
	"slices"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/cloudinit"
	"github.com/virtflow/virtflow/launcher/iso"
)

// Labels of ISOs, which are KubeVirt's.
const (
	labelFiles   = "cfgdata"
	labelSysprep = "unattendCD"
)

// iso reports whether the volume is an ISO that Prepare writes.
func (v Volume) iso() bool { return v.Label != "" }

func (v Volume) cloudInit() bool { return v.Kind == NoCloud || v.Kind == ConfigDrive }

// planISO plans a volume that holds a few files.
func planISO(v *v1.Volume, at Directories) (Volume, error) {
	out := Volume{
		Name: v.Name, Source: filepath.Join(at.Files, v.Name), Path: filepath.Join(at.Disks, v.Name+".iso"),
		Label: labelFiles,
	}
	switch {
	case v.CloudInitNoCloud != nil:
		out.Kind, out.Label = NoCloud, cloudinit.LabelNoCloud
		return out.withCloudInit(v.CloudInitNoCloud, at), nil
	case v.CloudInitConfigDrive != nil:
		out.Kind, out.Label = ConfigDrive, cloudinit.LabelConfigDrive
		source := v1.CloudInitNoCloudSource(*v.CloudInitConfigDrive)
		return out.withCloudInit(&source, at), nil
	case v.Secret != nil:
		out.Kind = Secret
		out.setLabel(v.Secret.VolumeLabel)
	case v.ConfigMap != nil:
		out.Kind = ConfigMap
		out.setLabel(v.ConfigMap.VolumeLabel)
	case v.DownwardAPI != nil:
		out.Kind = DownwardAPI
		out.setLabel(v.DownwardAPI.VolumeLabel)
	case v.ServiceAccount != nil:
		out.Kind = ServiceAccount
	case v.Sysprep != nil:
		out.Kind, out.Label = Sysprep, labelSysprep
	default:
		return Volume{}, volumeError(v.Name, "this kind of volume is not supported yet")
	}
	if len(out.Label) > iso.MaxLabel {
		return Volume{}, volumeError(v.Name, "its label has more than %d bytes", iso.MaxLabel)
	}
	return out, nil
}

func (v *Volume) setLabel(label string) {
	if label != "" {
		v.Label = label
	}
}

// withCloudInit adds the sources of cloud-init data: a user's Secret takes precedence over inline data.
func (v Volume) withCloudInit(c *v1.CloudInitNoCloudSource, at Directories) Volume {
	v.Source = ""
	v.UserData, v.NetworkData = filepath.Join(at.CloudInit, v.Name), filepath.Join(at.CloudInit, v.Name)
	if c.UserDataSecretRef != nil {
		v.UserData = filepath.Join(at.UserData, v.Name)
	}
	if c.NetworkDataSecretRef != nil {
		v.NetworkData = filepath.Join(at.NetworkData, v.Name)
	}
	return v
}

// publicKeys returns the Secrets whose SSH keys reach the guest by that kind of cloud-init volume, in the spec's order.
func publicKeys(spec *v1.VirtualMachineInstanceSpec, kind Kind, at Directories) []string {
	var out []string
	for _, c := range spec.AccessCredentials {
		k := c.SSHPublicKey
		if k == nil || k.Source.Secret == nil || k.Source.Secret.SecretName == "" {
			continue
		}
		by := k.PropagationMethod
		if kind == NoCloud && by.NoCloud == nil || kind == ConfigDrive && by.ConfigDrive == nil {
			continue
		}
		if dir := filepath.Join(at.AccessCredentials, k.Source.Secret.SecretName); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}
