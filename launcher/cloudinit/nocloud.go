package cloudinit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/kdomanski/iso9660"
)

// noCloudLabel is the volume label that cloud-init's NoCloud data source looks for.
const noCloudLabel = "cidata"

// MetaData is what the guest is told of itself.
type MetaData struct {
	InstanceType  string            `json:"instance-type,omitempty"`
	InstanceID    string            `json:"instance-id"`
	LocalHostname string            `json:"local-hostname,omitempty"`
	PublicKeys    map[string]string `json:"public-keys,omitempty"`
}

// NoCloud is the content of the image. NetworkConfig may be nil.
type NoCloud struct {
	MetaData      MetaData
	UserData      []byte
	NetworkConfig []byte
}

// WriteNoCloud writes the image to path, readable for nobody else. It holds the user's secrets and must stay in the
// pod. While it is made its parts lie in the temporary directory.
func WriteNoCloud(path string, n NoCloud) error {
	meta, err := json.Marshal(n.MetaData)
	if err != nil {
		return fmt.Errorf("encoding meta-data: %w", err)
	}
	w, err := iso9660.NewWriter()
	if err != nil {
		return fmt.Errorf("preparing the image: %w", err)
	}
	defer w.Cleanup() //nolint:errcheck // the temporary directory ends with the pod
	files := []struct {
		name string
		data []byte
	}{{"meta-data", meta}, {"user-data", n.UserData}, {"network-config", n.NetworkConfig}}
	for _, f := range files {
		// user-data has to be there even when it is empty, or cloud-init does not take the disk for its own.
		if f.data == nil && f.name == "network-config" {
			continue
		}
		if err := w.AddFile(bytes.NewReader(f.data), f.name); err != nil {
			return fmt.Errorf("adding %s: %w", f.name, err)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // our own directory
	if err != nil {
		return fmt.Errorf("creating the image: %w", err)
	}
	if err := w.WriteTo(file, noCloudLabel); err != nil {
		_ = file.Close()
		return fmt.Errorf("writing the image: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return nil
}
