package certificates

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	keyProof     = "proof.key"
	keyProofMade = "proof.made"
	// proofLife is how long one proof holds. The API server tells the path, which has it, to whoever's request fails because nobody answered.
	proofLife = 50 * time.Minute
)

// Proven says whether a text is the proof that the API server alone is told, as the end of the paths of Options.Proven.
func (k *Keeper) Proven(text string) bool {
	proof := k.proof.Load()
	return proof != nil && subtle.ConstantTimeCompare([]byte(hex.EncodeToString(*proof)), []byte(text)) == 1
}

// renewProof makes another proof once in the life of a process, for what was told while nobody answered, and when one is old; it says whether
// it did.
func (k *Keeper) renewProof(secret *corev1.Secret) (bool, error) {
	if len(k.Options.Proven) == 0 {
		return false, nil
	}
	made, err := time.Parse(time.RFC3339, string(secret.Data[keyProofMade]))
	now := k.now()
	young := err == nil && now.Sub(made) < proofLife && !made.After(now.Add(time.Minute))
	if k.begun.Swap(true) && young && len(secret.Data[keyProof]) == KeySize {
		return false, nil
	}
	proof := make([]byte, KeySize)
	if _, err := rand.Read(proof); err != nil {
		return false, fmt.Errorf("making a proof: %w", err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[keyProof], secret.Data[keyProofMade] = proof, []byte(now.UTC().Format(time.RFC3339))
	return true, nil
}

// takeProof puts a Secret's proof into use.
func (k *Keeper) takeProof(secret *corev1.Secret) {
	if proof := slices.Clone(secret.Data[keyProof]); len(proof) == KeySize && len(k.Options.Proven) > 0 {
		k.proof.Store(&proof)
	}
}

// provenPath is the path that a webhook is to be called at, or nil where it is the one in the manifest.
func (k *Keeper) provenPath(w *admissionregistrationv1.ValidatingWebhook, proof []byte) *string {
	base, ok := k.Options.Proven[w.Name]
	if !ok || w.ClientConfig.Service == nil {
		return nil
	}
	path := base + "/" + hex.EncodeToString(proof)
	return &path
}
