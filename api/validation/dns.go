package validation

import (
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a pod's DNS settings, as Kubernetes has them.
const (
	maxNameservers      = 3
	maxSearches         = 6
	maxSearchCharacters = 256
)

func dnsPolicy(s subject) []metav1.StatusCause {
	known := []corev1.DNSPolicy{corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault,
		corev1.DNSNone, ""}
	if slices.Contains(known, s.spec.DNSPolicy) {
		return nil
	}
	return unsupported(s.path.Child("dnsPolicy"), "DNSPolicy: %s is not supported, valid values: %v", s.spec.DNSPolicy,
		known)
}

// dnsConfig names fields without their place, as KubeVirt does.
func dnsConfig(s subject) []metav1.StatusCause {
	c := s.spec.DNSConfig
	nameservers, searches := field.NewPath("nameservers"), field.NewPath("searchDomains")
	if s.spec.DNSPolicy == corev1.DNSNone {
		if c == nil {
			return required(s.path.Child("dnsConfig"), "must provide `dnsConfig` when `dnsPolicy` is None")
		}
		if len(c.Nameservers) == 0 {
			return required(nameservers, "must provide at least one DNS nameserver when `dnsPolicy` is None")
		}
	}
	if c == nil {
		return nil
	}
	var causes []metav1.StatusCause
	if len(c.Nameservers) > maxNameservers {
		causes = append(causes, invalid(nameservers, "must not have more than %d nameservers: %s", maxNameservers,
			c.Nameservers)...)
	}
	for _, ns := range c.Nameservers {
		if net.ParseIP(ns) == nil {
			causes = append(causes, invalid(nameservers, "must be valid IP address: %s", ns)...)
		}
	}
	if len(c.Searches) > maxSearches {
		causes = append(causes, invalid(searches, "must not have more than %d search paths", maxSearches)...)
	}
	if len(strings.Join(c.Searches, " ")) > maxSearchCharacters {
		causes = append(causes, invalid(searches,
			"must not have more than %d characters (including spaces) in the search list", maxSearchCharacters)...)
	}
	for _, search := range c.Searches {
		for _, message := range validation.IsDNS1123Subdomain(search) {
			causes = append(causes, invalid(searches, "%s", message)...)
		}
	}
	for _, o := range c.Options {
		if o.Name == "" {
			causes = append(causes, invalid(field.NewPath("options"), "Option.Name must not be empty")...)
		}
	}
	return causes
}
