package certificates

import (
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// KeySize is the length of each of a Rotator's random keys in bytes.
	KeySize = 32
	// keyLife is how long a key encrypts; for as long again it still decrypts.
	keyLife = 90 * 24 * time.Hour
)

// keys has the keys of one name.
type keys struct {
	newest, previous []byte // previous is nil where there is none
	made             time.Time
}

// previousOf and madeOf return the Secret's keys for the previous key and the time of the newest.
func previousOf(name string) string { return name + "-previous" }
func madeOf(name string) string     { return name + "-made" }

// Key returns the random key of that name for encryption, or nil while there is none. A key that was just made is not
// used yet: other replicas may not have it.
func (k *Rotator) Key(name string) []byte {
	found := k.keysOf(name)
	if len(found.previous) > 0 && k.now().Before(found.made.Add(spread)) {
		return found.previous
	}
	return found.newest
}

// OpeningKeys returns the keys of that name that can decrypt: the newest and the one before it.
func (k *Rotator) OpeningKeys(name string) [][]byte {
	found := k.keysOf(name)
	var out [][]byte
	for _, key := range [][]byte{found.newest, found.previous} {
		if len(key) > 0 {
			out = append(out, key)
		}
	}
	return out
}

func (k *Rotator) keysOf(name string) keys {
	all := k.keys.Load()
	if all == nil {
		return keys{}
	}
	return (*all)[name]
}

// renewKeys makes the keys that a Secret lacks, and replaces old ones. It returns whether there were any.
func (k *Rotator) renewKeys(secret *corev1.Secret) (renewed bool, err error) {
	for _, name := range k.Keys {
		found := readKeys(secret, name)
		if len(found.newest) == KeySize && !found.made.IsZero() && k.now().Before(found.made.Add(keyLife)) {
			continue
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		renewed = true
		secret.Data[madeOf(name)] = []byte(k.now().UTC().Format(time.RFC3339))
		if len(found.newest) == KeySize && found.made.IsZero() {
			continue // its age was not recorded; it counts from now
		}
		delete(secret.Data, previousOf(name))
		if len(found.newest) == KeySize {
			secret.Data[previousOf(name)] = found.newest
		}
		key := make([]byte, KeySize)
		if _, err := rand.Read(key); err != nil {
			return false, fmt.Errorf("making the key %s: %w", name, err)
		}
		secret.Data[name] = key
	}
	return renewed, nil
}

// readKeys returns the keys of that name in a Secret, without those of a wrong length.
func readKeys(secret *corev1.Secret, name string) keys {
	var found keys
	if key := secret.Data[name]; len(key) == KeySize {
		found.newest = slices.Clone(key)
	}
	if key := secret.Data[previousOf(name)]; len(key) == KeySize {
		found.previous = slices.Clone(key)
	}
	if made, err := time.Parse(time.RFC3339, string(secret.Data[madeOf(name)])); err == nil {
		found.made = made
	}
	return found
}

// takeKeys begins to use a Secret's keys.
func (k *Rotator) takeKeys(secret *corev1.Secret) {
	all := map[string]keys{}
	for _, name := range k.Keys {
		all[name] = readKeys(secret, name)
	}
	k.keys.Store(&all)
}
