package certificates

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// hooked are the paths of the webhooks a.x.y (mutating) and c.x.y (validating, the manifest names no path).
const hookedA, hookedC = "/changed", "/watched"

// proofs is a cluster whose webhooks are called with proofs.
type proofs struct {
	t   *testing.T
	c   client.Client
	now time.Time
}

func newProofs(t *testing.T) (*proofs, *Keeper) {
	t.Helper()
	p := &proofs{t: t, now: time.Now().Truncate(time.Second)}
	k, c := setUp(t, &p.now)
	p.c = c
	p.manifest()
	return p, p.with(k)
}

// with is a replica of a version that knows of proofs.
func (p *proofs) with(k *Keeper) *Keeper {
	k.Options.Proven = map[string]string{"a.x.y": hookedA, "c.x.y": hookedC}
	return k
}

// manifest writes the services of the webhooks as the manifest has them.
func (p *proofs) manifest() {
	m, v := p.hooks()
	path := hookedA
	m.Webhooks[0].ClientConfig.Service = &admissionregistrationv1.ServiceReference{Namespace: "virtflow", Name: "s", Path: &path}
	v.Webhooks[0].ClientConfig.Service = &admissionregistrationv1.ServiceReference{Namespace: "virtflow", Name: "s"}
	require.NoError(p.t, p.c.Update(context.Background(), m))
	require.NoError(p.t, p.c.Update(context.Background(), v))
}

func (p *proofs) hooks() (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	m, v := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	name := types.NamespacedName{Name: "virtflow"}
	require.NoError(p.t, p.c.Get(context.Background(), name, m))
	require.NoError(p.t, p.c.Get(context.Background(), name, v))
	return m, v
}

// read is the proof that ends the path of each of the two webhooks; "": it has none.
func (p *proofs) read() (a, c string) {
	m, v := p.hooks()
	proof := func(base string, path *string) string {
		rest, ok := strings.CutPrefix(*path, base)
		require.True(p.t, ok)
		if rest == "" {
			return ""
		}
		require.Len(p.t, rest, 1+2*KeySize)
		return rest[1:]
	}
	return proof(hookedA, m.Webhooks[0].ClientConfig.Service.Path), proof(hookedC, v.Webhooks[0].ClientConfig.Service.Path)
}

// TestTheProofIsTheAPIServersAlone: it ends the path of the webhooks that are named, that of one path is good for that path alone, it is
// another one after an hour and after a restart, and all replicas know it.
func TestTheProofIsTheAPIServersAlone(t *testing.T) {
	p, k := newProofs(t)
	require.False(t, k.Proven(hookedA, ""))
	do(t, k)
	a, c := p.read()
	require.True(t, k.Proven(hookedA, a) && k.Proven(hookedC, c))
	require.False(t, k.Proven(hookedC, a) || k.Proven(hookedA, c), "who learns that of one path knows none of the others")
	require.False(t, k.Proven(hookedC, "") || k.Proven(hookedC, c[1:]) || k.Proven(hookedC, strings.ToUpper(c)))

	other := p.with(replica(p.c, &p.now))
	do(t, other)
	_, second := p.read()
	require.NotEqual(t, c, second, "what was told while nobody answered will be void")
	do(t, k)
	_, same := p.read()
	require.Equal(t, second, same, "a process begins once")
	for _, r := range []*Keeper{k, other} {
		require.True(t, r.Proven(hookedC, second))
		require.True(t, r.Proven(hookedC, c), "an API server may not have seen the new path yet")
	}
	p.now = p.now.Add(proofGrace)
	for _, r := range []*Keeper{k, other} {
		require.True(t, r.Proven(hookedC, second))
		require.False(t, r.Proven(hookedC, c), "and then it has")
	}

	// The manifest is applied again: the paths are as they were.
	p.manifest()
	do(t, k)
	a, same = p.read()
	require.Equal(t, second, same)
	require.True(t, k.Proven(hookedA, a))

	p.now = p.now.Add(checkInterval)
	do(t, k)
	_, third := p.read()
	require.NotEqual(t, second, third)
	require.True(t, k.Proven(hookedC, third) && k.Proven(hookedC, second))
	do(t, other)
	require.True(t, other.Proven(hookedC, third) && other.Proven(hookedC, second))
	p.now = p.now.Add(proofGrace)
	require.False(t, k.Proven(hookedC, second) || other.Proven(hookedC, second))
}

