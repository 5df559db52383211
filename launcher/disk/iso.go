package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/cloudinit"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/iso"
)

// Keys of the Secret with a volume's cloud-init data, and KubeVirt's other spelling of each, which a user's own Secret
// may have.
const (
	keyUserData        = "userdata"
	keyUserDataAlso    = "userData"
	keyNetworkData     = "networkdata"
	keyNetworkDataAlso = "networkData"
)

// prepareISO writes an image if it does not exist yet.
func prepareISO(vmi *v1.VirtualMachineInstance, v Volume) (domain.Volume, error) {
	err := makeAtomically(v.Path, func(path string) error {
		files, err := contents(vmi, v)
		if err != nil {
			return err
		}
		err = iso.Write(path, v.Label, files)
		var unfit *iso.Unfit
		if errors.As(err, &unfit) {
			return volumeError(v.Name, "%v", unfit)
		}
		return err
	})
	if err != nil {
		return domain.Volume{}, err
	}
	info, err := os.Stat(v.Path)
	if err != nil {
		return domain.Volume{}, fmt.Errorf("reading the image: %w", err)
	}
	if info.Size() > contract.LargestMigrationFile {
		return domain.Volume{}, volumeError(v.Name,
			"its image has %d bytes, and a guest with more than %d cannot migrate", info.Size(),
			contract.LargestMigrationFile)
	}
	return domain.Volume{Path: v.Path, Format: "raw", Size: info.Size(), DirectIO: directIO(v.Path)}, nil
}

// contents returns the files of an image.
func contents(vmi *v1.VirtualMachineInstance, v Volume) ([]iso.File, error) {
	if v.cloudInit() {
		return cloudInitFiles(vmi, v)
	}
	files, err := iso.Folder(v.Source)
	if err != nil {
		return nil, volumeError(v.Name, "reading the %s: %v", v.Kind, err)
	}
	if v.Kind == Sysprep && !slices.ContainsFunc(files, answersSetup) {
		return nil, volumeError(v.Name,
			"Sysprep drive should contain autounattend.xml or unattend.xml but neither were found.")
	}
	return files, nil
}

// answersSetup reports whether Windows' setup looks for the file.
func answersSetup(f iso.File) bool {
	return strings.EqualFold(f.Path, "autounattend.xml") || strings.EqualFold(f.Path, "unattend.xml")
}

func cloudInitFiles(vmi *v1.VirtualMachineInstance, v Volume) ([]iso.File, error) {
	user, err := readFirst(v.UserData, keyUserData, keyUserDataAlso)
	if err != nil {
		return nil, volumeError(v.Name, "reading the user data: %v", err)
	}
	network, err := readFirst(v.NetworkData, keyNetworkData, keyNetworkDataAlso)
	if err != nil {
		return nil, volumeError(v.Name, "reading the network data: %v", err)
	}
	if user == nil && network == nil {
		return nil, volumeError(v.Name,
			"userDataBase64, userData, networkDataBase64 or networkData is required for a cloud-init data source")
	}
	keys, err := readKeys(v.PublicKeys)
	if err != nil {
		return nil, volumeError(v.Name, "reading the SSH keys: %v", err)
	}
	m := cloudinit.Machine{
		Namespace: vmi.Namespace, Name: vmi.Name, UUID: domain.UUID(vmi), Hostname: domain.Hostname(vmi),
		InstanceType: instanceType(vmi), PublicKeys: keys,
	}
	d := cloudinit.Data{User: user, Network: network}
	if v.Kind == ConfigDrive {
		return cloudinit.ConfigDrive(m, d)
	}
	return cloudinit.NoCloud(m, d)
}

// instanceType returns the name of the VM's instance type; a cluster-wide one takes precedence.
func instanceType(vmi *v1.VirtualMachineInstance) string {
	for _, key := range []string{v1.ClusterInstancetypeAnnotation, v1.InstancetypeAnnotation} {
		if name := vmi.Annotations[key]; name != "" {
			return name
		}
	}
	return ""
}

// readKeys reads the SSH keys from all files of some directories.
func readKeys(dirs []string) ([]string, error) {
	var out []string
	for _, dir := range dirs {
		files, err := iso.Folder(dir)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if len(f.Data) > 0 {
				out = append(out, string(f.Data))
			}
		}
	}
	return out, nil
}

// readFirst reads the first of the named files that exists; it returns nil if none does.
func readFirst(dir string, names ...string) ([]byte, error) {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name)) // a directory that Kubernetes mounts
		if !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
	}
	return nil, nil
}
