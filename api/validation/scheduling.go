package validation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The scheduling fields are checked as Kubernetes checks those of pods, for which there is no library.

func affinity(s subject) []metav1.StatusCause {
	a := s.spec.Affinity
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if n := a.NodeAffinity; n != nil {
		errs = append(errs, nodeAffinity(n, s.path.Child("nodeAffinity"))...)
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution,
			s.path.Child("podAffinity"))...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution,
			p.PreferredDuringSchedulingIgnoredDuringExecution,
			s.path.Child("podAntiAffinity"))...)
	}
	return causesOf(errs)
}

// causesOf converts the findings of Kubernetes' own rules.
func causesOf(errs field.ErrorList) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, e := range errs {
		e.Detail = olderWords(e.Detail)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: e.Field,
			Message: e.Error()})
	}
	return causes
}

// olderWords replaces texts by those of the release of Kubernetes' rules with which KubeVirt is built: the key of a
// label is a qualified name, and lengths are counted in characters.
func olderWords(text string) string {
	return strings.NewReplacer(
		"a valid label key must consist of", "a qualified name must consist of",
		"must be no more than 63 bytes", "must be no more than 63 characters",
		"must be no more than 253 bytes", "must be no more than 253 characters",
	).Replace(text)
}

const (
	requiredTerms  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferredTerms = "preferredDuringSchedulingIgnoredDuringExecution"
)

func weight(n int32, p *field.Path) field.ErrorList {
	if n > 0 && n <= 100 {
		return nil
	}
	return field.ErrorList{field.Invalid(p, n, "must be in the range 1-100")}
}

func nodeAffinity(a *corev1.NodeAffinity, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		terms := p.Child(requiredTerms, "nodeSelectorTerms")
		if len(r.NodeSelectorTerms) == 0 {
			errs = append(errs, field.Required(terms, "must have at least one node selector term"))
		}
		for i, t := range r.NodeSelectorTerms {
			errs = append(errs, nodeTerm(t, terms.Index(i))...)
		}
	}
	for i, t := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		at := p.Child(preferredTerms).Index(i)
		errs = append(errs, weight(t.Weight, at.Child("weight"))...)
		errs = append(errs, nodeTerm(t.Preference, at.Child("preference"))...)
	}
	return errs
}

func nodeTerm(t corev1.NodeSelectorTerm, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range t.MatchExpressions {
		errs = append(errs, nodeExpression(r, p.Child("matchExpressions").Index(i))...)
	}
	for i, r := range t.MatchFields {
		errs = append(errs, nodeField(r, p.Child("matchFields").Index(i))...)
	}
	return errs
}

func nodeExpression(r corev1.NodeSelectorRequirement, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := p.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values,
				"may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values,
				"must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(p.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	return append(errs, metavalidation.ValidateLabelName(r.Key, p.Child("key"))...)
}

func nodeField(r corev1.NodeSelectorRequirement, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(p.Child("values"),
				"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(p.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(p.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, v := range r.Values {
		for _, message := range apivalidation.NameIsDNSSubdomain(v, false) {
			errs = append(errs, field.Invalid(p.Child("values").Index(i), v, message))
		}
	}
	return errs
}

func podTerms(must []corev1.PodAffinityTerm, prefer []corev1.WeightedPodAffinityTerm, p *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range must {
		errs = append(errs, podTerm(t, p.Child(requiredTerms).Index(i))...)
	}
	for i, t := range prefer {
		at := p.Child(preferredTerms).Index(i)
		errs = append(errs, weight(t.Weight, at.Child("weight"))...)
		errs = append(errs, podTerm(t.PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}

func podTerm(t corev1.PodAffinityTerm, p *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabelSelector(t.LabelSelector, metavalidation.LabelSelectorValidationOptions{},
		p.Child("labelSelector"))
	errs = append(errs, metavalidation.ValidateLabelSelector(t.NamespaceSelector,
		metavalidation.LabelSelectorValidationOptions{}, p.Child("namespaceSelector"))...)
	for _, n := range t.Namespaces {
		for _, message := range apivalidation.ValidateNamespaceName(n, false) {
			errs = append(errs, field.Invalid(p.Child("namespace"), n, message))
		}
	}
	if t.TopologyKey == "" {
		errs = append(errs, field.Required(p.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metavalidation.ValidateLabelName(t.TopologyKey, p.Child("topologyKey"))...)
}

func topologySpread(s subject) []metav1.StatusCause {
	var errs field.ErrorList
	list := s.path.Child("topologySpreadConstraints")
	type kind struct {
		key    string
		action corev1.UnsatisfiableConstraintAction
	}
	left := map[kind]int{}
	for _, c := range s.spec.TopologySpreadConstraints {
		left[kind{c.TopologyKey, c.WhenUnsatisfiable}]++
	}
	for i, c := range s.spec.TopologySpreadConstraints {
		p := list.Index(i)
		if c.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(p.Child("maxSkew"), c.MaxSkew, "must be greater than zero"))
		}
		if c.TopologyKey == "" {
			errs = append(errs, field.Required(p.Child("topologyKey"), "can not be empty"))
		} else {
			errs = append(errs, metavalidation.ValidateLabelName(c.TopologyKey, p.Child("topologyKey"))...)
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			errs = append(errs, field.NotSupported(p.Child("whenUnsatisfiable"), c.WhenUnsatisfiable,
				[]string{string(corev1.DoNotSchedule), string(corev1.ScheduleAnyway)}))
		}
		errs = append(errs, metavalidation.ValidateLabelSelector(c.LabelSelector,
			metavalidation.LabelSelectorValidationOptions{}, list.Child("labelSelector"))...)
		k := kind{c.TopologyKey, c.WhenUnsatisfiable}
		if left[k]--; left[k] > 0 { // it comes again further down
			errs = append(errs, field.Duplicate(p.Child("{topologyKey, whenUnsatisfiable}"),
				fmt.Sprintf("{%s, %s}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
	}
	return causesOf(errs)
}
