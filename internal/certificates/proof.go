package certificates

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	// keyProofs has the keys of proofs, one a line, the newest first: when it was made, and the key.
	keyProofs = "proofs"
	// keyProofsSince is from when on every replica answers on paths with proofs.
	keyProofsSince = "proofs.since"
	// proofLife is how long one proof is in the paths. The API server tells a path, which has it, to whoever's request fails because nobody
	// answered.
	proofLife = 50 * time.Minute
	// proofGrace is how long a proof holds after there is another: for replicas and API servers that have not heard of it yet.
	proofGrace = 5 * time.Minute
	// proofsAhead is how long webhooks that are called without a proof stay so once a replica has begun to know of proofs: a version that
	// does not answer on such paths may still be there.
	proofsAhead = 5 * time.Minute
	// unseen is how long a proof that this process has made holds though the Secret, as it is seen here, does not have it yet.
	unseen = time.Minute
	// mostProofs is how many are kept: each replica makes one when it starts.
	mostProofs = 8
)

// proofKey is what the proofs of all paths are made from.
type proofKey struct {
	made time.Time
	key  []byte
}

// of is the proof for one path. Whoever learns that of one path knows none of the others.
func (p proofKey) of(path string) string {
	h := hmac.New(sha256.New, p.key)
	h.Write([]byte(path))
	return hex.EncodeToString(h.Sum(nil))
}

// Proven says whether a text is the proof that the API server alone is told, as the end of a path of Options.Proven.
func (k *Keeper) Proven(path, text string) bool {
	all := k.proofs.Load()
	if all == nil || text == "" {
		return false
	}
	now := k.now()
	for i, p := range *all {
		if i > 0 && now.Sub((*all)[i-1].made) >= proofGrace {
			return false
		}
		if hmac.Equal([]byte(p.of(path)), []byte(text)) {
			return true
		}
	}
	return false
}

// renewProof makes another proof once in the life of a process, for what was told while nobody answered, and when one is old; it says whether
// it did. The process has begun once that is written. fresh is a Secret that nobody has used before.
func (k *Keeper) renewProof(secret *corev1.Secret, fresh bool) (bool, error) {
	if len(k.Options.Proven) == 0 {
		return false, nil
	}
	now := k.now()
	all := readProofs(secret)
	young := len(all) > 0 && now.Sub(all[0].made) < proofLife && !all[0].made.After(now.Add(time.Minute))
	if k.begun.Load() && young {
		return false, nil
	}
	made := proofKey{made: now, key: make([]byte, KeySize)}
	if _, err := rand.Read(made.key); err != nil {
		return false, fmt.Errorf("making a proof: %w", err)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	all = append([]proofKey{made}, all...)
	for i := 1; i < len(all); i++ {
		if now.Sub(all[i-1].made) >= proofGrace || i == mostProofs {
			all = all[:i]
		}
	}
	secret.Data[keyProofs] = writeProofs(all)
	if _, err := proofsSince(secret); err != nil {
		since := now.Add(proofsAhead)
		if fresh {
			since = now
		}
		secret.Data[keyProofsSince] = []byte(since.UTC().Format(time.RFC3339))
	}
	return true, nil
}

func proofsSince(secret *corev1.Secret) (time.Time, error) {
	return time.Parse(time.RFC3339, string(secret.Data[keyProofsSince]))
}

// takeProofs puts a Secret's proofs into use.
func (k *Keeper) takeProofs(secret *corev1.Secret) {
	all := readProofs(secret)
	if len(k.Options.Proven) == 0 || len(all) == 0 {
		return
	}
	if held := k.proofs.Load(); held != nil {
		var missing []proofKey
		for _, h := range *held {
			known := slices.ContainsFunc(all, func(p proofKey) bool { return bytes.Equal(p.key, h.key) })
			if !known && k.now().Sub(h.made) < unseen {
				missing = append(missing, h)
			}
		}
		all = append(missing, all...)
	}
	k.proofs.Store(&all)
}

// readProofs leaves out what is no proof.
func readProofs(secret *corev1.Secret) []proofKey {
	var all []proofKey
	for line := range strings.Lines(string(secret.Data[keyProofs])) {
		at, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		made, err := time.Parse(time.RFC3339, at)
		key, bad := hex.DecodeString(text)
		if err == nil && bad == nil && len(key) == KeySize && len(all) < mostProofs {
			all = append(all, proofKey{made, key})
		}
	}
	return all
}

func writeProofs(all []proofKey) []byte {
	var b bytes.Buffer
	for _, p := range all {
		fmt.Fprintf(&b, "%s %x\n", p.made.UTC().Format(time.RFC3339), p.key)
	}
	return b.Bytes()
}

// told is what webhook configurations are to say.
type told struct {
	bundle []byte
	proofs []proofKey
	// plain: webhooks that are called without a proof go on being.
	plain bool
}

func (k *Keeper) toldBy(secret *corev1.Secret) told {
	since, err := proofsSince(secret)
	return told{bundle: bundleOf(secret), proofs: readProofs(secret), plain: err == nil && k.now().Before(since)}
}

// untilProven is how long it is until all webhooks are to be called with proofs; 0: they are.
func (k *Keeper) untilProven(secret *corev1.Secret) time.Duration {
	since, err := proofsSince(secret)
	if err != nil || len(k.Options.Proven) == 0 {
		return 0
	}
	return max(0, since.Sub(k.now()))
}

// tell writes the CA and the path of one webhook, and says whether they were there already.
func (k *Keeper) tell(name string, c *admissionregistrationv1.WebhookClientConfig, t told) (same bool) {
	same = bytes.Equal(c.CABundle, t.bundle)
	c.CABundle = t.bundle
	base, ok := k.Options.Proven[name]
	if !ok || c.Service == nil || len(t.proofs) == 0 || t.plain && c.Service.Path != nil && *c.Service.Path == base {
		return same
	}
	path := base + "/" + t.proofs[0].of(base)
	same = same && c.Service.Path != nil && *c.Service.Path == path
	c.Service.Path = &path
	return same
}
