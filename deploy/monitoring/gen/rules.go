package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	promv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"kubevirt.io/kubevirt/pkg/monitoring/rules"
)

const (
	namespace = "virtflow"
	runbooks  = "https://github.com/virtflow/virtflow/blob/main/docs/runbooks.md#"
	// runbook is the annotation of an alert with its runbook.
	runbook = "runbook_url"
)

// kubevirts returns the object that virt-operator would create in virtflow's namespace.
func kubevirts() (*promv1.PrometheusRule, error) {
	if err := rules.SetupRules(namespace); err != nil {
		return nil, fmt.Errorf("reading KubeVirt's rules: %w", err)
	}
	object, err := rules.BuildPrometheusRule(namespace)
	if err != nil {
		return nil, fmt.Errorf("reading KubeVirt's rules: %w", err)
	}
	return object, nil
}

// decide applies the decisions to KubeVirt's rules. A decision about a rule that KubeVirt does not have, or about
// another expression of it, is an error.
func decide(object *promv1.PrometheusRule) error {
	omitted, changed := map[string]bool{}, map[string]change{}
	for _, o := range omissions() {
		omitted[o.name] = true
	}
	for _, c := range changes() {
		changed[c.name] = c
	}
	seen := map[string]bool{}
	for g := range object.Spec.Groups {
		group := &object.Spec.Groups[g]
		var kept []promv1.Rule
		for _, r := range group.Rules {
			seen[title(r)] = true
			if omitted[title(r)] {
				continue
			}
			if c, ok := changed[title(r)]; ok {
				if now := digest(r.Expr.String()); now != c.of {
					return fmt.Errorf("decisions.go: KubeVirt's expression of %s is another one: decide again, with %q",
						c.name, now)
				}
				r.Expr = intstr.FromString(c.expr)
			}
			kept = append(kept, here(r))
		}
		group.Rules = kept
	}
	for _, name := range decided() {
		if !seen[name] {
			return fmt.Errorf("decisions.go: KubeVirt has no rule %s: remove it", name)
		}
	}
	return nil
}

// digest returns the beginning of an expression's SHA-256.
func digest(expr string) string {
	sum := sha256.Sum256([]byte(expr))
	return hex.EncodeToString(sum[:6])
}

// decided returns the names of the rules that decisions are about.
func decided() []string {
	var out []string
	for _, o := range omissions() {
		out = append(out, o.name)
	}
	for _, c := range changes() {
		out = append(out, c.name)
	}
	return out
}

// title returns the name of a rule.
func title(r promv1.Rule) string {
	if r.Alert != "" {
		return r.Alert
	}
	return r.Record
}

// here returns a rule with virtflow's names of components, and its runbook.
func here(r promv1.Rule) promv1.Rule {
	var pairs []string
	for _, c := range components() {
		pairs = append(pairs, c.kubevirt, c.virtflow)
	}
	names := strings.NewReplacer(pairs...)
	r.Expr = intstr.FromString(names.Replace(r.Expr.String()))
	if r.Alert == "" {
		return r
	}
	annotations := map[string]string{}
	for key, text := range r.Annotations {
		annotations[key] = names.Replace(text)
	}
	annotations[runbook] = runbooks + strings.ToLower(r.Alert)
	r.Annotations = annotations
	return r
}
