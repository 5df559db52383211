package certificates

import (
	"crypto/rand"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// KeySize is the length of each of a Keeper's random keys in bytes.
const KeySize = 32

// Key is the random key of that name, or nil while there is none.
func (k *Keeper) Key(name string) []byte {
	all := k.keys.Load()
	if all == nil {
		return nil
	}
	return (*all)[name]
}

// addKeys makes those keys that a Secret does not have, and says whether there were any.
func (k *Keeper) addKeys(secret *corev1.Secret) (added bool, err error) {
	for _, name := range k.Keys {
		if len(secret.Data[name]) == KeySize {
			continue
		}
		key := make([]byte, KeySize)
		if _, err := rand.Read(key); err != nil {
			return false, fmt.Errorf("making the key %s: %w", name, err)
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[name] = key
		added = true
	}
	return added, nil
}

// takeKeys puts a Secret's keys into use.
func (k *Keeper) takeKeys(secret *corev1.Secret) {
	all := map[string][]byte{}
	for _, name := range k.Keys {
		all[name] = slices.Clone(secret.Data[name])
	}
	k.keys.Store(&all)
}