// TestManyReplicasStartAtOnce: none of their proofs is void before the others know of the next one.
func TestManyReplicasStartAtOnce(t *testing.T) {
	p, k := newProofs(t)
	var shown []string
	all := []*Keeper{k}
	for range 2 * mostProofs {
		do(t, all[len(all)-1])
		_, c := p.read()
		shown = append(shown, c)
		all = append(all, p.with(replica(p.c, &p.now)))
	}
	do(t, k)
	for _, c := range shown[len(shown)-mostProofs:] {
		require.True(t, k.Proven(hookedC, c))
	}
	secret := &corev1.Secret{}
	require.NoError(t, p.c.Get(context.Background(), k.Secret, secret))
	require.Len(t, readProofs(secret), mostProofs, "no more than so many are kept")
}

// TestAProofIsKnownHereBeforeAnybodyIsToldOfIt, whatever becomes of that.
func TestAProofIsKnownHereBeforeAnybodyIsToldOfIt(t *testing.T) {
	p, k := newProofs(t)
	do(t, k)
	_, before := p.read()
	p.now = p.now.Add(checkInterval)
	known := false
	k.client = interceptor.NewClient(p.c.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			secret := &corev1.Secret{}
			require.NoError(t, p.c.Get(context.Background(), k.Secret, secret))
			known = k.Proven(hookedC, readProofs(secret)[0].of(hookedC))
			return errors.New("the API server is busy")
		},
	})
	_, err := k.Reconcile(context.Background(), reconcile.Request{})
	require.ErrorContains(t, err, "the API server is busy")
	require.True(t, known)
	require.True(t, k.Proven(hookedC, before), "that of the paths as they are still holds")
}

// TestAProcessHasBegunOnceItsProofIsWritten: another replica was faster with something else.
func TestAProcessHasBegunOnceItsProofIsWritten(t *testing.T) {
	p, k := newProofs(t)
	do(t, k)
	_, before := p.read()
	other := p.with(replica(p.c, &p.now))
	conflicts := 1
	other.client = interceptor.NewClient(p.c.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, o.GetName(), nil)
			}
			return c.Update(ctx, o, options...)
		},
	})
	do(t, other)
	require.True(t, other.Proven(hookedC, before), "what is known already is in use")
	do(t, other)
	_, after := p.read()
	require.NotEqual(t, before, after)
	require.True(t, other.Proven(hookedC, after))
}

// TestAStaleViewTakesNoProofBack: what this process has written, it knows.
func TestAStaleViewTakesNoProofBack(t *testing.T) {
	p, k := newProofs(t)
	do(t, k)
	stale := &corev1.Secret{}
	require.NoError(t, p.c.Get(context.Background(), k.Secret, stale))
	p.now = p.now.Add(checkInterval)
	do(t, k)
	_, after := p.read()
	k.takeProofs(stale)
	require.True(t, k.Proven(hookedC, after))
	p.now = p.now.Add(unseen)
	k.takeProofs(stale)
	require.False(t, k.Proven(hookedC, after), "a Secret that somebody has put back counts")
}

// TestAnEarlierVersionIsNotCalledWithProofs: it does not answer there, and may go on for a while.
func TestAnEarlierVersionIsNotCalledWithProofs(t *testing.T) {
	p, k := newProofs(t)
	earlier := replica(p.c, &p.now)
	do(t, earlier)
	r, err := k.Reconcile(context.Background(), reconcile.Request{})
	require.NoError(t, err)
	require.Equal(t, proofsAhead, r.RequeueAfter)
	a, c := p.read()
	require.Empty(t, a)
	require.True(t, k.Proven(hookedC, c), "what has no path in the manifest is called with one")
	p.now = p.now.Add(proofsAhead)
	r, err = k.Reconcile(context.Background(), reconcile.Request{})
	require.NoError(t, err)
	require.Equal(t, checkInterval, r.RequeueAfter)
	a, _ = p.read()
	require.True(t, k.Proven(hookedA, a))
}

// TestWhatIsNoProofIsLeftOut of a Secret that somebody has edited.
func TestWhatIsNoProofIsLeftOut(t *testing.T) {
	const at = "2026-01-01T00:00:00Z "
	good := at + strings.Repeat("ab", KeySize)
	for text, want := range map[string]int{
		"": 0, "\n\n": 0, "x": 0, good: 1, good + "\n": 1, "x\n" + good + "\n" + good[1:] + "\n" + good + "ab": 1, strings.Repeat(good+"\n", 100): mostProofs,
		at: 0, at + strings.Repeat("xy", KeySize): 0,
	} {
		require.Len(t, readProofs(&corev1.Secret{Data: map[string][]byte{keyProofs: []byte(text)}}), want, "%q", text)
	}
}
