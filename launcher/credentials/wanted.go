package credentials

import (
	"fmt"
	"path/filepath"
	"strings"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/iso"
)

// Wanted has the keys and passwords that the guest's users must have.
type Wanted struct {
	Keys      map[string][]string // SSH public keys by user
	Passwords map[string]string   // by user
}

// ByAgent returns the credentials that the guest's agent sets.
func ByAgent(all []v1.AccessCredential) (keys, passwords []v1.AccessCredential) {
	for _, c := range all {
		switch {
		case c.SSHPublicKey != nil && c.SSHPublicKey.PropagationMethod.QemuGuestAgent != nil:
			if c.SSHPublicKey.Source.Secret != nil {
				keys = append(keys, c)
			}
		case c.UserPassword != nil && c.UserPassword.PropagationMethod.QemuGuestAgent != nil:
			if c.UserPassword.Source.Secret != nil {
				passwords = append(passwords, c)
			}
		}
	}
	return keys, passwords
}

// Read reads the credentials from the folder with the Secrets, each in a folder of its name. For keys, a file's lines
// are keys; for passwords, its name is a user and its content the password.
func Read(all []v1.AccessCredential, folder string) (Wanted, error) {
	keys, passwords := ByAgent(all)
	w := Wanted{Keys: map[string][]string{}, Passwords: map[string]string{}}
	for _, c := range keys {
		files, err := readSecret(folder, c.SSHPublicKey.Source.Secret.SecretName)
		if err != nil {
			return Wanted{}, err
		}
		for _, user := range c.SSHPublicKey.PropagationMethod.QemuGuestAgent.Users {
			// A user without a key in any Secret must have none.
			w.Keys[user] = append(w.Keys[user], keyLines(files)...)
		}
	}
	for _, c := range passwords {
		files, err := readSecret(folder, c.UserPassword.Source.Secret.SecretName)
		if err != nil {
			return Wanted{}, err
		}
		for _, f := range files {
			if password := strings.TrimSpace(string(f.Data)); password != "" {
				w.Passwords[f.Path] = password
			}
		}
	}
	return w, nil
}

// readSecret reads the files of a Secret's volume.
func readSecret(folder, name string) ([]iso.File, error) {
	files, err := iso.Folder(filepath.Join(folder, name))
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return files, nil
}

// keyLines returns the SSH keys in files, one for each line that is not empty.
func keyLines(files []iso.File) []string {
	out := []string{}
	for _, f := range files {
		for line := range strings.Lines(string(f.Data)) {
			if key := strings.TrimSpace(line); key != "" {
				out = append(out, key)
			}
		}
	}
	return out
}
