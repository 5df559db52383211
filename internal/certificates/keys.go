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
	// keyLife is how long a key is in use, and for so long again it opens what it has closed.
	keyLife = 90 * 24 * time.Hour
)

// keys are those of one name.
type keys struct {
	newest, previous []byte // previous is nil where there is none
	made             time.Time
}

// Where a Secret keeps them, beside the newest.
func previousOf(name string) string { return name + "-previous" }
func madeOf(name string) string     { return name + "-made" }

// Key is the random key of that name to close something with, or nil while there is none. One that was made lately is
// not used yet: other replicas may not know it.
func (k *Rotator) Key(name string) []byte {
	of := k.keysOf(name)
	if len(of.previous) > 0 && k.now().Before(of.made.Add(spread)) {
		return of.previous
	}
	return of.newest
}

// OpeningKeys are those of that name with which something may have been closed: the newest and the one before it.
func (k *Rotator) OpeningKeys(name string) [][]byte {
	of := k.keysOf(name)
	var out [][]byte
	for _, key := range [][]byte{of.newest, of.previous} {
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

// renewKeys makes those keys that a Secret does not have, and replaces old ones; it says whether there were any.
func (k *Rotator) renewKeys(secret *corev1.Secret) (renewed bool, err error) {
	for _, name := range k.Keys {
		of := readKeys(secret, name)
		if len(of.newest) == KeySize && !of.made.IsZero() && k.now().Before(of.made.Add(keyLife)) {
			continue
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		renewed = true
		secret.Data[madeOf(name)] = []byte(k.now().UTC().Format(time.RFC3339))
		if len(of.newest) == KeySize && of.made.IsZero() {
			continue // nobody has noted its age; from now on it is known
		}
		delete(secret.Data, previousOf(name))
		if len(of.newest) == KeySize {
			secret.Data[previousOf(name)] = of.newest
		}
		key := make([]byte, KeySize)
		if _, err := rand.Read(key); err != nil {
			return false, fmt.Errorf("making the key %s: %w", name, err)
		}
		secret.Data[name] = key
	}
	return renewed, nil
}

// readKeys are the keys of that name in a Secret. Those of a wrong length are none.
func readKeys(secret *corev1.Secret, name string) keys {
	var of keys
	if key := secret.Data[name]; len(key) == KeySize {
		of.newest = slices.Clone(key)
	}
	if key := secret.Data[previousOf(name)]; len(key) == KeySize {
		of.previous = slices.Clone(key)
	}
	if made, err := time.Parse(time.RFC3339, string(secret.Data[madeOf(name)])); err == nil {
		of.made = made
	}
	return of
}

// takeKeys puts a Secret's keys into use.
func (k *Rotator) takeKeys(secret *corev1.Secret) {
	all := map[string]keys{}
	for _, name := range k.Keys {
		all[name] = readKeys(secret, name)
	}
	k.keys.Store(&all)
}
