package cloudinit

import (
	"encoding/json"
	"fmt"

	"github.com/virtflow/virtflow/launcher/iso"
)

// The volume labels that identify cloud-init's data sources.
const (
	LabelNoCloud     = "cidata"
	LabelConfigDrive = "config-2"
)

// Machine has the guest's metadata, for either data source.
type Machine struct {
	Namespace, Name string // of the VMI
	UUID            string // of its firmware
	Hostname        string
	InstanceType    string
	PublicKeys      []string
}

// Data has the user's input for cloud-init. Network is nil if there is none.
type Data struct {
	User, Network []byte
}

// NoCloud returns the files of the NoCloud data source.
func NoCloud(m Machine, d Data) ([]iso.File, error) {
	return files(struct {
		InstanceType  string            `json:"instance-type,omitempty"`
		InstanceID    string            `json:"instance-id"`
		LocalHostname string            `json:"local-hostname,omitempty"`
		PublicKeys    map[string]string `json:"public-keys,omitempty"`
	}{m.InstanceType, m.UUID, m.Hostname, numbered(m.PublicKeys)}, d, "meta-data", "user-data", "network-config")
}

// ConfigDrive returns the files of the ConfigDrive data source, which is OpenStack's.
func ConfigDrive(m Machine, d Data) ([]iso.File, error) {
	const folder = "openstack/latest/"
	return files(struct {
		InstanceType string            `json:"instance_type,omitempty"`
		InstanceID   string            `json:"instance_id"`
		Hostname     string            `json:"hostname,omitempty"`
		UUID         string            `json:"uuid,omitempty"`
		PublicKeys   map[string]string `json:"public_keys,omitempty"`
	}{m.InstanceType, m.Name + "." + m.Namespace, m.Hostname, m.UUID, numbered(m.PublicKeys)}, d,
		folder+"meta_data.json", folder+"user_data", folder+"network_data.json")
}

// files returns the files of a data source. User data must exist even if empty, or cloud-init does not recognise the
// disk.
func files(meta any, d Data, metaName, userName, networkName string) ([]iso.File, error) {
	encoded, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", metaName, err)
	}
	out := []iso.File{{Path: metaName, Data: encoded}, {Path: userName, Data: d.User}}
	if d.Network != nil {
		out = append(out, iso.File{Path: networkName, Data: d.Network})
	}
	return out, nil
}

// numbered names keys by their index, as KubeVirt does.
func numbered(keys []string) map[string]string {
	out := make(map[string]string, len(keys))
	for i, k := range keys {
		out[fmt.Sprint(i)] = k
	}
	return out
}
