package main

import (
	"os"
	"strings"
	"testing"

	promv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"kubevirt.io/kubevirt/pkg/monitoring/rules"
)

// TestCommittedRulesAreCurrent: every rule of KubeVirt's is there, or has a decision.
func TestCommittedRulesAreCurrent(t *testing.T) {
	require.NoError(t, run([]string{"verify"}))
	content, err := os.ReadFile(root + "/deploy/monitoring/kubevirt-rules.yaml")
	require.NoError(t, err)
	omitted := map[string]bool{}
	for _, o := range omissions() {
		require.NotEmpty(t, o.reason, o.name)
		require.False(t, omitted[o.name], "%s is there twice", o.name)
		omitted[o.name] = true
	}
	for _, c := range changes() {
		require.NotEmpty(t, c.reason, c.name)
	}
	var all []string
	for _, a := range rules.ListAlerts() {
		all = append(all, "alert: "+a.Alert)
	}
	for _, r := range rules.ListRecordingRules() {
		all = append(all, "record: "+r.MetricsOpts.Name)
	}
	require.NotEmpty(t, all)
	for _, line := range all {
		_, name, _ := strings.Cut(line, ": ")
		require.Equal(t, !omitted[name], strings.Contains(string(content), line+"\n"), line)
	}
	require.NotContains(t, string(content), "virt-operator")
	require.NotContains(t, string(content), "virt-handler")

	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	require.Contains(t, string(mod), "kubevirt.io/kubevirt "+kubevirtVersion+"\n")
}

func TestRefusesStaleDecision(t *testing.T) {
	err := decide(&promv1.PrometheusRule{})
	require.ErrorContains(t, err, "KubeVirt has no rule VirtOperatorDown: remove it")
	another := promv1.Rule{Alert: changes()[1].name, Expr: intstr.FromString("up == 0")}
	err = decide(&promv1.PrometheusRule{Spec: promv1.PrometheusRuleSpec{
		Groups: []promv1.RuleGroup{{Rules: []promv1.Rule{another}}}}})
	require.ErrorContains(t, err, "KubeVirt's expression of "+another.Alert+" is another one: decide again")
}

func TestNamesComponents(t *testing.T) {
	r := here(promv1.Rule{Alert: "NoneReady", Expr: intstr.FromString(`up{pod=~'virt-api-.*'} / x{deployment='virt-controller'}`),
		Annotations: map[string]string{"summary": "Some virt-handlers of virt-launcher"}})
	require.Equal(t, `up{pod=~'virtflow-api-server-.*'} / x{deployment='virtflow-control-worker'}`, r.Expr.String())
	require.Equal(t, map[string]string{"summary": "Some virtflow-node-workers of virt-launcher",
		"runbook_url": runbooks + "noneready"}, r.Annotations)
}

func TestOnlyTwoModes(t *testing.T) {
	require.ErrorContains(t, run([]string{"check"}), `["check"] is neither generate nor verify`)
	require.Error(t, run(nil))
}
