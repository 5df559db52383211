package base

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/node"
)

func policies(t *testing.T) map[string]*admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	bound, out := map[string]bool{}, map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, o := range objects(t, "policies*.yaml") {
		switch o := o.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			require.Equal(t, admissionregistrationv1.Fail, *o.Spec.FailurePolicy, o.Name)
			out[o.Name] = o
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			require.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				o.Spec.ValidationActions)
			require.Nil(t, o.Spec.MatchResources, "a binding that is narrowed protects less than it says")
			bound[o.Spec.PolicyName] = true
		}
	}
	require.Len(t, out, len(bound))
	for name := range out {
		require.True(t, bound[name], "%s is not in force", name)
	}
	return out
}

// TestNodePolicyPermitsWrittenLabels: the policy permits the labels that virtflow writes, and no label that other
// programs interpret.
func TestNodePolicyPermitsWrittenLabels(t *testing.T) {
	var own *regexp.Regexp
	for _, v := range policies(t)["virtflow-nodes"].Spec.Variables {
		if v.Name == "own" {
			own = regexp.MustCompile(strings.Trim(strings.TrimSpace(v.Expression), `"`))
		}
	}
	require.NotNil(t, own)
	for _, prefix := range append(contract.CapabilityPrefixes(), node.CPUVendorPrefix) {
		require.Regexp(t, own, prefix+"x")
	}
	require.Regexp(t, own, contract.LabelSchedulable)
	require.Regexp(t, own, contract.LabelCPUManager)
	for _, key := range []string{
		corev1.LabelHostname, corev1.LabelTopologyZone, "node-role.kubernetes.io/control-plane",
		"node-restriction.kubernetes.io/tenant", "example.com/tenant",
		"kubevirt.io/schedulable-not", "kubevirt.io/cpumanager-not", "xkubevirt.io/schedulable", "evilvirtflow.io/x", "kubevirt.io",
		"cpu-model.node.kubevirt.io.example.com/x",
	} {
		require.NotRegexp(t, own, key)
	}
}

// TestLauncherPolicyCoversEveryMark: the policy covers every label, annotation and finalizer by which virtflow
// recognises a launcher pod.
func TestLauncherPolicyCoversEveryMark(t *testing.T) {
	conditions := policies(t)["virtflow-launcher-pods"].Spec.MatchConditions
	text := conditions[len(conditions)-1].Expression
	for _, mark := range []string{
		`labels["` + contract.LabelLauncher + `"].orValue("") == "` + contract.LabelLauncherValue + `"`,
		`annotations["` + contract.AnnotationVMISpec + `"].hasValue()`,
		`f == "` + contract.FinalizerPod + `"`,
	} {
		require.Equal(t, 2, strings.Count(text, mark), "of the new object and of the old one: %s", mark)
	}
}
