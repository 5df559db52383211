package clients

import (
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/yaml"
)

// argoHealth is the health that one of Argo CD's scripts returns.
type argoHealth struct{ Status, Message string }

// healthInArgoCD returns an object's health as Argo CD computes it: an object that is being deleted progresses, and any
// other has what the script of its kind returns. Status is "" where Argo CD has no script: it does not judge it.
func healthInArgoCD(t *testing.T, object *unstructured.Unstructured) argoHealth {
	t.Helper()
	if object.GetDeletionTimestamp() != nil {
		return argoHealth{"Progressing", "Pending deletion"}
	}
	return scriptHealth(t, object)
}

// scriptHealth returns what Argo CD's script for an object's kind returns.
func scriptHealth(t *testing.T, object *unstructured.Unstructured) argoHealth {
	t.Helper()
	gvk := object.GroupVersionKind()
	script, err := fs.ReadFile(resource_customizations.Embedded, gvk.Group+"/"+gvk.Kind+"/health.lua")
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
		return argoHealth{}
	}
	raw, err := json.Marshal(object.Object)
	require.NoError(t, err)
	l := lua.NewState() // with the standard library, which Argo CD gives its own scripts
	defer l.Close()
	value, err := luajson.Decode(l, raw)
	require.NoError(t, err)
	l.SetGlobal("obj", value)
	require.NoError(t, l.DoString(string(script)))
	table, ok := l.Get(-1).(*lua.LTable)
	require.True(t, ok, "the script returned %s", l.Get(-1).Type())
	return argoHealth{lua.LVAsString(table.RawGetString("status")), lua.LVAsString(table.RawGetString("message"))}
}

// TestRunsScriptsLikeArgoCD runs Argo CD's own cases for KubeVirt's kinds.
func TestRunsScriptsLikeArgoCD(t *testing.T) {
	for _, kind := range []string{
		"kubevirt.io/VirtualMachine", "kubevirt.io/VirtualMachineInstance", "cdi.kubevirt.io/DataVolume",
	} {
		read := func(name string, into any) {
			raw, err := fs.ReadFile(resource_customizations.Embedded, kind+"/"+name)
			require.NoError(t, err)
			require.NoError(t, yaml.Unmarshal(raw, into))
		}
		var cases struct {
			Tests []struct {
				HealthStatus argoHealth
				InputPath    string
			}
		}
		read("health_test.yaml", &cases)
		require.NotEmpty(t, cases.Tests)
		for _, c := range cases.Tests {
			o := &unstructured.Unstructured{}
			read(c.InputPath, &o.Object)
			require.Equal(t, c.HealthStatus, scriptHealth(t, o), "%s/%s", kind, c.InputPath)
		}
	}
}
