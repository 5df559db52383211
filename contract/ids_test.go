package contract

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestLongestNames: with the longest names that Kubernetes allows every ID fits into Temporal's columns, reads as what
// it is, and is one object's alone.
func TestLongestNames(t *testing.T) {
	const uid = "3f2a9c1e-0000-0000-0000-000000000000"
	namespace, name := strings.Repeat("n", 63), strings.Repeat("a", 252)
	seen := map[string]string{}
	add := func(id, of string) string {
		t.Helper()
		require.LessOrEqual(t, len(id), MaxLength, of)
		require.Equal(t, "", seen[id], "the ID of %s is that of another, too", of)
		seen[id] = of
		return id
	}
	for _, last := range []string{"x", "y"} {
		object := name + last
		require.Len(t, object, 253)
		for kind, entity := range map[string]string{
			"vm": VMID(namespace, object), "vmi": VMIID(namespace, object),
			"replicaset": ReplicaSetID(namespace, object), "migration": MigrationID(namespace, object),
		} {
			add(entity, kind+" "+last)
			require.True(t, strings.HasPrefix(entity, kind+"/"+namespace+"/aaaa"), entity)
			for n, op := range []Operation{OperationStart, OperationRestart, OperationReplicate} {
				add(TransitionID(entity, uid, op, n), entity+string(op))
				id := add(TransitionID(entity, uid, op, math.MaxInt), entity+string(op)+" last")
				require.True(t, strings.HasSuffix(id, "/3f2a9c1e/"+string(op)+"/9223372036854775807"), id)
			}
		}
		add(NodeID(object), "node "+last)
		add(DrainID(object, 1), "drain "+last)
		add(DrainID(object, 2), "next drain "+last)
		add(NodeTaskQueue(object), "queue "+last)
	}
	require.Equal(t, VMID(namespace, name+"x"), VMID(namespace, name+"x"))
}

// TestShortenedIsNobodysName: what resembles a shortened ID is not taken for the object that was meant, also when
// another reads a name from it.
func TestShortenedIsNobodysName(t *testing.T) {
	long := VMID("shop", strings.Repeat("a", 253))
	name, ok := strings.CutPrefix(long, "vm/shop/")
	require.True(t, ok)
	require.NotEqual(t, long, VMID("shop", name))
}

func TestWhatFitsIsWhole(t *testing.T) {
	require.Equal(t, "vm/shop/web", VMID("shop", "web"))
	require.Equal(t, "replicaset/shop/web/3f2a9c1e/replicate/2",
		TransitionID(ReplicaSetID("shop", "web"), "3f2a9c1e-1", OperationReplicate, 2))
	require.Equal(t, "virtflow-node-n1", NodeTaskQueue("n1"))
	whole := "vm/shop/" + strings.Repeat("a", MaxLength-len("vm/shop/"))
	require.Len(t, whole, MaxLength)
	require.Equal(t, whole, VMID("shop", strings.TrimPrefix(whole, "vm/shop/")))
}

func TestKeywordsAreCutBetweenCharacters(t *testing.T) {
	require.Equal(t, "anna", Keyword("anna"))
	cut := Keyword("x" + strings.Repeat("ü", 200))
	require.Len(t, cut, MaxLength)
	require.True(t, utf8.ValidString(cut))
	require.Len(t, Keyword(strings.Repeat("ü", 200)), MaxLength-1)
}
