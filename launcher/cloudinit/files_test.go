package cloudinit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/cloudinit"
	"github.com/virtflow/virtflow/launcher/iso"
)

// TestFilesOfDataSources: names and keys are those of cloud-init's data sources, and of KubeVirt.
func TestFilesOfDataSources(t *testing.T) {
	m := cloudinit.Machine{Namespace: "ns", Name: "vm1", UUID: "u-1", Hostname: "host1"}
	full := m
	full.InstanceType, full.PublicKeys = "large", []string{"ssh-ed25519 A a\n", "ssh-rsa B"}
	type data = cloudinit.Data
	for name, c := range map[string]struct {
		list func(cloudinit.Machine, cloudinit.Data) ([]iso.File, error)
		m    cloudinit.Machine
		d    data
		want map[string]string
	}{
		"NoCloud": {cloudinit.NoCloud, m, data{User: []byte("#cloud-config\n"), Network: []byte("version: 2\n")},
			map[string]string{"meta-data": `{"instance-id":"u-1","local-hostname":"host1"}`, "user-data": "#cloud-config\n",
				"network-config": "version: 2\n"}},
		"NoCloud, keys": {cloudinit.NoCloud, full, data{User: []byte("x")},
			map[string]string{"meta-data": `{"instance-type":"large","instance-id":"u-1","local-hostname":"host1",` +
				`"public-keys":{"0":"ssh-ed25519 A a\n","1":"ssh-rsa B"}}`, "user-data": "x"}},
		"NoCloud, network only": {cloudinit.NoCloud, m, data{Network: []byte("version: 1\n")},
			map[string]string{"meta-data": `{"instance-id":"u-1","local-hostname":"host1"}`, "user-data": "",
				"network-config": "version: 1\n"}},
		"ConfigDrive": {cloudinit.ConfigDrive, m, data{User: []byte("x"), Network: []byte("{}")},
			map[string]string{
				"openstack/latest/meta_data.json":    `{"instance_id":"vm1.ns","hostname":"host1","uuid":"u-1"}`,
				"openstack/latest/user_data":         "x",
				"openstack/latest/network_data.json": "{}"}},
		"ConfigDrive, all": {cloudinit.ConfigDrive, full, data{User: []byte("x")},
			map[string]string{
				"openstack/latest/meta_data.json": `{"instance_type":"large","instance_id":"vm1.ns","hostname":"host1",` +
					`"uuid":"u-1","public_keys":{"0":"ssh-ed25519 A a\n","1":"ssh-rsa B"}}`,
				"openstack/latest/user_data": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := c.list(c.m, c.d)
			require.NoError(t, err)
			got := map[string]string{}
			for _, f := range files {
				got[f.Path] = string(f.Data)
			}
			require.Equal(t, c.want, got)
		})
	}
}
