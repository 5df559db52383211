package certificates

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestReplacesKey: replicas learn of the new key one after the other, and each can decrypt at any time what any of them
// encrypts.
func TestReplacesKey(t *testing.T) {
	now := time.Now()
	name := types.NamespacedName{Namespace: "virtflow", Name: "cert"}
	c := fake.NewClientBuilder().
		WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}).Build()
	start := func() *Rotator {
		k := NewRotator(c, Options{Secret: name, Service: "door", Keys: []string{"a.key"}}, zerolog.Nop())
		k.now = func() time.Time { return now }
		do(t, k)
		return k
	}
	quick, slow := start(), start()
	first := quick.Key("a.key")
	require.Len(t, first, KeySize)
	require.Equal(t, [][]byte{first}, quick.OpeningKeys("a.key"))
	closes := func(k *Rotator, all ...*Rotator) []byte {
		t.Helper()
		key := k.Key("a.key")
		for _, other := range all {
			require.Contains(t, other.OpeningKeys("a.key"), key)
		}
		return key
	}

	now = now.Add(keyLife - time.Minute)
	do(t, quick)
	require.Equal(t, first, quick.Key("a.key"), "it is replaced too early")
	now = now.Add(2 * time.Minute)
	do(t, quick)
	require.Len(t, quick.OpeningKeys("a.key"), 2)
	require.Equal(t, first, closes(quick, quick, slow), "the new key is used before the other replica knows it")
	closes(slow, quick, slow)
	require.Equal(t, first, closes(start(), quick, slow), "nor by one that is just starting")

	do(t, slow)
	now = now.Add(spread)
	second := closes(quick, quick, slow)
	require.NotEqual(t, first, second)
	require.Equal(t, second, closes(slow, quick, slow))
	require.Contains(t, quick.OpeningKeys("a.key"), first, "what is under way with the one before it")

	now = now.Add(keyLife)
	do(t, quick)
	require.NotContains(t, quick.OpeningKeys("a.key"), first, "kept for ever")
	require.Equal(t, second, quick.Key("a.key"))
}

// TestKeepsKeyOfUnknownAge: it is not replaced at once.
func TestKeepsKeyOfUnknownAge(t *testing.T) {
	now := time.Now()
	name := types.NamespacedName{Namespace: "virtflow", Name: "cert"}
	old := make([]byte, KeySize)
	old[0] = 1
	c := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Data:       map[string][]byte{"a.key": old},
	}).Build()
	k := NewRotator(c, Options{Secret: name, Service: "door", Keys: []string{"a.key"}}, zerolog.Nop())
	k.now = func() time.Time { return now }
	do(t, k)
	require.Equal(t, old, k.Key("a.key"))
	now = now.Add(keyLife + time.Hour)
	do(t, k)
	require.Len(t, k.OpeningKeys("a.key"), 2)

	// A key of a wrong length is ignored and removed.
	var s corev1.Secret
	require.NoError(t, c.Get(t.Context(), name, &s))
	s.Data["a.key"] = []byte("short")
	require.NoError(t, c.Update(t.Context(), &s))
	do(t, k)
	require.Len(t, k.OpeningKeys("a.key"), 1)
	require.Len(t, k.Key("a.key"), KeySize)
}
